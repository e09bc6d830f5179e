"""What the columns of a table are to the network: numbers, categories, or nothing.

Decided by the rows of the training split alone, then applied to all.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from project.data.cells import are_categories, numbers, says_nothing, unreadable
from project.errors import UserError, suggestion
from project.findings import Finding

NUMBER_SHARE = 0.95
"""A column is one of numbers if so many of its cells that say something are."""

MAX_VALUES = 100
"""The most frequent values of a category are kept, that many; the others are unknown."""

RARE = 3
"""A value of a category that fewer training rows have is unknown, so that the network learns what
to make of one that it does not know."""

TAIL = 0.001
"""Share of the training rows at either end that do not stretch a number's scale: a slip such as
1,000,000 for 100 would otherwise leave no difference between all others."""

Cells = Mapping[str, list[str]]
Field = dict[str, Any]
"""A column as `TablePreprocessing` takes it."""


@dataclass
class Fields:
    """Which column of a table is what. Columns that are not named are judged by their cells.

    Args:
        target: The column to predict, or several columns of numbers; None looks for one called
            target, label, class or the like.
        numbers: Columns that are numbers. A cell that is none counts as missing.
        categories: Columns that are categories, such as a postcode.
        ignored: Columns that the network is not given.
        split: The column that says train, val or test; None takes one that is called so.
        group: The column of what must not be divided between splits, such as a patient.
        sheet: The sheet of an Excel workbook; None takes the first that is not empty.
        unlabelled: Classes that mean that there is none. Blank cells always do.
        merge_similar: Make one class of targets that differ only in case or in blanks.
    """

    target: list[str] | str | None = None
    numbers: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    split: str | None = None
    group: str | None = None
    sheet: str | None = None
    unlabelled: tuple[str, ...] = ()
    merge_similar: bool = False

    def check(self, columns: Sequence[str], path: object) -> None:
        """Refuse names that no column has.

        Raises:
            UserError: There is one.
        """
        targets = [self.target] if isinstance(self.target, str) else self.target or []
        named = {
            "target": targets, "numbers": self.numbers, "categories": self.categories,
            "ignored": self.ignored, "split": filter(None, [self.split]),
            "group": filter(None, [self.group]),
        }  # fmt: skip
        for option, names in named.items():
            for name in names:
                if name not in columns:
                    raise UserError(
                        f"--data.columns.{option} names {name!r}, and {path} has no such column."
                        + suggestion(name, columns)
                    )


def fitted(
    cells: Cells, names: Sequence[str], columns: Fields, *, bins: int
) -> tuple[list[Field], list[Finding]]:
    """What each column becomes, by the cells of the training rows.

    Args:
        cells: By column, of the training rows.
        names: Columns that may be given to the network.
        columns: What the user says.
        bins: Of each number, for `TablePreprocessing`.

    Raises:
        UserError: No column is left.
    """
    fields: list[Field] = []
    ignored: list[tuple[str, str]] = []
    for name in names:
        if name in columns.ignored:
            continue
        stated = name in columns.numbers or name in columns.categories
        found = numbers(cells[name])
        is_number = name in columns.numbers or (
            name not in columns.categories and are_numbers(cells[name], found)
        )
        reason = _useless(cells[name], found, is_number=is_number, stated=stated)
        if reason:
            ignored.append((name, reason))
        elif is_number:
            fields.append(_number(name, found, bins))
        else:
            fields.append({"name": name, "values": _values(cells[name])})
    findings = _ignored(ignored)
    if not fields:
        told = ", ".join(f"{name} ({reason})" for name, reason in ignored)
        raise UserError(
            f"No column is left to predict from: {told or 'all are ignored'}. Name those that are "
            "of use, --data.columns.numbers or --data.columns.categories."
        )
    return fields, findings


def coded(cells: Cells, fields: list[Field]) -> np.ndarray:
    """Rows as `TablePreprocessing` takes them: float32 [N, columns]."""
    return np.stack([_coded(cells[field["name"]], field) for field in fields], axis=1)


def unknown(cells: Cells, fields: list[Field], known: Cells) -> list[tuple[str, str, float]]:
    """By column how many cells say what no training row says, which, and the share of all cells.

    Args:
        cells: Of rows that were not trained on.
        fields: What was fitted.
        known: The training rows.
    """
    found = []
    for field in fields:
        column, trained = cells[field["name"]], {c.strip() for c in known[field["name"]]}
        if "values" in field:
            new = [cell.strip() for cell in column if cell.strip() not in trained]
        else:
            values = numbers(column)
            new = unreadable(column, values)
            if not field["missing"]:
                new += ["blank"] * (int(np.isnan(values).sum()) - len(new))
        if new:
            examples = ", ".join(repr(value) for value in list(dict.fromkeys(new))[:3])
            told = f"{len(new):,} cells, such as {examples}"
            found.append((field["name"], told, len(new) / len(column)))
    return found


def _coded(cells: list[str], field: Field) -> np.ndarray:
    if "values" not in field:
        return numbers(cells).astype(np.float32)
    number = {value: position for position, value in enumerate(field["values"])}
    return np.array([number.get(cell.strip(), np.nan) for cell in cells], dtype=np.float32)


def are_numbers(cells: list[str], found: np.ndarray) -> bool:
    """Whether nearly all cells that say something are numbers."""
    saying = sum(not says_nothing(cell) for cell in cells)
    return saying > 0 and int((~np.isnan(found)).sum()) >= NUMBER_SHARE * saying


def _useless(cells: list[str], found: np.ndarray, *, is_number: bool, stated: bool) -> str | None:
    """Why a column can't help, or would do harm; None if it may help."""
    known = found[~np.isnan(found)]
    if is_number and not len(known):
        return "no number"
    if len({cell.strip() for cell in cells}) < 2 or (
        is_number and len(np.unique(known)) < 2 and len(known) == len(found)
    ):
        return "the same in all training rows"
    if stated:
        return None
    if is_number:
        return "counts the rows" if _counts_rows(known) else None
    return None if are_categories(cells) else "text that hardly repeats"


def _counts_rows(known: np.ndarray) -> bool:
    """Whether a column numbers the rows: whole, rising from row to row, from about 0, with few gaps
    (of other splits)."""
    return (
        len(known) >= 20
        and bool((known == np.floor(known)).all() and (np.diff(known) > 0).all())
        and known[0] <= 20
        and known[-1] < 10 * len(known)
    )


def _number(name: str, found: np.ndarray, bins: int) -> Field:
    known = found[~np.isnan(found)]
    low, high = np.quantile(known, [TAIL, 1 - TAIL])
    known = known.clip(low, high) if low < high else known
    edges = np.unique(np.quantile(known, np.linspace(0, 1, bins + 1))) if bins else known[:0]
    return {
        "name": name,
        "median": float(np.median(known)),
        "mean": float(known.mean()),
        "std": float(known.std()) or 1.0,
        "edges": edges.tolist() if len(edges) > 1 else [],
        "missing": bool(np.isnan(found).any()),
    }


def _values(cells: list[str]) -> list[str]:
    """The values of a category, the most frequent first; a blank cell is a value as well."""
    counts = Counter(cell.strip() for cell in cells)
    frequent = [value for value, count in counts.items() if count >= RARE] or list(counts)
    return sorted(frequent, key=lambda value: (-counts[value], value))[:MAX_VALUES]


def _ignored(items: list[tuple[str, str]]) -> list[Finding]:
    if not items:
        return []
    advice = "If one is of use: --data.columns.numbers or --data.columns.categories."
    return [Finding("note", "columns that the network is not given", items, advice)]
