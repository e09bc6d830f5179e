"""Numbers as people write them."""

import math

import numpy as np
import pytest

from project.data.cells import are_categories, numbers, says_nothing, unreadable


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1", "-2.5", "+3", ".5", "4.", "1e-3"], [1, -2.5, 3, 0.5, 4, 0.001]),
        (["1,234.50", "$2,000", "7"], [1234.5, 2000, 7]),
        (["1234,50", "0,5"], [1234.5, 0.5]),
        (["1.234,50", "2.000", "1,5"], [1234.5, 2000, 1.5]),
        (["1.234.567", "2.000"], [1234567, 2000]),
        (["1,234"], [1234]),  # alone it is taken for thousands,
        (["1,234", "0,5"], [1.234, 0.5]),  # beside other decimals for decimals
        (["1 234", "1\u00a0234,5", "12'345"], [1234, 1234.5, 12345]),
        (["12 %", "3.5%", " 4 "], [12, 3.5, 4]),
        (["1.5", "2.25"], [1.5, 2.25]),
    ],
)
def test_numbers(cells: list[str], expected: list[float]) -> None:
    assert numbers(cells).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("cell", ["", "NA", "nan", "None", "-", "?", "inf", " n/a "])
def test_what_says_that_there_is_none(cell: str) -> None:
    assert says_nothing(cell)
    assert math.isnan(numbers([cell])[0])
    assert unreadable([cell], numbers([cell])) == []


def test_what_is_no_number_is_named() -> None:
    cells = ["1", "twelve", "1-2", "0x10", ""]
    found = numbers(cells)
    assert np.isnan(found).tolist() == [False, True, True, True, True]
    assert unreadable(cells, found) == ["twelve", "1-2", "0x10"]


def test_categories_repeat() -> None:
    assert are_categories(["red", "blue", "red", "blue", "green"])
    assert not are_categories(["Ann", "Bob", "Cid", "Ann", "Dan"])  # two of five share a word
