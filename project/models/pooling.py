"""From one vector per step to one per sample, whatever its length, without a loop."""

import torch
from torch import Tensor


def masked(features: Tensor, padding: Tensor) -> Tensor:
    """Set padded steps to 0, whatever stands there.

    Shapes:
        features: float [B, T, F]; padding: bool [B, T] → float [B, T, F]
    """
    return features.masked_fill(padding[..., None], 0.0)


def mean_and_max(features: Tensor, padding: Tensor) -> Tensor:
    """Mean and maximum over the steps that are not padded, side by side.

    Shapes:
        features: float [B, T, F]; padding: bool [B, T], no whole row → float [B, 2 F]
    """
    lengths = (~padding).sum(1, keepdim=True)  # [B, 1]
    mean = masked(features, padding).sum(1) / lengths
    lowest = torch.finfo(features.dtype).min
    largest = features.masked_fill(padding[..., None], lowest).amax(1)
    return torch.cat([mean, largest], dim=1)
