"""Handwritten digits that ship inside scikit-learn: real data without a download."""

import hashlib
from typing import Any, cast

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import Dataset

from project.data.augmentation import Strength, image_augmentation
from project.data.datamodule import DataModule
from project.data.loader import Loader
from project.data.preprocessing import ImagePreprocessing
from project.data.splits import Splits, divided, rows_of


class Digits(DataModule):
    """1,797 scans of handwritten digits, 8 x 8 pixels, 10 classes.

    Divided by seed and stratified: 60 % to train, 20 % to validate, 20 % to test.

    Args:
        batch_size: Samples per batch and process.
        augmentation: Strength of the random shift, rotation and zoom of training samples.
        splits: How samples are divided.
        loader: How batches are loaded; the data lies in memory, so no workers by default.

    Source: E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine
        Learning Repository, 1998 (CC BY 4.0), test part, as shipped by scikit-learn.
    """

    def __init__(
        self,
        batch_size: int = 64,
        *,
        augmentation: Strength = "light",
        splits: Splits = Splits(0.2, 0.2),  # noqa: B008 - never changed, and the parser reads it
        loader: Loader = Loader(num_workers=0),  # noqa: B008
    ) -> None:
        super().__init__(batch_size, loader)
        self.augmentation = image_augmentation(augmentation, flip=False)
        self.class_names = [str(digit) for digit in range(10)]
        self.sizes = {"in_channels": 1, "num_outputs": 10}
        pixels, labels = load_digits(return_X_y=True)
        self.images = np.rint(pixels * (255 / 16)).astype(np.uint8).reshape(-1, 1, 8, 8)
        self.labels = labels
        self.samples = [f"digits[{row}]" for row in range(len(labels))]
        self.rows = rows_of(divided(self.samples, labels, splits))
        self.class_counts = np.bincount(labels[self.rows["train"]]).tolist()
        self.preprocessing: ImagePreprocessing | None = None

    def load(self) -> dict[str, Dataset]:
        images, target = torch.from_numpy(self.images), torch.from_numpy(self.labels).long()
        self.preprocessing = ImagePreprocessing.fitted(images[self.rows["train"]], size=(8, 8))
        return {
            split: ImagesInMemory(
                images[index],
                target[index],
                self.preprocessing,
                self.augmentation if split == "train" else nn.Identity(),
            )
            for split, index in self.rows.items()
        }

    def fingerprint(self) -> str:
        return hashlib.sha256(self.images[np.concatenate(list(self.rows.values()))]).hexdigest()

    def names(self, split: str) -> list[str]:
        return [self.samples[row] for row in self.rows[split]]

    def shown(self, split: str, index: int) -> np.ndarray:
        return cast(ImagesInMemory, self.datasets[split]).pixels(index)

    def description(self) -> dict[str, Any]:
        preprocessing = self.preprocessing.description() if self.preprocessing else None
        return {**super().description(), "preprocessing": preprocessing}


class ImagesInMemory(Dataset):
    """Images and class numbers held as two tensors.

    Args:
        images: uint8 [N, C, H, W].
        target: int64 [N].
        preprocessing: Makes an image ready for the network.
        augmentation: Changes an image at random before that; for training only.
    """

    def __init__(
        self, images: Tensor, target: Tensor, preprocessing: nn.Module, augmentation: nn.Module
    ) -> None:
        self.images = images
        self.target = target
        self.preprocessing = preprocessing
        self.augmentation = augmentation

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> dict[str, Any]:
        image = self.preprocessing(self.augmentation(self.images[index]))
        return {"inputs": {"image": image}, "target": self.target[index]}

    def pixels(self, index: int) -> np.ndarray:
        """An image as it is: uint8 [H, W, C]."""
        return self.images[index].permute(1, 2, 0).numpy()
