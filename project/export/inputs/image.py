"""Pictures, as they are decoded."""

from typing import Any

import torch
from torch import Tensor

from project.data.preprocessing import ImagePreprocessing
from project.errors import UserError
from project.export.inputs.input import NUMBERS, Input


class Image(Input):
    """Decoded pictures of any size → what the network's `image` was in training.

    Args:
        description: The data module's, out of the checkpoint.

    Raises:
        UserError: The checkpoint does not say how its images were prepared.

    Shapes:
        uint8 [B, H, W, C] → float [B, C, *size]
    """

    dynamic = ("batch", "height", "width")

    def __init__(self, description: dict[str, Any]) -> None:
        super().__init__(description)
        numbers = description.get("preprocessing")
        if not isinstance(numbers, dict) or not {"size", "mean", "std"} <= set(numbers):
            raise UserError(
                f"The checkpoint says of its preprocessing {numbers!r}; size, mean and std are "
                "needed to export it. Let the data module's description() give them, as in "
                "project/data/digits.py, and train again."
            )
        self.preprocessing = ImagePreprocessing(**numbers)
        self.num_channels = len(numbers["mean"])

    def forward(self, given: Tensor) -> Tensor:
        return self.preprocessing(given.permute(0, 3, 1, 2))  # [B, C, *size]

    def example(self) -> Tensor:
        height, width = self.preprocessing.size
        return _random(3, height + 2, width + 5, self.num_channels)

    def random(self, count: int) -> list[Tensor]:
        return list(_random(count, *self.preprocessing.size, self.num_channels))

    def sample(self, inputs: dict[str, Tensor]) -> Tensor:
        image = inputs["image"]
        if image.dtype != torch.uint8:
            raise UserError(f"the images are {image.dtype} before preprocessing, not torch.uint8")
        return image.permute(1, 2, 0)

    def batches(self, samples: list[Tensor]) -> list[Tensor]:
        """Batches of `BATCH_SIZES`, some in the samples' own size, some larger, flatter, odd."""
        height, width = self.preprocessing.size
        own = tuple(samples[0].shape[:2])
        sizes = (own, (2 * height + 1, width + 3), (height // 2 + 1, 3 * width + 2), own)
        return [
            torch.stack([_resized(samples[n % len(samples)], size) for n in numbers])
            for numbers, size in zip(NUMBERS, sizes, strict=True)
        ]

    def contract(self) -> dict[str, Any]:
        colours = {1: "grey levels", 3: "red, green, blue"}.get(self.num_channels, "as in training")
        return {
            "dtype": "uint8",
            "shape": ["batch", "height", "width", self.num_channels],
            "dynamic": list(self.dynamic),
            "layout": "BHWC: as decoded, one picture after another, rows from the top",
            "meaning": f"pixels from 0 to 255, channels: {colours}; any height and width",
            "preprocessing": {
                "where": "inside the model: give it the pixels as they are",
                "steps": [
                    *self._framing(),
                    "divide by 255",
                    "subtract the mean and divide by the std of each channel",
                ],
                **self.preprocessing.description(),
            },
        }

    def _framing(self) -> list[str]:
        """How a picture of any size comes to be one of a fixed size, in words."""
        (height, width), crop = self.preprocessing.size, self.preprocessing.crop
        resize = f"resize to {height} x {width} pixels, bilinear, antialiased"
        if crop is None:
            return [f"{resize}, the aspect ratio not kept"]
        return [
            f"cut out the centre: of the largest part of the aspect {height} : {width}, "
            f"{crop:g} of each side",
            f"{resize}, the aspect ratio kept",
        ]


def _random(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)


def _resized(image: Tensor, size: tuple[int, ...]) -> Tensor:
    """By the nearest pixel: another size of a picture, still made of its bytes."""
    rows = torch.arange(size[0]) * image.shape[0] // size[0]
    columns = torch.arange(size[1]) * image.shape[1] // size[1]
    return image[rows][:, columns]
