"""Samples of several modalities, each of which a row may lack."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from project.data.cache import Pixels
from project.data.preprocessing import ImagePreprocessing
from project.data.ragged import Ragged
from project.data.table_preprocessing import TablePreprocessing


class MixedPreprocessing(nn.Module):
    """Prepares the image and the features of a sample's inputs; tokens are numbers already.

    Args:
        image: None where there are no images.
        features: None where there are no features.
    """

    def __init__(
        self, image: ImagePreprocessing | None, features: TablePreprocessing | None
    ) -> None:
        super().__init__()
        parts = {"image": image, "features": features}
        self.parts = nn.ModuleDict({name: part for name, part in parts.items() if part})

    def forward(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        prepared = {name: part(inputs[name]) for name, part in self.parts.items()}
        return {**inputs, **prepared}


class ImagesOfRows:
    """The image of every row; one of even colour where it has none.

    Args:
        pixels: uint8 [3, H, W] of any size.
        position: Of each row's image among them, -1 for none: int64 [N].
        blank: In place of a missing one: uint8 [3, H, W].
    """

    def __init__(self, pixels: Pixels, position: np.ndarray, blank: Tensor) -> None:
        self.pixels = pixels
        self.position = position
        self.blank = blank

    def __len__(self) -> int:
        return len(self.position)

    def __getitem__(self, row: int) -> Tensor:
        return self.pixels[int(self.position[row])] if self.has(row) else self.blank

    def has(self, row: int) -> bool:
        """Whether the row has an image."""
        return bool(self.position[row] >= 0)


def blank(preprocessing: ImagePreprocessing) -> Tensor:
    """A picture of the mean colour, which is all 0 once it is normalised: uint8 [3, *size]."""
    colour = (preprocessing.mean * 255).round().to(torch.uint8)  # [3, 1, 1]
    return colour.expand(-1, *preprocessing.size).contiguous()


class MixedRows(Dataset):
    """Samples of up to three modalities; those that are None are not among the inputs.

    Args:
        images: By row.
        tokens: By row, as the tokenizer numbers them.
        features: As `TablePreprocessing` takes them: float32 [N, columns].
        target: float32 [N, K] or int64 [N]; None where there are none.
        preprocessing: Makes a sample's inputs ready for the network.
        augmentation: Changes an image at random before that; for training only.
    """

    def __init__(
        self,
        images: ImagesOfRows | None,
        tokens: Ragged | None,
        features: Tensor | None,
        target: Tensor | None,
        *,
        preprocessing: nn.Module,
        augmentation: nn.Module,
    ) -> None:
        self.images = images
        self.tokens = tokens
        self.features = features
        self.target = target
        self.preprocessing = preprocessing
        self.augmentation = augmentation

    def __len__(self) -> int:
        parts = (self.images, self.tokens, self.features)
        return next(len(part) for part in parts if part is not None)

    def __getitem__(self, index: int) -> dict[str, Any]:
        inputs: dict[str, Tensor] = {}
        if self.images is not None:
            inputs["image"] = self.augmentation(self.images[index])
        if self.tokens is not None:
            inputs["tokens"] = self.tokens[index]
        if self.features is not None:
            inputs["features"] = self.features[index]
        sample: dict[str, Any] = {"inputs": self.preprocessing(inputs)}
        return sample if self.target is None else {**sample, "target": self.target[index]}

    def picture(self, index: int) -> Tensor | None:
        """The row's image as it is in the file, if it has one: uint8 [3, H, W]."""
        return self.images[index] if self.images and self.images.has(index) else None
