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
from project.data.splits import stratified


class Digits(DataModule):
    """1,797 scans of handwritten digits, 8 x 8 pixels, 10 classes.

    Split by seed and stratified: 60 % to train, 20 % to validate, 20 % to test. The split has a
    seed of its own, so that runs with different seeds are measured on the same samples.

    Args:
        batch_size: Samples per batch and process.
        augmentation: Strength of the random shift, rotation and zoom of training samples.
        split_seed: Another number, another split.
        loader: How batches are loaded; the data lies in memory, so no workers by default.

    Source: E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine
        Learning Repository, 1998 (CC BY 4.0), test part, as shipped by scikit-learn.
    """

    def __init__(
        self,
        batch_size: int = 64,
        *,
        augmentation: Strength = "light",
        split_seed: int = 0,
        loader: Loader = Loader(num_workers=0),  # noqa: B008 - never changed, and the parser reads it
    ) -> None:
        super().__init__(batch_size, loader)
        self.augmentation = image_augmentation(augmentation, flip=False)
        self.split_seed = split_seed
        self.class_names = [str(digit) for digit in range(10)]
        self.sizes = {"in_channels": 1, "num_outputs": 10}
        self.preprocessing: ImagePreprocessing | None = None

    def load(self) -> dict[str, Dataset]:
        pixels, labels = load_digits(return_X_y=True)
        images = torch.from_numpy(np.rint(pixels * (255 / 16)).astype(np.uint8)).view(-1, 1, 8, 8)
        target = torch.from_numpy(labels).long()
        rows = stratified(labels, {"train": 0.6, "val": 0.2, "test": 0.2}, self.split_seed)
        self.rows = rows
        self.preprocessing = ImagePreprocessing.fitted(images[rows["train"]], size=(8, 8))
        return {
            split: ImagesInMemory(
                images[index],
                target[index],
                self.preprocessing,
                self.augmentation if split == "train" else nn.Identity(),
            )
            for split, index in rows.items()
        }

    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for split in self.datasets.values():
            digest.update(cast(ImagesInMemory, split).images.numpy().tobytes())
        return digest.hexdigest()

    def names(self, split: str) -> list[str]:
        return [f"digits[{row}]" for row in self.rows[split]]

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
