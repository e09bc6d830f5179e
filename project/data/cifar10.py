"""CIFAR-10, downloaded by torchvision: small photos of ten kinds of things."""

from typing import Any, cast

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset
from torchvision.datasets import CIFAR10 as Source  # noqa: N811 - ours has that name

from project.data.augmentation import Strength, image_augmentation
from project.data.datamodule import DataModule
from project.data.digits import ImagesInMemory
from project.data.loader import Loader
from project.data.preprocessing import ImagePreprocessing
from project.data.splits import Splits, divided, rows_of
from project.errors import UserError
from project.runs import rooted


class CIFAR10(DataModule):
    """60,000 photos, 32 x 32 pixels, 10 classes.

    The 10,000 test photos are the data set's own; of the 50,000 others a tenth, stratified by seed,
    is validated on.

    Args:
        root: Where the files are downloaded to (170 MB), and looked for; a relative one starts at
            the project's root.
        batch_size: Samples per batch and process.
        augmentation: Strength of the random changes of training photos.
        splits: How the samples that are not tested on are divided.
        loader: How batches are loaded.

    Source: A. Krizhevsky, "Learning multiple layers of features from tiny images", 2009.
    """

    def __init__(
        self,
        root: str = "data/cifar10",
        *,
        batch_size: int = 128,
        augmentation: Strength = "light",
        splits: Splits = Splits(val_fraction=0.1),  # noqa: B008 - never changed, and the parser reads it
        loader: Loader = Loader(),  # noqa: B008
    ) -> None:
        super().__init__(batch_size, loader)
        self.root = rooted(root)
        self.augmentation = image_augmentation(augmentation, flip=True)
        self.splits = splits
        self.class_names = [
            "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship",
            "truck",
        ]  # fmt: skip
        self.sizes = {"in_channels": 3, "num_outputs": 10}
        self.samples: list[str] = []
        self.rows: dict[str, np.ndarray] = {}
        self.preprocessing: ImagePreprocessing | None = None

    def prepare_data(self) -> None:
        try:
            Source(str(self.root), download=True)
        except (OSError, RuntimeError) as error:
            raise UserError(
                f"CIFAR-10 could not be downloaded to {self.root}: {error}. Without a network, put "
                "cifar-10-batches-py there yourself, or choose another data set."
            ) from None

    def load(self) -> dict[str, Dataset]:
        try:
            known, test = Source(str(self.root), train=True), Source(str(self.root), train=False)
        except RuntimeError:
            raise UserError(
                f"There is no CIFAR-10 in {self.root}; fit downloads it. Is --data.root right?"
            ) from None
        images = torch.from_numpy(np.concatenate([known.data, test.data]))  # [B, 32, 32, 3]
        images = images.permute(0, 3, 1, 2)  # [B, 3, 32, 32]
        labels = np.array([*known.targets, *test.targets])
        stated = [""] * len(known.targets) + ["test"] * len(test.targets)
        self.samples = [f"cifar10/train[{row}]" for row in range(len(known.targets))]
        self.samples += [f"cifar10/test[{row}]" for row in range(len(test.targets))]
        rows = self.rows = rows_of(divided(self.samples, labels, self.splits, stated=stated))
        self.preprocessing = ImagePreprocessing.fitted(images[rows["train"]], size=(32, 32))
        target = torch.from_numpy(labels).long()
        return {
            split: ImagesInMemory(
                images[index],
                target[index],
                self.preprocessing,
                self.augmentation if split == "train" else nn.Identity(),
            )
            for split, index in rows.items()
        }

    def names(self, split: str) -> list[str]:
        return [self.samples[row] for row in self.rows[split]]

    def shown(self, split: str, index: int) -> np.ndarray:
        return cast(ImagesInMemory, self.datasets[split]).pixels(index)

    def description(self) -> dict[str, Any]:
        preprocessing = self.preprocessing.description() if self.preprocessing else None
        return {**super().description(), "preprocessing": preprocessing}
