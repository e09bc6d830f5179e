"""What is wrong with the cells of a table, or worth knowing of them."""

from collections.abc import Sequence

import numpy as np

from project.data.cells import numbers, unreadable
from project.data.fields import Cells, Field, coded, unknown
from project.data.labelled import Labelled
from project.data.targets import outliers
from project.findings import Finding

_SAME = 0.9999
"""A correlation with the target from which on a column is said to give it away."""


def audit(data: Labelled, fields: list[Field], others: Sequence[str] = ()) -> list[Finding]:
    """Look at the columns that the network is given.

    Args:
        data: The rows.
        fields: What the columns are.
        others: Columns that the network is given in another form, such as texts.
    """
    train = data.cells("train")
    findings = [
        *_missing(train, fields),
        *_unreadable(train, fields, data.names("train")),
        *_copies(data, [*(field["name"] for field in fields), *others]),
        *_given_away(data, fields),
        *(found for split in ("val", "test") for found in new_cells(data, fields, split)),
    ]
    if data.targets.class_names is None:
        values = data.values("train")
        far = [outliers(values[:, k], data.names("train")) for k in range(values.shape[1])]
        findings += [finding for finding in far if finding]
    return findings


def new_cells(data: Labelled, fields: list[Field], split: str) -> list[Finding]:
    """Cells of a split that say what no training row says."""
    return told_of_new(unknown(data.cells(split), fields, data.cells("train")), split)


def told_of_new(items: list[tuple[str, str, float]], where: str) -> list[Finding]:
    """The same in words."""
    advice = "A new category counts as unknown, a missing number as the median."
    title = f"columns with cells in {where} that no training row has"
    some = [(name, told) for name, told, share in items if 2 * share <= 1]
    most = [(name, told) for name, told, share in items if 2 * share > 1]
    findings = [Finding("note", title, some, advice)] if some else []
    if most:
        title = f"columns of which most cells in {where} say what no training row says"
        advice += " Are they written in another way, or is it another column?"
        findings.append(Finding("warning", title, most, advice))
    return findings


def _missing(train: Cells, fields: list[Field]) -> list[Finding]:
    items = []
    for field in fields:
        column = train[field["name"]]
        blank = (
            sum(not cell.strip() for cell in column)
            if "values" in field
            else int(np.isnan(numbers(column)).sum())
        )
        if blank:
            items.append((blank / len(column), field["name"]))
    told = [(name, f"{share:.1%}") for share, name in sorted(items, reverse=True)]
    return [Finding("note", "columns with missing cells in training", told)] if told else []


def _unreadable(train: Cells, fields: list[Field], names: Sequence[str]) -> list[Finding]:
    items = []
    for field in fields:
        column = train[field["name"]]
        if "values" not in field:
            wrong = set(unreadable(column, numbers(column)))
            items += [
                (names[row], f"{field['name']}: {cell!r}")
                for row, cell in enumerate(column) if cell in wrong
            ]  # fmt: skip
    advice = "They count as missing. If the column is no number: --data.columns.categories."
    title = "cells of columns of numbers that hold none"
    return [Finding("warning", title, items, advice)] if items else []


def _copies(data: Labelled, given: list[str]) -> list[Finding]:
    """Rows of the same cells and target in several splits."""
    rows = data.rows
    columns = [rows.cells[name] for name in (*given, *data.targets.columns)]
    split = {n: name for name, members in data.of_split.items() for n in members.tolist()}
    first: dict[tuple[str, ...], int] = {}
    items = []
    for row, cells in enumerate(zip(*columns, strict=True)):
        other = first.setdefault(cells, row)
        if split[row] != split[other]:
            items.append((rows.names[row], f"{split[row]}, as {rows.names[other]}, {split[other]}"))
    advice = "What is tested was trained on: keep one of each, or name a --data.columns.group."
    return [Finding("warning", "equal rows in several splits", items, advice)] if items else []


def _given_away(data: Labelled, fields: list[Field]) -> list[Finding]:
    """Columns from which alone the target follows."""
    values = data.values("train")
    rows = coded(data.cells("train"), fields).astype(np.float64)  # [N, columns]
    items = []
    for position, field in enumerate(fields):
        column = rows[:, position]
        for number, name in enumerate(data.targets.columns):
            target = values if values.ndim == 1 else values[:, number]
            if _same(column, target, classes=values.ndim == 1, categories="values" in field):
                items.append((field["name"], f"tells {name}"))
    advice = "If it is only known with the target: --data.columns.ignored."
    title = "columns that give the target away"
    return [Finding("warning", title, items, advice)] if items else []


def _same(column: np.ndarray, target: np.ndarray, *, classes: bool, categories: bool) -> bool:
    known = ~np.isnan(column)
    column, target = column[known], target[known]
    if len(column) < 20 or len(np.unique(column)) < 2 or len(np.unique(target)) < 2:
        return False
    if classes:  # each of few values goes with one class alone
        distinct, codes = np.unique(column, return_inverse=True)
        pairs = len(np.unique(np.stack([codes, target]), axis=1)[0])
        return pairs == len(distinct) and 2 * len(distinct) <= len(column)
    return not categories and abs(float(np.corrcoef(column, target)[0, 1])) > _SAME
