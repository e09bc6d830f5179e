"""What happens to a sequence before the network sees it, and what changes it at random before."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from project.data.augmentation import Strength


class SequencePreprocessing(nn.Module):
    """(x - mean) / std of each channel.

    Args:
        mean: Of each channel, over the steps of the training sequences.
        std: Of each channel; 1 where a channel never changes.

    Shapes:
        float [T, F] → float [T, F]
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: list[float], std: list[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean))
        self.register_buffer("std", torch.tensor(std))

    def forward(self, sequence: Tensor) -> Tensor:
        return (sequence - self.mean) / self.std

    def description(self) -> dict[str, Any]:
        """The arguments that make this preprocessing again."""
        return {"mean": self.mean.tolist(), "std": self.std.tolist()}


def fitted(steps: Tensor) -> SequencePreprocessing:
    """With the mean and std of all training steps.

    Shapes:
        steps: float [all T, F]
    """
    values = steps.numpy().astype(np.float64)
    std = values.std(axis=0)
    scale = np.where(std > 1e-6 * (1 + np.abs(values).max(axis=0)), std, 1.0)
    return SequencePreprocessing(values.mean(axis=0).tolist(), scale.tolist())


_NOISE = {"light": 0.1, "medium": 0.2, "strong": 0.3}  # in standard deviations
_STRETCH = {"light": 0.0, "medium": 0.15, "strong": 0.3}  # of the length, either way
_HIDDEN = {"light": 0.0, "medium": 0.15, "strong": 0.25}  # largest share of the steps


class SequenceAugmentation(nn.Module):
    """Noise; from `medium` on another speed, and a stretch of time that is blotted out.

    Args:
        strength: How much.

    Shapes:
        float [T, F], normalised → float [T', F]
    """

    def __init__(self, strength: Strength) -> None:
        super().__init__()
        self.noise = _NOISE.get(strength, 0.0)
        self.stretch = _STRETCH.get(strength, 0.0)
        self.hidden = _HIDDEN.get(strength, 0.0)

    def forward(self, sequence: Tensor) -> Tensor:
        if self.stretch:
            factor = 1 + (2 * torch.rand(()).item() - 1) * self.stretch
            length = max(1, round(len(sequence) * factor))
            sequence = F.interpolate(sequence.T[None], size=length, mode="linear")[0].T
        sequence = sequence + self.noise * torch.randn_like(sequence)
        hidden = int(torch.rand(()).item() * self.hidden * len(sequence))
        start = int(torch.randint(len(sequence) - hidden + 1, ()))
        sequence[start : start + hidden] = 0  # the mean, as it is normalised
        return sequence


def sequence_augmentation(strength: Strength) -> nn.Module:
    """The augmentation of a strength; `none` leaves a sequence as it is."""
    return nn.Identity() if strength == "none" else SequenceAugmentation(strength)
