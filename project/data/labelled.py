"""The rows of a table with their targets and splits."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from project.data.coverage import coverage, divided_by_class
from project.data.datamodule import SPLITS
from project.data.fields import Cells, Fields
from project.data.folders import SPLIT_FOLDERS
from project.data.rows import Rows, splits_of
from project.data.splits import Splits, divided, rows_of
from project.data.targets import TargetKind, Targets, targets, without
from project.errors import UserError
from project.findings import Finding


@dataclass
class Labelled:
    """Rows that have a target.

    Args:
        rows: Of all splits.
        targets: Theirs.
        of_split: Numbers of the rows of each split.
        candidates: Columns that are neither target nor split nor group.
        findings: What is wrong or worth knowing.
    """

    rows: Rows
    targets: Targets
    of_split: dict[str, np.ndarray]
    candidates: list[str]
    findings: list[Finding]

    def cells(self, split: str) -> Cells:
        """The candidates' cells, by column."""
        rows = self.of_split[split].tolist()
        return {name: [self.rows.cells[name][row] for row in rows] for name in self.candidates}

    def values(self, split: str) -> np.ndarray:
        """The targets: float64 [N, K] or int64 [N]."""
        return self.targets.values[self.of_split[split]]

    def names(self, split: str) -> list[str]:
        """Of the rows, such as `train.csv:12`."""
        return [self.rows.names[row] for row in self.of_split[split].tolist()]

    def meanings(self) -> dict[str, Any]:
        """What a task is told, by the names of `project.batches.MEANINGS`."""
        train, class_names = self.values("train"), self.targets.class_names
        if class_names is not None:
            counts = np.bincount(train, minlength=len(class_names)).tolist()
            return {"class_names": class_names, "class_counts": counts}
        return {
            "target_names": self.targets.columns,
            "target_mean": train.mean(axis=0).tolist(),
            "target_std": train.std(axis=0).tolist(),
        }

    @property
    def num_outputs(self) -> int:
        """Numbers that are predicted for a row."""
        return len(self.targets.class_names or self.targets.columns)


def labelled(rows: Rows, said: Fields, kind: TargetKind, splits: Splits) -> Labelled:
    """Read the targets of a table's rows and divide those that have one.

    Raises:
        UserError: A column that is named does not exist, there is nothing to predict, or no row is
            left to train on.
    """
    said.check(rows.columns, rows.table.path)
    split_column = said.split or _split_column(rows)
    stated = splits_of(rows, split_column)
    found = targets(rows, said, kind)
    known = found.known
    findings = [*rows.findings, *found.findings, *without(rows, known)]
    kept = np.flatnonzero(known).tolist()
    rows, values = rows.kept(kept), found.values[known]
    found = Targets(found.columns, values, found.class_names)
    split, more = _divided(
        rows.names,
        found,
        splits,
        stated=[stated[row] for row in kept],
        groups=rows.cells[said.group] if said.group else None,
    )
    of_split = rows_of(split)
    empty = [split for split in SPLITS if not len(of_split[split])]
    if empty:
        raise UserError(
            f"{rows.table.path}: of {len(kept)} rows with a target none is left for "
            f"{' and '.join(empty)}. Add rows, or change --data.splits."
        )
    findings += more
    others = {*found.columns, split_column, said.group}
    candidates = [name for name in rows.columns if name not in others]
    return Labelled(rows, found, of_split, candidates, findings)


def _split_column(rows: Rows) -> str | None:
    """A column that is called `split`, or the like, and says nothing else."""
    for name in rows.columns:
        if name.strip().lower() in ("split", "subset", "partition", "set"):
            said = {cell.strip().lower() for cell in rows.cells[name]}
            if len(said) > 1 and said <= set(SPLIT_FOLDERS):
                return name
    return None


def _divided(
    names: list[str],
    found: Targets,
    splits: Splits,
    *,
    stated: list[str],
    groups: list[str] | None,
) -> tuple[np.ndarray, list[Finding]]:
    """A split for every row, and what is worth knowing: classes or amounts that can't be learnt."""
    if found.class_names is not None:
        split, findings = divided_by_class(
            names, found.values, found.class_names, splits, stated=stated, groups=groups, what="row"
        )
        return split, findings + coverage(names, found.values, split, found.class_names, what="row")
    split = divided(names, found.strata(), splits, stated=stated, groups=groups)
    told = ", ".join(f"{name} {len(rows):,}" for name, rows in rows_of(split).items())
    findings = [Finding("note", f"rows by split: {told}")]
    spread = found.values[split == "train"].std(axis=0)
    constant = [(n, "") for n, std in zip(found.columns, spread, strict=True) if std == 0]
    if constant:
        title = "targets that are the same in all training rows"
        findings.append(Finding("error", title, constant, "Divide otherwise: --data.splits.seed."))
    return split, findings
