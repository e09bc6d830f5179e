"""Which images there are, what each is, and to which split it belongs; no image is opened."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from project.data.columns import Columns
from project.data.coverage import counts_by_split, coverage, divided_by_class
from project.data.folders import IMAGES, Kind, listed, text_array
from project.data.labels import classes
from project.data.samples import of_folders, of_table
from project.data.splits import Splits
from project.data.tables import read_table
from project.errors import UserError
from project.findings import Finding


@dataclass
class Index:
    """Labelled files, as arrays of fixed width.

    Args:
        root: The folder that `names` start from.
        names: Files, with `/`: text [N].
        target: Class numbers: int64 [N]; of several labels each, 1 or 0: int64 [N, C].
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
        return counts_by_split(self.target, self.split, self.class_names)


def index(
    root: Path, table: Path | None, columns: Columns, splits: Splits, *, kind: Kind = IMAGES
) -> Index:
    """Read the labels of the files below a folder from a table or from the folders' names.

    Args:
        root: The folder.
        table: The table; None takes the folders' names.
        columns: How the table is read.
        splits: How samples are divided where the data don't say.
        kind: What the files are.

    Raises:
        UserError: There is nothing to train on: no file, no table that can be read, no column of
            labels, fewer than two classes.
    """
    what = kind.what
    files = listed(root, kind)
    if table is not None:  # which may be a CSV among such
        files.names = [name for name in files.names if root / name != table]
    if not files.names and table is None:
        raise UserError(
            f"There is no {what} below {root}. --data.root is the folder the {what}s lie in."
        )
    if table is None:
        samples = of_folders(files)
    else:
        samples = of_table(files, read_table(table, sheet=columns.sheet), columns)
    try:
        found = classes(
            samples.labels, unlabelled=columns.unlabelled, merge_similar=columns.merge_similar,
            separator=columns.separator,
        )  # fmt: skip
    except UserError as error:  # whatever else was found may be the reason
        told = [f"- {each.line()}" for each in samples.findings if each.severity != "note"]
        raise UserError("\n".join([str(error), *told])) from None
    keep = np.flatnonzero(found.labelled)
    findings = [*files.findings(), *samples.findings, *found.findings]
    names = [samples.names[row] for row in keep]
    target = found.target[keep]
    split, more = divided_by_class(
        names, target, found.names, splits, what=what,
        stated=[samples.splits[row] for row in keep],
        groups=[samples.groups[row] for row in keep] if samples.groups else None,
    )  # fmt: skip
    more += coverage(names, target, split, found.names, what=what)
    return Index(
        root, text_array(names), target, split, found.names, found.mapping, [*findings, *more]
    )
