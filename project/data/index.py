"""Which images there are, what each is, and to which split it belongs; no image is opened."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from project.data.columns import Columns
from project.data.folders import listed, text_array
from project.data.labels import UNLABELLED, Classes, classes
from project.data.samples import Samples, of_folders, of_table
from project.data.splits import Splits, divided, rows_of
from project.data.tables import read_table
from project.errors import UserError
from project.findings import Finding

FEW = 10
"""A class with fewer training images is warned about."""

IMBALANCE = 10
"""As is a largest class of more than so many times the smallest."""


@dataclass
class Index:
    """Labelled images, as arrays of fixed width.

    Args:
        root: The folder that `names` start from.
        names: Files, with `/`: text [N].
        target: Class numbers: int64 [N].
        split: Names of splits: text [N].
        class_names: What the class numbers mean.
        mapping: Class number of every way in which a label was written.
        findings: What is wrong or worth knowing.
    """

    root: Path
    names: np.ndarray
    target: np.ndarray
    split: np.ndarray
    class_names: list[str]
    mapping: dict[str, int]
    findings: list[Finding]

    def counts(self) -> dict[str, dict[str, int]]:
        """Images by split and class."""
        found = {}
        for split in ("train", "val", "test"):
            numbers = np.bincount(self.target[self.split == split], minlength=len(self.class_names))
            found[split] = dict(zip(self.class_names, numbers.tolist(), strict=True))
        return found


def index(root: Path, table: Path | None, columns: Columns, splits: Splits) -> Index:
    """Read the labels of the images below a folder from a table or from the folders' names.

    Raises:
        UserError: There is nothing to train on: no image, no table that can be read, no column of
            labels, fewer than two classes.
    """
    files = listed(root)
    if not files.names and table is None:
        raise UserError(
            f"There is no image below {root}. --data.root is the folder the images lie in."
        )
    if table is None:
        samples = of_folders(files)
    else:
        samples = of_table(files, read_table(table, sheet=columns.sheet), columns)
    try:
        found = classes(
            samples.labels, unlabelled=columns.unlabelled, merge_similar=columns.merge_similar
        )
    except UserError as error:  # whatever else was found may be the reason
        told = [f"- {each.line()}" for each in samples.findings if each.severity != "note"]
        raise UserError("\n".join([str(error), *told])) from None
    keep = np.flatnonzero(found.target != UNLABELLED)
    findings = [*files.findings(), *samples.findings, *found.findings]
    split, more = _divided(samples, found, keep, splits)
    result = Index(
        root, text_array([samples.names[row] for row in keep]), found.target[keep], split,
        found.names, found.mapping, [*findings, *more],
    )  # fmt: skip
    result.findings += _coverage(result)
    return result


def _divided(
    samples: Samples, found: Classes, keep: np.ndarray, settings: Splits
) -> tuple[np.ndarray, list[Finding]]:
    """Splits of the labelled samples: as given; what is not given is taken from train by seed."""
    stated = [samples.splits[row] for row in keep]
    groups = [samples.groups[row] for row in keep] if samples.groups else None
    target = found.target[keep]
    names = [samples.names[row] for row in keep]
    split = divided(names, target, settings, stated=stated, groups=groups)
    by_seed = [name for name in ("val", "test") if name not in set(stated)]
    if not by_seed and settings.fold is None:
        return split, []
    told = ", ".join(f"{name} {len(rows):,}" for name, rows in rows_of(split).items())
    findings = [Finding("note", f"divided by seed {settings.seed}: {told}")]
    shares = [*by_seed, "train"]
    target = target[[each not in ("val", "test") for each in stated]]
    counts = np.bincount(target, minlength=len(found.names))
    small = [
        (found.names[n], f"{count}")
        for n, count in enumerate(counts.tolist()) if 0 < count < len(shares)
    ]  # fmt: skip
    if small:
        findings.append(
            Finding("error", "class with fewer images than there are splits", small,
                    "Add images, or leave the class out by its name in --data.columns.unlabelled. "
                    "If the labels are amounts, this is no classification.")
        )  # fmt: skip
    return split, findings


def _coverage(found: Index) -> list[Finding]:
    """Classes that a split lacks, or has too few or too many of."""
    findings = []
    counts = found.counts()
    train = counts["train"]
    unknown = [
        (name, ", ".join(found.names[(found.target == number)][:2]))
        for number, name in enumerate(found.class_names) if not train[name]
    ]  # fmt: skip
    if unknown:
        findings.append(
            Finding("error", "class without a training image", unknown,
                    "Nothing can be learnt of it: add training images, or leave the class out.")
        )  # fmt: skip
    for split in ("val", "test"):
        absent = [(name, "") for name, count in counts[split].items() if not count]
        if absent:
            findings.append(
                Finding("warning", f"class without a {split} image", absent,
                        "Nothing is measured of it.")
            )  # fmt: skip
    few = [(name, f"{count}") for name, count in train.items() if 0 < count < FEW]
    if few:
        findings.append(Finding("warning", f"class with fewer than {FEW} training images", few))
    largest, smallest = max(train.values()), min(filter(None, train.values()), default=0)
    if smallest and largest > IMBALANCE * smallest:
        extremes = [(name, f"{count}") for name, count in train.items()
                    if count in (largest, smallest)]  # fmt: skip
        findings.append(
            Finding("warning", f"largest class over {IMBALANCE} times the smallest", extremes,
                    "Look at the mean over the classes: --checkpoint.monitor val_accuracy_macro.")
        )  # fmt: skip
    return findings
