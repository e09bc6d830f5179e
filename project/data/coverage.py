"""How the classes are spread over the splits: made even where that is ours to choose, and told."""

import numpy as np

from project.data.labels import counted, strata
from project.data.splits import Splits, divided, rows_of
from project.findings import Finding

FEW = 10
"""A class with fewer training samples is warned about."""

IMBALANCE = 10
"""As is a largest class of more than so many times the smallest."""


def divided_by_class(
    names: list[str],
    target: np.ndarray,
    class_names: list[str],
    settings: Splits,
    *,
    stated: list[str],
    groups: list[str] | None,
    what: str = "image",
) -> tuple[np.ndarray, list[Finding]]:
    """Splits of labelled samples: as stated; what is not stated is taken from train by seed.

    Args:
        names: Of the samples [N], each once.
        target: Class numbers [N], or of several labels each [N, C].
        class_names: What the class numbers mean.
        settings: The shares, the seed, the fold.
        stated: Names of splits [N], blank where none is stated.
        groups: What must not be divided between splits [N].
        what: What a sample is called.

    Returns:
        A split for every sample [N], and what is worth knowing.
    """
    split = divided(names, strata(target), settings, stated=stated, groups=groups)
    by_seed = [name for name in ("val", "test") if name not in set(stated)]
    if not by_seed and settings.fold is None:
        return split, []
    told = ", ".join(f"{name} {len(rows):,}" for name, rows in rows_of(split).items())
    findings = [Finding("note", f"divided by seed {settings.seed}: {told}")]
    shares = [*by_seed, "train"]
    target = target[[each not in ("val", "test") for each in stated]]
    small = [
        (class_names[n], f"{count}")
        for n, count in enumerate(counted(target, len(class_names))) if 0 < count < len(shares)
    ]  # fmt: skip
    if small:
        findings.append(
            Finding("error", f"class with fewer {what}s than there are splits", small,
                    f"Add {what}s, or leave the class out by its name in "
                    "--data.columns.unlabelled. If the labels are amounts, this is no "
                    "classification.")
        )  # fmt: skip
    return split, findings


def counts_by_split(
    target: np.ndarray, split: np.ndarray, class_names: list[str]
) -> dict[str, dict[str, int]]:
    """Samples by split and class."""
    found = {}
    for name, rows in rows_of(split).items():
        numbers = counted(target[rows], len(class_names))
        found[name] = dict(zip(class_names, numbers, strict=True))
    return found


def coverage(
    names: list[str],
    target: np.ndarray,
    split: np.ndarray,
    class_names: list[str],
    *,
    what: str = "image",
) -> list[Finding]:
    """Classes that a split lacks, or has too few or too many of.

    Args:
        names: Of the samples [N].
        target: Class numbers [N], or of several labels each [N, C].
        split: Names of splits [N].
        class_names: What the class numbers mean.
        what: What a sample is called.
    """
    findings = []
    counts = counts_by_split(target, split, class_names)
    train = counts["train"]
    unknown = [
        (name, ", ".join(names[row] for row in _of_class(target, number)[:2].tolist()))
        for number, name in enumerate(class_names) if not train[name]
    ]  # fmt: skip
    if unknown:
        findings.append(
            Finding("error", f"class without a training {what}", unknown,
                    f"Nothing can be learnt of it: add training {what}s, or leave the class out.")
        )  # fmt: skip
    for name in ("val", "test"):
        absent = [(each, "") for each, count in counts[name].items() if not count]
        if absent:
            findings.append(
                Finding("warning", f"class without a {name} {what}", absent,
                        "Nothing is measured of it.")
            )  # fmt: skip
    few = [(name, f"{count}") for name, count in train.items() if 0 < count < FEW]
    if few:
        findings.append(Finding("warning", f"class with fewer than {FEW} training {what}s", few))
    largest, smallest = max(train.values()), min(filter(None, train.values()), default=0)
    if smallest and largest > IMBALANCE * smallest:
        extremes = [(name, f"{count}") for name, count in train.items()
                    if count in (largest, smallest)]  # fmt: skip
        findings.append(
            Finding("warning", f"largest class over {IMBALANCE} times the smallest", extremes,
                    "Look at the mean over the classes: --checkpoint.monitor val_accuracy_macro; "
                    "or weight them: --model.class_weights balanced.")
        )  # fmt: skip
    return findings


def uncovered(counts: dict[str, dict[str, int]], what: str) -> list[Finding]:
    """Classes that a split of annotated images lacks.

    Args:
        counts: Of what is annotated, by split and class.
        what: What is counted, such as `pixel`.
    """
    if not any(counts["train"].values()):
        advice = "There is nothing to learn: look at the annotations and at the splits."
        return [Finding("error", f"no training {what} has a class", advice=advice)]
    findings = []
    advice = {"train": "Nothing can be learnt of it: add some, or leave the class out."}
    for split, of_class in counts.items():
        absent = [(name, "") for name, count in of_class.items() if not count]
        if absent:
            title = f"class without a {'training' if split == 'train' else split} {what}"
            told = advice.get(split, "Nothing is measured of it.")
            findings.append(Finding("warning", title, absent, told))
    return findings


def _of_class(target: np.ndarray, number: int) -> np.ndarray:
    """The rows of a class."""
    return np.flatnonzero(target[:, number] == 1 if target.ndim == 2 else target == number)
