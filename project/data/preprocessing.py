"""One preprocessing for training, evaluation and export.

It is a module, so that it can stand in front of the network in an exported graph: what is served is
then what was trained.
"""

from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from project.errors import UserError


class ImagePreprocessing(nn.Module):
    """uint8 pixels of any size → normalised float pixels of one size.

    Scales 0–255 to 0–1, resizes with antialiasing, then takes (x - mean) / std per channel. The
    resize is to a fixed size, because only that exports exactly for every input size.

    Args:
        size: Height and width of the output, in pixels.
        mean: Per channel, of pixels in 0–1.
        std: Per channel, of pixels in 0–1.

    Shapes:
        uint8 [..., C, H, W] → float32 [..., C, *size]
    """

    def __init__(self, size: tuple[int, int], mean: list[float], std: list[float]) -> None:
        super().__init__()
        if len(mean) != len(std) or min(std) <= 0:
            raise UserError(
                f"mean {mean} and std {std} must have one number per channel, and every std must "
                "be above 0 (a channel that never changes has nothing to normalise)."
            )
        self.size = tuple(size)
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1), persistent=False)

    @classmethod
    def fitted(cls, images: Tensor, size: tuple[int, int]) -> Self:
        """With the statistics of these images, which must be of the training split alone.

        Args:
            images: uint8 [B, C, H, W].
            size: Height and width of the output, in pixels.
        """
        pixels = images.double() / 255
        mean, std = pixels.mean(dim=(0, 2, 3)), pixels.std(dim=(0, 2, 3))
        return cls(size, [round(x, 6) for x in mean.tolist()], [round(x, 6) for x in std.tolist()])

    def forward(self, image: Tensor) -> Tensor:
        lead, last = image.shape[:-3], image.shape[-3:]
        scaled = image.to(torch.float32).reshape(-1, *last) / 255
        resized = F.interpolate(scaled, self.size, mode="bilinear", antialias=True)
        return ((resized - self.mean) / self.std).reshape(*lead, last[0], *self.size)

    def description(self) -> dict[str, Any]:
        """The constructor's arguments as plain values, for the checkpoint and the export."""
        return {
            "size": list(self.size),
            "mean": [round(x, 6) for x in self.mean.flatten().tolist()],
            "std": [round(x, 6) for x in self.std.flatten().tolist()],
        }
