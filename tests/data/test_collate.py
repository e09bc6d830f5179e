"""Padding, by hand."""

import pytest
import torch

from project.data.collate import pad
from project.errors import UserError


def sample(index: int, *tokens: int) -> dict:
    return {"inputs": {"tokens": torch.tensor(tokens)}, "target": torch.tensor(1), "index": index}


def test_tokens_are_padded_at_the_end_and_marked() -> None:
    batch = pad([sample(0, 5, 6, 7), sample(1, 8)])
    assert batch["inputs"]["tokens"].tolist() == [[5, 6, 7], [8, 0, 0]]
    assert batch["inputs"]["padding"].tolist() == [[False] * 3, [False, True, True]]
    assert batch["target"].tolist() == [1, 1]
    assert batch["index"].tolist() == [0, 1]


def test_sequences_are_padded_with_zeros_and_other_inputs_stacked() -> None:
    samples = [
        {"inputs": {"sequence": torch.ones(n, 2), "features": torch.ones(3)}, "index": n}
        for n in (1, 3)
    ]
    inputs = pad(samples)["inputs"]
    assert inputs["sequence"].shape == (2, 3, 2)
    assert inputs["sequence"][0, 1:].eq(0).all()
    assert inputs["features"].shape == (2, 3)
    assert inputs["padding"].sum(1).tolist() == [2, 0]


def test_one_alone_has_no_padding() -> None:
    assert not pad([sample(0, 1, 2)])["inputs"]["padding"].any()


def test_an_empty_sample_is_named() -> None:
    with pytest.raises(UserError, match="Sample 7 has no tokens: its length is 0"):
        pad([sample(3, 1), {**sample(7), "inputs": {"tokens": torch.zeros(0, dtype=torch.int64)}}])
