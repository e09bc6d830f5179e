"""A row of floats becomes features: worked by hand, and the same in a graph."""

import math

import pytest
import torch

from project.data.table_preprocessing import LIMIT, TablePreprocessing
from project.errors import UserError

NAN = math.nan
AGE = {"name": "age", "median": 2.0, "mean": 3.0, "std": 2.0,
       "edges": [0.0, 2.0, 4.0], "missing": True}  # fmt: skip
RATE = {"name": "rate", "median": 0.5, "mean": 0.5, "std": 0.1,
        "edges": [], "missing": False}  # fmt: skip
COLOUR = {"name": "colour", "values": ["red", "", "blue"]}


def test_features_by_hand() -> None:
    module = TablePreprocessing([AGE, COLOUR, RATE])
    rows = torch.tensor([[3.0, 2.0, 0.6], [NAN, 1.0, NAN], [1e9, NAN, 0.5]])
    # age and rate scaled; how far age is through its two bins; whether it is missing; the colour
    expected = [
        [0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0],
        [-0.5, 0.0, 1.0, -1.0, 1.0, 0.0, 1.0, 0.0],
        [LIMIT, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0],
    ]
    torch.testing.assert_close(module(rows), torch.tensor(expected))
    assert module.num_features == 8
    torch.testing.assert_close(module(rows[1]), torch.tensor(expected[1]))  # any leading shape


def test_numbers_alone_and_categories_alone() -> None:
    assert TablePreprocessing([RATE])(torch.tensor([[0.4]])).tolist() == [[pytest.approx(-1.0)]]
    assert TablePreprocessing([COLOUR])(torch.tensor([[0.0]])).tolist() == [[1.0, 0.0, 0.0]]
    with pytest.raises(UserError, match="no features"):
        TablePreprocessing([])


def test_description_makes_the_same_again() -> None:
    module = TablePreprocessing([AGE, COLOUR, RATE])
    rows = torch.randn(5, 3)
    again = TablePreprocessing(**module.description())
    assert torch.equal(again(rows), module(rows))
    assert not module.state_dict()  # the description has all of it


def test_it_exports_for_any_number_of_rows() -> None:
    module = TablePreprocessing([AGE, COLOUR, RATE])
    rows = torch.tensor([[3.0, 2.0, 0.6], [NAN, NAN, NAN], [1e9, 0.0, 0.5]])
    program = torch.export.export(module, (rows,), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    for count in (1, 2, 7):
        some = rows.repeat(3, 1)[:count]
        assert torch.equal(program.module()(some), module(some))
