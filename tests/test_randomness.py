"""Seeds as functions of the position."""

import random

import numpy as np
import torch

from project.randomness import combine, kept, seed_all


def draws() -> tuple[float, float, float]:
    return random.random(), float(np.random.random()), float(torch.rand(()))  # noqa: NPY002


def test_combine_is_the_published_generator() -> None:
    # first output of SplitMix64 seeded with 0, from the reference implementation
    assert combine(0) == 0xE220A8397B1DCDAF


def test_combine_tells_positions_apart() -> None:
    keys = {combine(seed, epoch, i) for seed in range(5) for epoch in range(20) for i in range(50)}
    assert len(keys) == 5 * 20 * 50
    assert combine(1, 2) != combine(2, 1)
    assert combine(-1) != combine(1)


def test_seed_all_seeds_all_three() -> None:
    seed_all(combine(7))
    first = draws()
    seed_all(combine(7))
    assert draws() == first
    seed_all(combine(8))
    assert not set(draws()) & set(first)


def test_kept_leaves_no_trace() -> None:
    seed_all(1)
    expected = draws()
    seed_all(1)
    with kept():
        seed_all(2)
        draws()
    assert draws() == expected


def test_kept_within_kept_disturbs_neither() -> None:
    seed_all(2)
    expected = [draws(), draws()]
    with kept():
        seed_all(2)
        first = draws()
        with kept():
            seed_all(3)
            draws()
        assert [first, draws()] == expected
