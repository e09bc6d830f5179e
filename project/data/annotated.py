"""Images with something drawn on them, boxes or masks: what both kinds share."""

import hashlib
from abc import abstractmethod
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from torch import nn
from torch.utils.data import Dataset

from project.data.audit import SECONDS, audit, remembered
from project.data.augmentation import Strength
from project.data.cache import Cache, Pixels
from project.data.datamodule import SPLITS, DataModule
from project.data.folders import located, text_array
from project.data.images import readable
from project.data.index import Index
from project.data.joint_augmentation import Flip, joint_augmentation
from project.data.loader import Loader
from project.data.normalization import Normalization, measured, stated
from project.data.preprocessing import ImagePreprocessing
from project.errors import UserError
from project.findings import Finding


class Annotated(DataModule):
    """Image files stretched to one size, and a target that is stretched with them.

    Args:
        batch_size: Samples per batch and process.
        size: Height and width that the network sees, in pixels; one number for both.
        augmentation: Strength of the random changes of training images.
        flip: Which way half of the training images are mirrored.
        on_bad: `error` stops at what is wrong with files or annotations; `skip` leaves the images
            out that are concerned.
        cache: Where decoded images are kept.
        normalization: How pixels are normalised.
        predict_root: Folder of images that `predict` runs over, instead of the test split.
        loader: How batches are loaded.
    """

    index: Index
    bad: np.ndarray
    """Images with something wrong in their annotation: bool [N]."""

    # more arguments than elsewhere: those of its subclasses, which are what a user types
    def __init__(
        self,
        batch_size: int,
        size: int | tuple[int, int],
        *,
        augmentation: Strength,
        flip: Flip,
        on_bad: Literal["error", "skip"],
        cache: Cache,
        normalization: Normalization,
        predict_root: str | None,
        loader: Loader,
    ) -> None:
        super().__init__(batch_size, loader)
        self.size = (size, size) if isinstance(size, int) else (size[0], size[1])
        if min(self.size) < 1:
            raise UserError(f"data.size is {size}; height and width are 1 pixel or more.")
        self.augmentation = joint_augmentation(augmentation, self.size, flip=flip)
        self.skip = on_bad == "skip"
        self.cache: Cache = cache
        self.normalization = normalization
        self.preprocessing = stated(normalization, self.size)
        self.predict_root = located(predict_root, "data.predict_root") if predict_root else None
        self.predicted: list[str] = []
        self.predicts = "predict" if predict_root else "test"
        self.rows: dict[str, np.ndarray] = {}

    @abstractmethod
    def dataset(self, split: str, pixels: Pixels) -> Dataset:
        """The samples of a split; `predict` has no target."""

    @abstractmethod
    def counts(self) -> dict[str, dict[str, int]]:
        """What there is of each class, by split."""

    def audit(self, *, seconds: float | None) -> list[Finding]:
        """Of annotations and files; see `project.data.audit`."""
        return [*self.index.findings, *audit(self.index, seconds=seconds).findings]

    def prepare_data(self) -> None:
        trainer = self.trainer
        if trainer is not None and trainer.state.fn != "fit":
            return  # what is tested was trained, and told then
        if self.skip:
            self.tell([*self.index.findings, *remembered(self.index).findings])
        else:
            self.tell(self.audit(seconds=SECONDS))

    def setup(self, stage: str) -> None:
        if stage != "predict" or not self.predict_root:
            self.refuse(self.index.findings)
        super().setup(stage)
        if stage == "predict" and self.predict_root and "predict" not in self.datasets:
            self.predicted = readable(self.predict_root, skip=self.skip, trainer=self.trainer)
            pixels = self._pixels(self.predict_root, self.predicted)
            self.datasets["predict"] = self.dataset("predict", pixels)

    def load(self) -> dict[str, Dataset]:
        good = np.ones(len(self.index.names), bool)
        if self.skip:
            good = ~(self.bad | remembered(self.index).left_out)
        self.rows = {s: np.flatnonzero((self.index.split == s) & good) for s in SPLITS}
        empty = [split for split, rows in self.rows.items() if not len(rows)]
        if empty:
            raise UserError(f"No image is left for {' and '.join(empty)} below {self.index.root}.")
        pixels = {split: self._pixels(self.index.root, self.names(split)) for split in SPLITS}
        if self.preprocessing is None:
            self.preprocessing = measured(pixels["train"], self.size)
        return {split: self.dataset(split, pixels[split]) for split in SPLITS}

    def names(self, split: str) -> list[str]:
        if split == "predict":
            return self.predicted
        return self.index.names[self.rows[split]].tolist()

    def shown(self, split: str, index: int) -> np.ndarray:
        dataset: Any = self.datasets[split]
        return dataset.pixels[index].permute(1, 2, 0).numpy()

    def fingerprint(self) -> str:
        digest = hashlib.sha256("\n".join(self.class_names).encode())
        for array in (self.index.names, self.index.split, *self.drawn()):
            digest.update(array.tobytes())
        return digest.hexdigest()

    @abstractmethod
    def drawn(self) -> list[np.ndarray]:
        """The annotations as arrays: when one changes, the data have."""

    def description(self) -> dict[str, Any]:
        preprocessing = self.preprocessing.description() if self.preprocessing else None
        return {**super().description(), "preprocessing": preprocessing, "counts": self.counts()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        known = state_dict["description"].get("preprocessing")
        if known and self.normalization == "train":
            # what was measured when training began holds, even if images have come since
            self.preprocessing = ImagePreprocessing(**known)
            for dataset in self.datasets.values():
                cast(Any, dataset).preprocessing = self.preprocessing

    def augmentation_of(self, split: str) -> nn.Module:
        """What changes the images of a split at random."""
        return self.augmentation if split == "train" else nn.Identity()

    def _pixels(self, root: Path, names: list[str]) -> Pixels:
        return Pixels(text_array([str(root / name) for name in names]), cache=self.cache)
