"""The loader: how samples become batches, in an order that can be picked up anywhere."""

import math
import os
from collections.abc import Callable, Iterator, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler, get_worker_info

from project.data.bucketing import alike
from project.errors import UserError
from project.randomness import combine, kept, seed_all

Collate = Callable[[list[dict[str, Any]]], dict[str, Any]]


@dataclass
class Loader:
    """How batches are loaded.

    Args:
        num_workers: Processes that load ahead; `auto` takes the CPUs this process may use. 0 loads
            in the main process, which is fastest for small data that lies in memory.
        pin_memory: Page-locked batches, copied to the accelerator while it computes; `auto` pins
            where there is an accelerator and nowhere else.
        drop_last: Drop the last, smaller batch of a training epoch. Evaluation never drops.
        shuffle: New order of the training samples in every epoch. Evaluation never shuffles.
        bucket_batches: Training samples that differ in length are sorted by it within stretches of
            at least so many batches: batches of similar lengths have little padding. 0 leaves the
            order random. Where all samples are of one length it has no effect.
        persistent_workers: Keep the workers from one epoch to the next.
        prefetch_factor: Batches each worker holds ready.
        timeout_seconds: Give up on a worker that delivers nothing for so long; 0 waits for ever.
        collate: Import path of a function that makes a batch of a list of samples; None takes the
            data module's own.
    """

    num_workers: int | Literal["auto"] = "auto"
    pin_memory: bool | Literal["auto"] = "auto"
    drop_last: bool = False
    shuffle: bool = True
    bucket_batches: int = 100
    persistent_workers: bool = True
    prefetch_factor: int = 2
    timeout_seconds: float = 0
    collate: Collate | None = None

    def __post_init__(self) -> None:
        if self.num_workers != "auto" and self.num_workers < 0:
            raise UserError(
                f"data.loader.num_workers is {self.num_workers}; it must be 'auto', 0 (load in the "
                "main process) or a number of processes."
            )
        if self.bucket_batches < 0:
            raise UserError(
                f"data.loader.bucket_batches is {self.bucket_batches}; it is a number of batches, "
                "or 0 for a random order."
            )
        if self.prefetch_factor < 1:
            raise UserError(
                f"data.loader.prefetch_factor is {self.prefetch_factor}; a worker holds at least "
                "1 batch ready."
            )

    def settings(self, num_processes: int = 1) -> dict[str, Any]:
        """Keyword arguments of a torch `DataLoader`.

        Args:
            num_processes: Training processes on this machine that share its CPUs.
        """
        workers = self.num_workers
        if workers == "auto":
            workers = max(1, available_cpus() // num_processes)
        pin = torch.accelerator.is_available() if self.pin_memory == "auto" else self.pin_memory
        settings: dict[str, Any] = {"num_workers": workers, "pin_memory": pin}
        if workers:
            settings |= {
                "persistent_workers": self.persistent_workers,
                "prefetch_factor": self.prefetch_factor,
                "timeout": self.timeout_seconds,
            }
        return settings


def available_cpus() -> int:
    """CPUs this process may use: its affinity and its cgroup's quota, not the machine's count."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only
    count = len(affinity(0)) if affinity else os.cpu_count() or 1
    quota_file = Path("/sys/fs/cgroup/cpu.max")  # cgroup v2: "max 100000" or "200000 100000"
    if quota_file.is_file():
        quota, _, period = quota_file.read_text().partition(" ")
        if quota.isdigit():
            count = min(count, max(1, int(quota) // int(period)))
    return count


class EpochBatches(Sampler[list[tuple[int, int]]]):
    """Batches of (epoch, index), their order a function of the seed and the epoch alone.

    A last batch of one sample joins the batch before it: batch normalisation cannot train on one
    sample, and no sample should be lost to that.

    Args:
        num_samples: Size of the data set.
        batch_size: Samples per batch.
        shuffle: New order in every epoch.
        drop_last: Leave out the last, incomplete batch.
        seed: The run's seed.
        rank: This process among `world_size`; each takes every `world_size`-th sample, and a
            remainder that does not go round is left out, another one in every epoch.
        lengths: Of all samples; a shuffled order is then sorted by length, within `pool_batches`.
        pool_batches: Batches of a process that are sorted together, at least; 0 for none.
    """

    def __init__(
        self,
        num_samples: int,
        batch_size: int,
        *,
        shuffle: bool,
        drop_last: bool,
        seed: int,
        rank: int = 0,
        world_size: int = 1,
        lengths: np.ndarray | None = None,
        pool_batches: int = 0,
    ) -> None:
        self.num_samples = num_samples
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.seed = seed
        self.rank = rank
        self.world_size = world_size
        self.lengths = lengths if shuffle and pool_batches else None
        self.pool_batches = pool_batches
        self.epoch = 0
        self.skip = 0  # batches of the next epoch that were seen before a resume

    @property
    def sampler(self) -> "EpochBatches":
        """Itself: Lightning looks for `batch_sampler.sampler` to tell it the epoch."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next iteration."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self._ends())

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        epoch, first, self.skip = self.epoch, self.skip, 0
        for batch in self.batches(epoch)[first:]:
            yield [(epoch, index) for index in batch.tolist()]

    def batches(self, epoch: int) -> list[torch.Tensor]:
        """The sample numbers of every batch of an epoch, for this process."""
        ends = self._ends()
        starts = [0, *ends][: len(ends)]
        generator = torch.Generator().manual_seed(combine(self.seed, epoch) >> 1)
        if self.shuffle:
            order = torch.randperm(self.num_samples, generator=generator)
        else:
            order = torch.arange(self.num_samples)
        order = order[: self.world_size * ends[-1] if ends else 0]
        if self.lengths is not None:
            # all processes' shares at once: their batches of one step then take equally long
            stretches = max(1, len(ends) // self.pool_batches)
            pool = math.ceil(len(ends) / stretches)  # batches: none lies across two stretches
            order = alike(order, self.lengths, pool * self.batch_size * self.world_size)
        order = order[self.rank :: self.world_size]
        batches = [order[start:end] for start, end in zip(starts, ends, strict=True)]
        if self.lengths is None:
            return batches
        return [batches[n] for n in torch.randperm(len(batches), generator=generator).tolist()]

    def _ends(self) -> list[int]:
        """Where each batch ends in this process' share of the order."""
        count = self.num_samples // self.world_size
        ends = list(range(self.batch_size, count + 1, self.batch_size))
        rest = count - (ends[-1] if ends else 0)
        if rest and not self.drop_last:
            if rest == 1 and ends:
                ends[-1] = count
            else:
                ends.append(count)
        return ends


class Seeded(Dataset):
    """Wraps a data set: adds `index` and seeds all generators per (seed, epoch, index).

    So the randomness of a sample does not depend on the worker that loads it, nor on what was
    loaded before. Evaluation asks by index alone and gets the randomness of epoch 0 every time.

    Args:
        dataset: Map-style data set of samples as in `project.batches`.
        seed: The run's seed.
    """

    def __init__(self, dataset: Dataset, seed: int) -> None:
        self.dataset = dataset
        self.seed = seed

    def __len__(self) -> int:
        return len(cast(Sized, self.dataset))

    def __getitem__(self, index: tuple[int, int] | int) -> dict[str, Any]:
        return self.__getitems__([index])[0]

    def __getitems__(self, keys: list[tuple[int, int] | int]) -> list[dict[str, Any]]:
        """All samples of a batch at once; torch's fetcher looks for this name."""
        if get_worker_info() is not None:
            return [self._sample(key) for key in keys]
        with kept():  # no worker: the main process' generators belong to the model
            return [self._sample(key) for key in keys]

    def _sample(self, key: tuple[int, int] | int) -> dict[str, Any]:
        epoch, index = key if isinstance(key, tuple) else (0, key)
        seed_all(combine(self.seed, epoch, index))
        return {**self.dataset[index], "index": index}


class ResumableLoader(DataLoader):
    """A loader whose position is one number, kept in the checkpoint.

    Lightning finds `state_dict` and `load_state_dict` by name. Skipping ahead loads no data.
    """

    batch_sampler: EpochBatches
    _epoch = 0
    _position = 0

    def __iter__(self) -> Any:
        # A generator, so that workers start at the first `next`, after Lightning's `set_epoch`.
        self._epoch, self._position = self.batch_sampler.epoch, self.batch_sampler.skip
        for batch in super().__iter__():
            self._position += 1
            yield batch

    def state_dict(self) -> dict[str, int]:
        """The epoch, and how many of its batches were given out."""
        return {"epoch": self._epoch, "position": self._position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continue after the batch at which the state was taken."""
        epoch, position = state["epoch"], state["position"]
        if position >= len(self):
            epoch, position = epoch + 1, 0
        self.batch_sampler.epoch, self.batch_sampler.skip = epoch, position
