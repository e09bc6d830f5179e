"""What the checks look at: copies of the task on the CPU, and samples through the real pipeline."""

import copy
import time
from collections.abc import Generator, Sized
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from matplotlib.figure import Figure

from project.batches import Batch
from project.checks.plain import without_augmentation
from project.checks.steps import descend, optimizer_of
from project.data import DataModule
from project.data.loader import Seeded
from project.tasks import Task

STEP_SECONDS = 0.15
"""A training step of the checks should take no longer, which bounds their batches."""

CHUNK = 32
"""Samples that are loaded between two looks at the clock."""


class Subject:
    """A task and its data, as they are before training; neither is changed.

    Args:
        task: The task, on any device.
        data: The data.
        accumulate: Batches per optimizer step of the training to come.
        epochs: Epochs of the training to come; None where there is no limit.
        folder: Where runs are written.
    """

    def __init__(
        self,
        task: Task,
        data: DataModule,
        *,
        accumulate: int = 1,
        epochs: int | None = None,
        folder: Path = Path(),
    ) -> None:
        self.data = data
        self.original = task
        self.accumulate = accumulate
        self.epochs = epochs
        self.folder = folder
        self.deadline = float("inf")  # of the check that runs, on time.monotonic's clock
        self.unusable = False  # the data have errors and can't be loaded
        self.forward_error = ""  # why two samples don't go through, once that is known
        self.pictures: dict[str, Figure] = {}
        self.facts: dict[str, Any] = {}  # numbers and tables for the report, by name
        self.scans: dict[str, list[Any]] = {}  # of `scan.scanned`, by split
        self.quick = False  # look at few samples only
        self._samples: dict[tuple[str, int, bool], list[dict[str, Any]]] = {}
        self._trained: Task | None = None
        self._per_sample: float | None = None  # seconds of a training step

    @property
    def splits(self) -> list[str]:
        """The splits there are, the training one first."""
        return list(self.data.datasets)

    def has_time(self) -> bool:
        """Whether the check that runs may go on."""
        return time.monotonic() < self.deadline

    def affordable(self, count: int) -> int:
        """So many samples, or fewer where a training step on them would take too long."""
        if self._per_sample is None:
            task, batch = self.task(), self.batch(2)
            for _ in range(2):  # the first one is slower
                began = time.perf_counter()
                task.loss_and_predictions(batch)[0].backward()
                self._per_sample = (time.perf_counter() - began) / 2
        return max(4, min(count, int(STEP_SECONDS / max(self._per_sample, 1e-6))))

    def task(self) -> Task:
        """A copy on the CPU, without a trainer, with its modules in the modes they were made in."""
        trainer = self.original._trainer
        made: Task = copy.deepcopy(self.original, {id(trainer): None})
        return made.cpu()

    def size(self, split: str) -> int:
        """Samples of a split."""
        return len(cast(Sized, self.data.datasets[split]))

    def name(self, split: str, index: int) -> str:
        """What a sample is called, with its split."""
        names = self.data.names(split)
        return f"{split} {names[index]}" if names else f"{split}[{index}]"

    def indices(self, split: str, count: int) -> list[int]:
        """Up to that many samples of a split, chosen by lot, always the same."""
        size = self.size(split)
        order = torch.randperm(size, generator=torch.Generator().manual_seed(0))
        return order[:count].tolist()

    def samples(self, split: str, count: int, *, augmented: bool = False) -> list[dict[str, Any]]:
        """Up to that many samples of a split, by default as they are without augmentation."""
        key = split, count, augmented
        if key not in self._samples:
            self._samples[key] = []
            chosen = self.indices(split, count)
            for start in range(0, len(chosen), CHUNK):
                if start and not self.has_time():
                    break
                part = chosen[start : start + CHUNK]
                self._samples[key] += self.drawn(split, part, augmented=augmented)
        return self._samples[key]

    def drawn(
        self, split: str, indices: list[int], *, augmented: bool, epoch: int = 0
    ) -> list[dict[str, Any]]:
        """Samples by number, seeded as in that epoch."""
        dataset = self.data.datasets[split]
        chosen = dataset if augmented else without_augmentation(dataset)
        keys: list[Any] = [(epoch, index) for index in indices]
        return Seeded(chosen, self.data.seed).__getitems__(keys)

    def collated(self, samples: list[dict[str, Any]]) -> Batch:
        """A batch of samples, as the loader makes it."""
        collate = self.data.loader.collate or self.data.collate
        return cast(Batch, collate([dict(sample) for sample in samples]))

    def batch(self, count: int, split: str = "train", *, augmented: bool = False) -> Batch:
        """A batch of up to that many samples, a copy of its own."""
        return self.collated(self.samples(split, count, augmented=augmented))

    @contextmanager
    def in_process(self) -> Generator[None]:
        """Let the data's loaders load without workers for a while."""
        before = self.data.loader
        self.data.loader = replace(before, num_workers=0, pin_memory=False)
        try:
            yield
        finally:
            self.data.loader = before

    def trained(self) -> Task:
        """A copy after five steps: weights that are 0 at first have moved by then."""
        if self._trained is None:
            task = self.task()
            batch = self.batch(self.affordable(min(self.data.batch_size, 32)))
            descend(task, optimizer_of(task), [batch] * 5, seed=self.data.seed)
            self._trained = task
        return copy.deepcopy(self._trained)
