"""Differences between weights, said readably."""

import pytest
import torch
from torch import Tensor

from project.errors import UserError
from project.state_dicts import check_fits, load_body, renamed


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


def test_prefixes_are_seen_through_on_both_sides() -> None:
    assert set(renamed(state("module.model.a"), ["network.a"])) == {"network.a"}
    assert set(renamed(state("a._orig_mod.b"), ["a.b"])) == {"a.b"}
    assert set(renamed(state("other"), ["a"])) == {"other"}


def test_a_prefix_that_means_something_is_kept() -> None:
    both = state("model.a", "body.a")
    assert set(renamed(both, ["model.a", "body.a"])) == set(both)
    assert set(renamed(both, ["a"])) == set(both)


def test_too_little_leaves_the_module_untouched() -> None:
    own = {name: torch.ones(2) for name in "abcdefgh"}
    with pytest.raises(UserError, match=r"x\.pt has 7 of 8 tensors \(88% of the numbers\)"):
        load_body(own, state(*"abcdefg"), head=[], source="x.pt")
    assert all(tensor.sum() == 2 for tensor in own.values())
