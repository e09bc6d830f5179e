"""What the rows of a table are to be predicted as: numbers in the user's units, or classes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from project.data.cells import numbers, unreadable
from project.data.columns import USUAL, plain
from project.data.fields import Fields
from project.data.labels import UNLABELLED, classes
from project.data.rows import Rows
from project.errors import UserError
from project.findings import Finding

TargetKind = Literal["auto", "numbers", "classes"]

_FEW_VALUES = 20
_FAR = 20.0
_DECILES = 10


@dataclass
class Targets:
    """The targets of all rows.

    Args:
        columns: That they stand in.
        values: float64 [N, K] in the user's units, NaN for none; or class numbers, int64 [N].
        class_names: What class numbers mean; None for numbers.
        findings: What is wrong or worth knowing.
    """

    columns: list[str]
    values: np.ndarray
    class_names: list[str] | None = None
    findings: list[Finding] = field(default_factory=list)

    @property
    def known(self) -> np.ndarray:
        """Which rows have one: bool [N]."""
        if self.class_names is not None:
            return self.values != UNLABELLED
        return np.asarray(np.isfinite(self.values).all(axis=1))

    def strata(self) -> np.ndarray:
        """What splits should have in the same proportions: the class, or the tenth of the range."""
        if self.class_names is not None:
            return self.values
        rank = np.argsort(np.argsort(self.values[:, 0], kind="stable"), kind="stable")
        return rank * _DECILES // len(rank) if len(rank) >= 3 * _DECILES else rank * 0


def target_columns(columns: Sequence[str], said: Fields, path: object) -> list[str]:
    """The columns to predict: those named, else the one with a usual name.

    Raises:
        UserError: None is known to be one, or several could be.
    """
    if said.target:
        return [said.target] if isinstance(said.target, str) else list(said.target)
    usual = [name for name in columns if plain(name) in USUAL["label"]]
    if len(usual) == 1:
        return usual
    which = f"the columns {usual} could each be meant" if usual else f"found {', '.join(columns)}"
    raise UserError(
        f"{path}: which column is to be predicted? {which[0].upper()}{which[1:]}. Name it: "
        f"--data.columns.target {(usual or columns)[-1]!r}."
    )


def targets(rows: Rows, said: Fields, kind: TargetKind) -> Targets:
    """Read the column or columns to predict.

    Args:
        rows: The table's.
        said: What the user says of its columns.
        kind: `auto` takes a column of numbers for numbers, any other for classes.

    Raises:
        UserError: There is nothing to predict, or several columns of classes.
    """
    columns = target_columns(rows.columns, said, rows.table.path)
    values = np.stack([numbers(rows.cells[name]) for name in columns], axis=1)  # [N, K]
    read = np.isfinite(values).sum()
    written = sum(bool(cell.strip()) for name in columns for cell in rows.cells[name])
    if kind == "numbers" or (kind == "auto" and written and 2 * read > written):
        return _numbers(rows, columns, values, guessed=kind == "auto")
    if len(columns) > 1:
        raise UserError(
            f"{rows.table.path}: the targets {columns} are not all numbers. Several columns can be "
            "predicted at once if they are; of classes, one: --data.columns.target."
        )
    found = classes(
        rows.cells[columns[0]], unlabelled=said.unlabelled, merge_similar=said.merge_similar
    )
    return Targets(columns, found.target, found.names, found.findings)


def outliers(values: np.ndarray, names: Sequence[str]) -> Finding | None:
    """Targets far from all others, each of which can outweigh them in a mean of squares.

    Args:
        values: float64 [N], none missing.
        names: Of the rows.
    """
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    if high == low:
        return None
    far = np.flatnonzero(np.abs(values - middle) > _FAR * (high - low))
    if not len(far):
        return None
    far = far[np.argsort(-np.abs(values[far] - middle), kind="stable")]
    items = [(names[row], f"{values[row]:g}, half of all are {low:g} to {high:g}") for row in far]
    return Finding("warning", "targets far from all others", items,
                   "Mend them if they are wrong; else --model.loss smooth_l1.")  # fmt: skip


def _numbers(rows: Rows, columns: list[str], values: np.ndarray, *, guessed: bool) -> Targets:
    values = np.where(np.isfinite(values), values, np.nan)
    findings = []
    for position, name in enumerate(columns):
        wrong = set(unreadable(rows.cells[name], values[:, position]))
        items = [(rows.names[n], repr(c)) for n, c in enumerate(rows.cells[name]) if c in wrong]
        if items:
            findings.append(_left_out(f"targets in {name!r} that are no number", items))
        known = values[~np.isnan(values[:, position]), position]
        distinct = np.unique(known)
        if len(distinct) < 2:
            raise UserError(
                f"{rows.table.path}: the column {name!r} holds "
                f"{f'one number only, {distinct[0]:g}' if len(distinct) else 'no number'}; there "
                "is nothing to predict. Choose another, --data.columns.target."
            )
        if guessed and len(distinct) <= _FEW_VALUES and (distinct == np.floor(distinct)).all():
            what = f"{name!r} has {len(distinct)} different values, taken for amounts"
            findings.append(
                Finding("note", what, advice="If they are classes: --data.target_kind classes.")
            )
    return Targets(columns, values, None, findings)


def without(rows: Rows, known: np.ndarray) -> list[Finding]:
    """A finding about the rows that have no target, if there are any."""
    items = [(rows.names[row], "") for row in np.flatnonzero(~known)]
    return [_left_out("rows without a target", items)] if items else []


def _left_out(title: str, items: list[tuple[str, str]]) -> Finding:
    advice = "Mend them, or leave them out: --data.on_bad skip."
    return Finding("error", title, items, advice, skippable=True)
