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

    Cuts out the centre if asked to, resizes with antialiasing, scales 0–255 to 0–1, then takes
    (x - mean) / std per channel. The resize is to a fixed size, because only that exports exactly
    for every input size. It is done in float: rounded to bytes it would take a quarter of the time,
    but no exported format rounds alike.

    Args:
        size: Height and width of the output, in pixels.
        mean: Per channel, of pixels in 0–1.
        std: Per channel, of pixels in 0–1.
        crop: None stretches the whole picture to `size`. A share above 0 and up to 1 keeps the
            aspect: of the largest centred part that has the aspect of `size`, that share of each
            side is cut out and resized. 0.875 is usual for networks trained on ImageNet.

    Shapes:
        uint8 [..., C, H, W] → float32 [..., C, *size]

    Raises:
        UserError: A number is out of its range.
    """

    def __init__(
        self,
        size: tuple[int, int],
        mean: list[float],
        std: list[float],
        crop: float | None = None,
    ) -> None:
        super().__init__()
        if crop is not None and not 0 < crop <= 1:
            raise UserError(
                f"crop is {crop}; it must be a share of the picture, above 0 and up to 1, or None "
                "to stretch the whole picture."
            )
        if len(mean) != len(std) or min(std) <= 0:
            raise UserError(
                f"mean {mean} and std {std} must have one number per channel, and every std must "
                "be above 0 (a channel that never changes has nothing to normalise)."
            )
        self.size = tuple(size)
        self.crop = crop
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
        lead, channels = image.shape[:-3], image.shape[-3]
        if self.crop is not None:
            image = self._centre(image, self.crop)
        if _in_graph() or image.shape[-2:] != self.size:  # in a graph, no size is known
            image = image.reshape(-1, *image.shape[-3:]).to(torch.float32)
            image = F.interpolate(image, self.size, mode="bilinear", antialias=True)
        scaled = image.to(torch.float32, memory_format=torch.contiguous_format) / 255
        return ((scaled - self.mean) / self.std).reshape(*lead, channels, *self.size)

    def _centre(self, image: Tensor, share: float) -> Tensor:
        """The middle of a picture, in the aspect of `size`, by whole numbers alone.

        No comparison, so that a graph holds the arithmetic and not the result for one example:
        abs() instead of min(), and in a graph index_select instead of slices, whose ends the
        exporter would compare with the size.
        """
        (height, width), (rows, columns) = image.shape[-2:], self.size
        # the smaller of height * columns and width * rows: the largest part with that aspect
        least = (height * columns + width * rows - abs(height * columns - width * rows)) // 2
        thousandths = round(1000 * share)
        tall = (least * thousandths + 1000 * columns - 1) // (1000 * columns)  # rounded up: never 0
        wide = (least * thousandths + 1000 * rows - 1) // (1000 * rows)
        top, left = (height - tall) // 2, (width - wide) // 2
        if not _in_graph():
            return image[..., top : top + tall, left : left + wide]
        return _part(_part(image, -2, top, tall), -1, left, wide)

    def description(self) -> dict[str, Any]:
        """The constructor's arguments as plain values, for the checkpoint and the export."""
        crop = {} if self.crop is None else {"crop": self.crop}
        return {
            "size": list(self.size),
            "mean": [round(x, 6) for x in self.mean.flatten().tolist()],
            "std": [round(x, 6) for x in self.std.flatten().tolist()],
            **crop,
        }


def _in_graph() -> bool:
    return torch.jit.is_tracing() or torch.compiler.is_exporting()


def _part(image: Tensor, dimension: int, start: int, length: int) -> Tensor:
    """A slice whose start and length may be unknown while a graph is made.

    The indexes are counted on the image's own device; a traced `arange` would keep the example's.
    """
    ones = image.new_ones(length, dtype=torch.int64)
    return image.index_select(dimension, ones.cumsum(0) - 1 + start)
