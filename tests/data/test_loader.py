"""Order, position, workers, collation."""

import os

import pytest
import torch
from torch.utils.data import Dataset

from project.data import DataModule, Loader
from project.data.collate import stack
from project.data.loader import EpochBatches, Seeded, available_cpus
from project.errors import UserError


class Numbers(Dataset):
    """`count` samples; each also draws a random number."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict:
        return {"inputs": {"features": torch.tensor([float(index)])}, "noise": torch.rand(())}


class NumbersData(DataModule):
    """A data module of a given number of samples."""

    def __init__(self, count: int, batch_size: int, loader: Loader) -> None:
        super().__init__(batch_size, loader)
        self.count = count
        self.class_names, self.sizes = ["a", "b"], {"num_outputs": 2}

    def load(self) -> dict[str, Dataset]:
        return {"train": Numbers(self.count), "test": Numbers(self.count)}


def batches(count: int, size: int, **options: object) -> EpochBatches:
    settings = {"shuffle": False, "drop_last": False, "seed": 0, **options}
    return EpochBatches(count, size, **settings)


@pytest.mark.parametrize(
    ("count", "size", "drop_last", "expected"),
    [
        (10, 4, False, [4, 4, 2]),
        (10, 4, True, [4, 4]),
        (8, 4, False, [4, 4]),
        (9, 4, False, [4, 5]),  # no batch of one: batch normalisation can't train on it
        (9, 4, True, [4, 4]),
        (1, 4, False, [1]),
        (3, 1, False, [1, 1, 1]),
        (3, 4, True, []),
    ],
)
def test_batch_sizes(count: int, size: int, drop_last: bool, expected: list[int]) -> None:
    sampler = batches(count, size, drop_last=drop_last)
    assert [len(batch) for batch in sampler] == expected
    assert len(sampler) == len(expected)


def test_order_is_a_function_of_seed_and_epoch() -> None:
    def order(seed: int, epoch: int) -> list[int]:
        sampler = batches(50, 7, shuffle=True, seed=seed)
        sampler.set_epoch(epoch)
        return [index for batch in sampler for _, index in batch]

    assert order(0, 3) == order(0, 3)
    assert len({tuple(order(seed, epoch)) for seed in (0, 1) for epoch in (0, 1, 2)}) == 6
    assert sorted(order(0, 0)) == list(range(50))


@pytest.mark.parametrize("world_size", [2, 3])
def test_ranks_share_an_epoch(world_size: int) -> None:
    seen = []
    for rank in range(world_size):
        sampler = batches(10, 2, shuffle=True, rank=rank, world_size=world_size)
        mine = [index for batch in sampler for _, index in batch]
        assert len(mine) == 10 // world_size
        seen += mine
    assert len(set(seen)) == len(seen)


def test_skip_holds_for_one_iteration() -> None:
    sampler = batches(10, 2, shuffle=True)
    whole = list(sampler)
    sampler.skip = 3
    assert list(sampler) == whole[3:]
    assert list(sampler) == whole


def test_a_samples_randomness_is_its_own() -> None:
    seeded = Seeded(Numbers(5), seed=1)
    alone = seeded[(2, 3)]["noise"]
    together = seeded.__getitems__([(2, 0), (2, 3), (2, 4)])[1]["noise"]
    assert alone == together
    assert seeded[(3, 3)]["noise"] != alone
    assert Seeded(Numbers(5), seed=2)[(2, 3)]["noise"] != alone
    assert seeded[3]["noise"] == seeded[(0, 3)]["noise"]  # evaluation: the same every time
    assert seeded[3]["index"] == 3


def test_fewer_samples_than_a_batch_is_an_error_when_they_would_be_dropped() -> None:
    module = NumbersData(3, 4, Loader(num_workers=0, drop_last=True))
    module.setup("fit")
    with pytest.raises(UserError, match=r"3 samples are fewer than .*batch_size=4"):
        module.train_dataloader()
    assert len(module.test_dataloader()) == 1  # evaluation never drops


def test_no_validation_split_is_allowed_no_test_split_is_named() -> None:
    module = NumbersData(3, 4, Loader(num_workers=0))
    module.setup("fit")
    assert module.val_dataloader() == []
    del module.datasets["test"]
    with pytest.raises(UserError, match=r"NumbersData has no 'test' split, only \['train'\]"):
        module.test_dataloader()


def test_loader_settings() -> None:
    assert Loader(num_workers=0).settings() == {"num_workers": 0, "pin_memory": False}
    settings = Loader(num_workers=2, prefetch_factor=3, timeout_seconds=5).settings()
    assert settings == {
        "num_workers": 2, "pin_memory": False, "persistent_workers": True,
        "prefetch_factor": 3, "timeout": 5,
    }  # fmt: skip
    assert Loader().settings()["num_workers"] == available_cpus()
    assert Loader().settings(num_processes=10**6)["num_workers"] == 1


def collate_sum(samples: list[dict]) -> dict:
    return {"sum": sum(sample["index"] for sample in samples)}


def test_collate_is_a_setting() -> None:
    module = NumbersData(4, 4, Loader(num_workers=0, collate=collate_sum))
    module.setup("fit")
    assert list(module.train_dataloader()) == [{"sum": 6}]
    assert list(module.test_dataloader()) == [{"sum": 6}]


def test_pinned_where_there_is_an_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    assert Loader().settings()["pin_memory"] is True
    assert Loader(pin_memory=False).settings()["pin_memory"] is False


@pytest.mark.parametrize(
    ("options", "said"),
    [({"num_workers": -1}, "num_workers is -1"), ({"prefetch_factor": 0}, "prefetch_factor is 0")],
)
def test_nonsense_settings_are_refused(options: dict, said: str) -> None:
    with pytest.raises(UserError, match=said):
        Loader(**options)
    with pytest.raises(UserError, match="batch_size is 0"):
        NumbersData(3, 0, Loader())


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux only")
def test_available_cpus_heeds_the_affinity() -> None:
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert available_cpus() == 1
    finally:
        os.sched_setaffinity(0, allowed)


def test_stack_is_explicit() -> None:
    samples = [
        {"inputs": {"image": torch.ones(1, 2, 2)}, "target": torch.tensor(3), "index": 7},
        {"inputs": {"image": torch.zeros(1, 2, 2)}, "target": torch.tensor(4), "index": 8},
    ]
    batch = stack(samples)
    assert batch["inputs"]["image"].shape == (2, 1, 2, 2)
    assert batch["target"].tolist() == [3, 4]
    assert batch["index"].tolist() == [7, 8]
    assert batch["index"].dtype == torch.int64


def test_stack_names_the_entry_and_both_shapes() -> None:
    samples = [{"image": torch.zeros(3, 8, 8)}, {"image": torch.zeros(3, 8, 9)}]
    with pytest.raises(UserError, match=r"'image': \[\(3, 8, 8\), \(3, 8, 9\)\]"):
        stack(samples)


def test_stack_names_a_missing_entry() -> None:
    samples = [
        {"a": torch.zeros(1), "b": torch.zeros(1), "index": 0},
        {"a": torch.zeros(1), "index": 5},
    ]
    with pytest.raises(UserError, match=r"\['b'\].*sample 5 against 0"):
        stack(samples)
