"""One pass over the samples of each split: what the checks of the data look at."""

import hashlib
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from project.checks.subject import CHUNK, Subject
from project.tasks.tracing import all_finite, count, tensors_in

QUICK = 64
"""Samples of a split that the quick checks look at."""

_SMALL = 64  # values of a target that are kept as they are


@dataclass
class Scanned:
    """What is known of one sample.

    Args:
        index: Its number in the split.
        digest: The same for samples whose inputs are equal.
        bad: What is not finite, by the tensor's name.
        inputs: Type, shape, smallest, largest, mean and standard deviation, by the input's name.
        target: The target; of a large tensor (a mask) its distinct values.
        target_shape: Of a tensor; None for boxes.
    """

    index: int
    digest: str
    bad: dict[str, str] = field(default_factory=dict)
    inputs: dict[str, "Spread"] = field(default_factory=dict)
    target: Any = None
    target_shape: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Spread:
    """The values of a tensor in a few numbers."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    low: float
    high: float
    mean: float
    std: float


def scanned(subject: Subject) -> dict[str, list[Scanned]]:
    """All samples of each split, or as many as there is time for; looked at once."""
    known = subject.scans
    if not known:
        for split in subject.splits:
            order = subject.indices(split, QUICK if subject.quick else subject.size(split))
            known[split] = []
            for start in range(0, len(order), CHUNK):
                if start and not subject.has_time():
                    break
                part = order[start : start + CHUNK]
                samples = subject.drawn(split, part, augmented=False)
                pairs = zip(part, samples, strict=True)
                known[split] += [_scan(index, sample) for index, sample in pairs]
    return known


def looked_at(subject: Subject) -> str:
    """How many samples of each split were looked at, in words."""
    parts = []
    for split, found in scanned(subject).items():
        size = subject.size(split)
        parts.append(f"{len(found):,} {split}" if len(found) == size else
                     f"{len(found):,} of {size:,} {split}")  # fmt: skip
    return ", ".join(parts)


def _scan(index: int, sample: dict[str, Any]) -> Scanned:
    result = Scanned(index, _digest(sample["inputs"]))
    target = sample.get("target")
    for name, tensor in [*tensors_in(sample["inputs"], "inputs"), *tensors_in(target, "target")]:
        if not all_finite(tensor):
            result.bad[name] = count(tensor)
    result.inputs = {
        name.partition(".")[2]: _spread(tensor)
        for name, tensor in tensors_in(sample["inputs"], "inputs")
    }
    result.target = target
    if isinstance(target, Tensor):
        result.target_shape = tuple(target.shape)
        if target.numel() > _SMALL:
            result.target = target.unique()
    return result


def _digest(inputs: dict[str, Any]) -> str:
    found = hashlib.blake2b(digest_size=16)
    for name, tensor in tensors_in(inputs, ""):
        found.update(f"{name}{tuple(tensor.shape)}".encode())
        found.update(tensor.contiguous().cpu().numpy().tobytes())
    return found.hexdigest()


def _spread(tensor: Tensor) -> Spread:
    values = tensor.double() if tensor.numel() else torch.zeros(1, dtype=torch.double)
    std = float(values.std(correction=0))
    low, high, mean = float(values.min()), float(values.max()), float(values.mean())
    return Spread(tensor.dtype, tuple(tensor.shape), low, high, mean, std)
