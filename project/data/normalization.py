"""Mean and standard deviation of the images a network sees: stated, or measured on some of them."""

from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from project.data.cache import Pixels
from project.data.loader import available_cpus
from project.data.preprocessing import ImagePreprocessing
from project.errors import UserError

Normalization = Literal["train", "imagenet", "half"] | dict[str, list[float]]

STATISTICS = {
    "imagenet": ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    "half": ([0.5, 0.5, 0.5], [0.5, 0.5, 0.5]),
}
"""Mean and std by name. Those of ImageNet go with networks of torchvision trained on it."""

NUM_SAMPLED = 256
"""Training images that the statistics are computed from: the standard error is then 0.008
for a mean and 0.004 for a std (resampled 200 times from 260 photos of clothes)."""


def stated(
    normalization: Normalization, size: tuple[int, int], crop: float | None = None
) -> ImagePreprocessing | None:
    """The preprocessing, where its numbers are known before an image is seen; else None.

    Args:
        normalization: `train` is measured later; a name of `STATISTICS`, or the numbers.
        size: Height and width that the network sees, in pixels.
        crop: As `ImagePreprocessing` has it.

    Raises:
        UserError: The numbers are not three means and three deviations.
    """
    if isinstance(normalization, dict):
        numbers = (normalization.get("mean"), normalization.get("std"))
        if set(normalization) != {"mean", "std"} or not all(n and len(n) == 3 for n in numbers):
            raise UserError(
                f"data.normalization is {normalization}; as numbers it needs mean and std, three "
                "of each: {mean: [0.5, 0.5, 0.5], std: [0.2, 0.2, 0.2]}."
            )
        return ImagePreprocessing(size, normalization["mean"], normalization["std"], crop)
    if normalization == "train":
        return None
    mean, std = STATISTICS[normalization]
    return ImagePreprocessing(size, mean, std, crop)


def measured(
    pixels: Pixels, size: tuple[int, int], crop: float | None = None
) -> ImagePreprocessing:
    """With the mean and std of a sample of the training images, at the network's size.

    Args:
        pixels: The training images.
        size: Height and width that the network sees, in pixels.
        crop: As `ImagePreprocessing` has it.

    Raises:
        UserError: They are all of one colour.
    """
    scaled = ImagePreprocessing(size, [0.0] * 3, [1.0] * 3, crop)
    rows = np.unique(np.linspace(0, len(pixels) - 1, NUM_SAMPLED).astype(np.int64)).tolist()

    def moments(row: int) -> Tensor:
        image = scaled(pixels[row]).double()  # [3, H, W]
        return torch.stack([image.mean((1, 2)), image.square().mean((1, 2))])  # [2, 3]

    with ThreadPoolExecutor(available_cpus()) as pool:
        mean, square = torch.stack(list(pool.map(moments, rows))).mean(0)
    std = (square - mean.square()).clamp(min=0).sqrt()
    if std.min() == 0:
        raise UserError("All training images are of one colour; there is nothing to learn.")
    return ImagePreprocessing(
        size, [round(x, 6) for x in mean.tolist()], [round(x, 6) for x in std.tolist()], crop
    )
