"""Samples that differ in length, in memory."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset


class Ragged:
    """Tensors that differ in their first dimension, as one: a single object, however many (D11).

    Args:
        parts: Tensors [T, …], alike in all but T.
    """

    def __init__(self, parts: list[Tensor]) -> None:
        self.lengths = np.array([len(part) for part in parts], dtype=np.int64)
        self.flat = torch.cat(parts) if parts else torch.zeros(0, dtype=torch.int64)
        self._ends = np.cumsum(self.lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> Tensor:
        end = int(self._ends[index])
        return self.flat[end - int(self.lengths[index]) : end]


class RaggedSamples(Dataset):
    """Samples with one input of variable length.

    Args:
        name: Of the input, one of `project.batches.VARIABLE`.
        values: The input of every sample.
        target: int64 [N], of several labels each [N, C]; None where there are none.
        preprocessing: Makes a value ready for the network.
        augmentation: Changes a value at random after that; for training only.
    """

    def __init__(
        self,
        name: str,
        values: Ragged,
        target: Tensor | None,
        *,
        preprocessing: nn.Module | None = None,
        augmentation: nn.Module | None = None,
    ) -> None:
        self.name = name
        self.values = values
        self.target = target
        self.preprocessing = preprocessing or nn.Identity()
        self.augmentation = augmentation or nn.Identity()

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> dict[str, Any]:
        value = self.augmentation(self.preprocessing(self.values[index]))
        sample: dict[str, Any] = {"inputs": {self.name: value}}
        return sample if self.target is None else {**sample, "target": self.target[index]}
