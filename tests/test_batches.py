"""The seam between data and models."""

import re

import pytest
import torch
from torch import Tensor, nn

from project.batches import batch_size, check_inputs
from project.errors import UserError


class TakesFeatures(nn.Module):
    def forward(self, features: Tensor, padding: Tensor | None = None) -> Tensor:
        return features


def batch(*names: str) -> dict:
    return {"inputs": {name: torch.zeros(3, 2) for name in names}, "index": torch.arange(3)}


def test_batch_size_does_not_depend_on_the_inputs() -> None:
    assert batch_size(batch("features")) == 3
    assert batch_size({"inputs": {"image": [torch.zeros(3, 8, 8)]}, "index": torch.arange(1)}) == 1


def test_matching_inputs_pass() -> None:
    check_inputs(TakesFeatures(), batch("features"))
    check_inputs(TakesFeatures(), batch("features", "padding"))


@pytest.mark.parametrize("names", [("image",), ("features", "image"), ()])
def test_wrong_pairing_names_both_sides(names: tuple[str, ...]) -> None:
    given = re.escape(str(sorted(names)))
    with pytest.raises(UserError, match=rf"TakesFeatures takes .*features.*data gives {given}"):
        check_inputs(TakesFeatures(), batch(*names))
