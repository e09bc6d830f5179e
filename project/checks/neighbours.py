"""Do similar inputs have similar targets? A test that needs no network and no training."""

from typing import Any

import torch
from torch import Tensor

from project.batches import VARIABLE

SHUFFLES = 60
_SIDE = 16  # an image is looked at in so many pixels across, where it has more
_BINS = 1024
_VALUES = 256  # of a mask


def fits(samples: list[dict[str, Any]]) -> bool:
    """Whether the targets are tensors of one shape."""
    shapes = {s["target"].shape for s in samples if isinstance(s.get("target"), Tensor)}
    complete = all(isinstance(s.get("target"), Tensor) for s in samples)
    return complete and len(shapes) == 1


def agreement(samples: list[dict[str, Any]], among: list[dict[str, Any]]) -> float:
    """How far above chance targets agree with the nearest neighbour's, in standard deviations.

    Args:
        samples: Whose targets are compared.
        among: Where neighbours are sought; a sample is no neighbour of itself.
    """
    ours, theirs = _places(samples, among)
    distances = torch.cdist(ours, theirs)  # [N, M]
    if samples is among:
        distances.fill_diagonal_(torch.inf)
    nearest = distances.argmin(dim=1)  # [N]
    targets = [torch.stack([_few(s["target"]) for s in group]) for group in (samples, among)]
    found = _alike(targets[0], targets[1][nearest])
    generator = torch.Generator().manual_seed(0)
    chance = torch.stack(
        [
            _alike(
                targets[0][torch.randperm(len(samples), generator=generator)], targets[1][nearest]
            )
            for _ in range(SHUFFLES)
        ]
    )
    return float((found - chance.mean()) / chance.std().clamp(min=1e-6))


def _few(target: Tensor) -> Tensor:
    """At most `_VALUES` of a target's values, spread evenly."""
    values = target.flatten()
    return values[:: max(1, len(values) // _VALUES)]


def _alike(a: Tensor, b: Tensor) -> Tensor:
    """Mean agreement of pairs: equal class numbers, or near numbers."""
    if a.is_floating_point():
        a, b = a.double(), b.double()
        scale = a.std(dim=0).clamp(min=1e-12)
        return -((a - b).abs() / scale).clamp(max=3).mean()
    return (a == b).double().mean()


def _places(samples: list[dict[str, Any]], among: list[dict[str, Any]]) -> tuple[Tensor, Tensor]:
    """Points [N, D] and [M, D]: every input as some numbers, each input weighing the same."""
    parts = []
    for name in samples[0]["inputs"]:
        if name == "padding":
            continue
        values = torch.stack([_numbers(name, s["inputs"][name]) for s in [*samples, *among]])
        values = (values - values.mean(dim=0)) / values.std(dim=0).clamp(min=1e-6)
        parts.append(values / values.shape[1] ** 0.5)
    places = torch.cat(parts, dim=1)
    return places[: len(samples)], places[len(samples) :]


def _numbers(name: str, value: Tensor) -> Tensor:
    if name == "tokens":
        counts = torch.bincount(value.flatten() % _BINS, minlength=_BINS).double()
        return counts.sqrt()  # [_BINS]
    value = value.double()
    if name in VARIABLE:  # [T, F]
        return torch.cat([value.mean(dim=0), value.std(dim=0, correction=0), value[0], value[-1]])
    if name == "image":
        return torch.nn.functional.adaptive_avg_pool2d(
            value, (min(_SIDE, value.shape[-2]), min(_SIDE, value.shape[-1]))
        ).flatten()
    return value.flatten()
