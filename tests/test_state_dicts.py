"""Differences between weights, said readably."""

import pytest
import torch
from torch import Tensor

from project.errors import UserError
from project.state_dicts import check_fits


def state(*names: str, size: int = 2) -> dict[str, Tensor]:
    return {name: torch.zeros(size) for name in names}


def test_equal_names_and_shapes_pass() -> None:
    check_fits(state("a", "b"), state("b", "a"))


@pytest.mark.parametrize(
    ("stored", "wanted", "said"),
    [
        (state("a"), state("a", "b"), r"1 missing: b\..*renamed"),
        (state("a", "c"), state("a"), r"1 unexpected: c\."),
        (state("a", size=3), state("a"), r"1 of another shape: a \[3\] in the file, \[2\] here"),
        (state("module.a"), state("a"), r"DataParallel, which added 'module\.'"),
        (state("net._orig_mod.a"), state("net.a"), r"torch\.compile, which added '_orig_mod\.'"),
        (state(*"abcdefgh"), state("a"), r"7 unexpected: b; c; d; e; f, and 2 more"),
    ],
)
def test_differences_are_listed_with_the_likely_cause(
    stored: dict, wanted: dict, said: str
) -> None:
    with pytest.raises(UserError, match=said):
        check_fits(stored, wanted)
