"""What a table's cells say: numbers however people write them, and nothing."""

import math
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

NOTHING = {
    "", "na", "n/a", "#n/a", "nan", "none", "null", "?", "-", "--", "missing", "unknown", "inf",
    "-inf", "+inf",
}  # fmt: skip
"""Cells of a column of numbers that say that there is none, in lower case."""

_AROUND = " \t%€$£¥"
_BLANKS = re.compile("[\\s'\u2019\u00a0\u2009\u202f_]")  # between thousands
_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")
_GROUPED_BY_DOTS = re.compile(r"[+-]?\d{1,3}(\.\d{3}){2,}")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def numbers(cells: Sequence[str]) -> np.ndarray:
    """The numbers of a column's cells; NaN where a cell says none.

    Currency and percent signs and blanks between thousands are passed over. Whether a comma stands
    before decimals or between thousands is decided for the column as a whole: `1,234` alone is
    taken for thousands, beside `0,5` for decimals.

    Returns:
        float64 [N].
    """
    written = [_BLANKS.sub("", cell.strip(_AROUND)) for cell in cells]
    decimal_comma = _has_decimal_commas(written)
    return np.array([_number(cell, decimal_comma=decimal_comma) for cell in written], np.float64)


def says_nothing(cell: str) -> bool:
    """Whether a cell of a column of numbers means that there is none."""
    return cell.strip().lower() in NOTHING


def unreadable(cells: Sequence[str], found: np.ndarray) -> list[str]:
    """Cells that hold something but no number."""
    return [c for c, n in zip(cells, found, strict=True) if math.isnan(n) and not says_nothing(c)]


def are_categories(cells: Sequence[str]) -> bool:
    """Whether text repeats enough to tell groups of rows by: half of the rows share a word."""
    counts = Counter(cell.strip() for cell in cells if cell.strip())
    shared = sum(count for count in counts.values() if count > 1)
    return 2 * shared >= counts.total()


def _has_decimal_commas(written: list[str]) -> bool:
    with_comma = [cell for cell in written if "," in cell]
    if not with_comma:
        return any(_GROUPED_BY_DOTS.fullmatch(cell) for cell in written)
    if any(cell.rfind(".") > cell.rfind(",") for cell in with_comma):
        return False
    return not all(_GROUPED.fullmatch(cell) for cell in with_comma)


def _number(cell: str, *, decimal_comma: bool) -> float:
    if decimal_comma:
        cell = cell.replace(".", "").replace(",", ".") if "," in cell else _dots(cell)
    elif _GROUPED.fullmatch(cell):
        cell = cell.replace(",", "")
    return float(cell) if _NUMBER.fullmatch(cell) else math.nan


def _dots(cell: str) -> str:
    """A cell without a comma in a column that has decimal commas: dots stand between thousands."""
    return cell.replace(".", "") if re.fullmatch(r"[+-]?\d{1,3}(\.\d{3})+", cell) else cell
