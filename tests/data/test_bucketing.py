"""Batches of similar lengths: every sample once, a function of seed and epoch, little padding."""

from itertools import chain

import numpy as np
import pytest
import torch

from project.data.bucketing import alike, padded_share, waste
from project.data.loader import EpochBatches, Loader
from project.errors import UserError

LENGTHS = np.random.default_rng(0).integers(1, 100, 1000)


def batches(pool: int = 10, lengths: np.ndarray = LENGTHS, **options: object) -> EpochBatches:
    settings = {"shuffle": True, "drop_last": False, "seed": 0, **options}
    return EpochBatches(len(lengths), 16, lengths=lengths, pool_batches=pool, **settings)


def numbers(sampler: EpochBatches, epoch: int = 0) -> list[list[int]]:
    sampler.set_epoch(epoch)
    return [[index for _, index in batch] for batch in sampler]


def test_sorted_within_stretches_by_hand() -> None:
    lengths = np.array([5, 3, 4, 1, 2])
    assert alike(torch.tensor([4, 0, 1, 2, 3]), lengths, 3).tolist() == [4, 1, 0, 3, 2]


def test_padded_share_by_hand() -> None:
    # 2 + 4 of 2 · 4 and 3 of 3
    assert padded_share(
        np.array([2, 4, 3]), [torch.tensor([0, 1]), torch.tensor([2])]
    ) == pytest.approx(2 / 11)
    assert padded_share(np.array([2]), []) == 0


@pytest.mark.parametrize("pool", [1, 7, 10, 1000])
def test_every_sample_once(pool: int) -> None:
    found = numbers(batches(pool))
    assert sorted(chain(*found)) == list(range(1000))
    assert sorted(map(len, found)) == [8, *[16] * 62]
    assert len(batches(pool)) == len(found)


def test_a_function_of_seed_and_epoch_and_another_one_in_each() -> None:
    assert numbers(batches(), 3) == numbers(batches(), 3)
    seen = {str(numbers(batches(seed=seed), epoch)) for seed in (0, 1) for epoch in (0, 1, 2)}
    assert len(seen) == 6
    lengths = [LENGTHS[batch].mean() for batch in numbers(batches())]
    assert lengths != sorted(lengths)  # the batches themselves are shuffled


def test_batch_mates_change_though_all_is_sorted_at_once() -> None:
    first, second = (numbers(batches(1000), epoch) for epoch in (0, 1))
    assert {frozenset(batch) for batch in first}.isdisjoint({frozenset(b) for b in second})


def test_position_is_picked_up() -> None:
    sampler = batches()
    whole = numbers(sampler)
    sampler.skip = 5
    assert numbers(sampler) == whole[5:]


@pytest.mark.parametrize("world_size", [2, 3])
def test_processes_share_an_epoch_and_have_batches_of_like_length(world_size: int) -> None:
    shares = [numbers(batches(rank=rank, world_size=world_size)) for rank in range(world_size)]
    seen = list(chain(*chain(*shares)))
    assert len(set(seen)) == len(seen) == 1000 // world_size * world_size
    assert len({len(share) for share in shares}) == 1
    longest = np.array([[LENGTHS[batch].max() for batch in share] for share in shares])
    assert (longest.max(0) - longest.min(0)).max() <= 10  # at random it is up to 50 and more


def test_less_padding_than_at_random() -> None:
    random = batches(0).batches(0)
    share, plain = padded_share(LENGTHS, batches(20).batches(0)), padded_share(LENGTHS, random)
    assert share < 0.05 < 0.4 < plain
    told = waste(batches(20).batches(0), random, LENGTHS).line()
    assert told.startswith("lengths from 1 to 99, half up to 5")
    assert f"{share:.1%} of the training batches is padding, in random order {plain:.1%}" in told


@pytest.mark.parametrize("options", [{"shuffle": False}, {"pool": 0}])
def test_without_shuffling_or_pool_nothing_is_sorted(options: dict) -> None:
    plain = EpochBatches(1000, 16, drop_last=False, seed=0, shuffle=options.get("shuffle", True))
    assert numbers(batches(**options)) == numbers(plain)


def test_what_is_dropped_is_not_the_longest() -> None:
    found = [numbers(batches(drop_last=True), epoch) for epoch in range(4)]
    assert {len(batch) for epoch in found for batch in epoch} == {16}
    dropped = [set(range(1000)) - set(chain(*epoch)) for epoch in found]
    assert len(set.union(*dropped)) > 8
    assert min(LENGTHS[list(rows)].min() for rows in dropped) < 50


def test_a_batch_of_one_joins_another() -> None:
    found = numbers(batches(lengths=LENGTHS[:33]))
    assert sorted(map(len, found)) == [16, 17]


def test_nonsense_is_refused() -> None:
    with pytest.raises(UserError, match="bucket_batches is -1"):
        Loader(bucket_batches=-1)
