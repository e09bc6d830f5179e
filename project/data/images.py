"""Photos as people have them: a folder of image files, labels in a table or in folders' names."""

import hashlib
import math
from pathlib import Path
from typing import Any, Literal, cast

import lightning as L
import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from project import findings
from project.data.audit import SECONDS, Report, audit, remembered
from project.data.augmentation import PhotoAugmentation, Strength, photo_augmentation
from project.data.cache import Cache, Pixels
from project.data.columns import Columns
from project.data.datamodule import SPLITS, DataModule
from project.data.example import example_folder
from project.data.folders import listed, located, text_array
from project.data.index import Index, index
from project.data.loader import Loader
from project.data.normalization import Normalization, measured, stated
from project.data.preprocessing import ImagePreprocessing
from project.data.splits import Splits
from project.errors import UserError
from project.findings import Finding


class Images(DataModule):
    """Image files with one class each, by a label table or by folders.

    Everything that is wrong with the files or the labels is said before the first step; nothing is
    dropped unless `on_bad` says so. Which split an image belongs to is stated by a column, by
    folders called train, val and test, or else follows from `splits.seed` and its name.

    Args:
        root: Folder of the images, in any depth; a relative one starts at the working directory,
            else at the project's root. None takes the table's folder, and without a table an
            example: handwritten digits as PNG files, written to data/example_digits.
        table: Labels: .csv, .tsv, .xlsx or .jsonl with a column of files and one of classes. None
            takes the folders' names for the classes.
        batch_size: Samples per batch and process.
        size: Height and width that the network sees, in pixels; one number for both.
        crop: None stretches every image to `size`; a share of it, such as 0.875, cuts the middle
            out instead and keeps the aspect.
        augmentation: Strength of the random changes of training images.
        flip: Mirror half of the training images; false where left and right matter, as in text.
        on_bad: `error` stops at unreadable files, missing labels and the like; `skip` trains on the
            rest, after looking at every file once, and lists what it left out in audit.csv.
        cache: Keep decoded images in `memory` that all workers share or on `disk`; `none` decodes
            in every epoch.
        normalization: `train` measures mean and std on the training images, `imagenet` suits
            networks trained on that, `half` maps 0 to 255 to -1 to 1; or numbers, as in
            `{mean: [0.5, 0.5, 0.5], std: [0.2, 0.2, 0.2]}`.
        predict_root: Folder of images without labels that `predict` runs over, instead of the test
            split.
        columns: How the table is read.
        splits: How samples are divided where the data don't say.
        loader: How batches are loaded.
    """

    # more arguments than elsewhere: each is one that a user types, and none belongs to another
    def __init__(
        self,
        root: str | None = None,
        table: str | None = None,
        *,
        batch_size: int = 32,
        size: int | tuple[int, int] = 128,
        crop: float | None = None,
        augmentation: Strength = "light",
        flip: bool = True,
        on_bad: Literal["error", "skip"] = "error",
        cache: Cache = "none",
        normalization: Normalization = "train",
        predict_root: str | None = None,
        columns: Columns = Columns(),  # noqa: B008 - never changed, and the parser reads it
        splits: Splits = Splits(),  # noqa: B008
        loader: Loader = Loader(),  # noqa: B008
    ) -> None:
        super().__init__(batch_size, loader)
        self.size = (size, size) if isinstance(size, int) else tuple(size)
        if min(self.size) < 1:
            raise UserError(f"data.size is {size}; height and width are 1 pixel or more.")
        self.augmentation = photo_augmentation(augmentation, self.size, flip=flip)
        self.crop = crop
        self.skip = on_bad == "skip"
        self.cache: Cache = cache
        self.normalization = normalization
        self.preprocessing = stated(normalization, self.size, crop)
        path = located(table, "data.table") if table else None
        folder = located(root, "data.root") if root else path.parent if path else example_folder()
        self.index = index(folder, path, columns, splits)
        self.predict_root = located(predict_root, "data.predict_root") if predict_root else None
        self.predicted: list[str] = []
        self.predicts = "predict" if predict_root else "test"
        self.class_names = self.index.class_names
        self.class_counts = list(self.index.counts()["train"].values())
        self.num_samples = int(np.count_nonzero(self.index.split == "train"))
        self.sizes = {"in_channels": 3, "num_outputs": len(self.class_names)}
        self.rows: dict[str, np.ndarray] = {}

    def audit(self, *, seconds: float | None) -> list[Finding]:
        """Of labels and files; see `project.data.audit`."""
        return [*self.index.findings, *audit(self.index, seconds=seconds).findings]

    def prepare_data(self) -> None:
        trainer = self.trainer
        if trainer is not None and trainer.state.fn != "fit":
            return  # what is tested was trained, and told then
        self.tell(self._skipping().findings if self.skip else self.audit(seconds=SECONDS))

    def setup(self, stage: str) -> None:
        if stage != "predict" or not self.predict_root:
            self.refuse(self.index.findings)
        super().setup(stage)
        if stage == "predict" and self.predict_root and "predict" not in self.datasets:
            self.datasets["predict"] = self._unlabelled(self.predict_root)

    def load(self) -> dict[str, Dataset]:
        good = ~self._skipping().left_out if self.skip else np.ones(len(self.index.names), bool)
        self.rows = {s: np.flatnonzero((self.index.split == s) & good) for s in SPLITS}
        empty = [split for split, rows in self.rows.items() if not len(rows)]
        if empty:
            raise UserError(f"No image is left for {' and '.join(empty)} below {self.index.root}.")
        pixels = {
            split: self._pixels(self.index.root, self.names(split), training=split == "train")
            for split in SPLITS
        }
        if self.preprocessing is None:
            self.preprocessing = measured(pixels["train"], self.size, self.crop)
        return {
            split: ImageFiles(
                pixels[split],
                torch.from_numpy(self.index.target[self.rows[split]]),
                self.preprocessing,
                self.augmentation if split == "train" else nn.Identity(),
            )
            for split in SPLITS
        }

    def names(self, split: str) -> list[str]:
        if split == "predict":
            return self.predicted
        return self.index.names[self.rows[split]].tolist()

    def shown(self, split: str, index: int) -> np.ndarray:
        image: Tensor = cast(ImageFiles, self.datasets[split]).pixels[index]  # [3, H, W]
        return image.permute(1, 2, 0).numpy()

    def fingerprint(self) -> str:
        digest = hashlib.sha256("\n".join(self.class_names).encode())
        for array in (self.index.names, self.index.target, self.index.split):
            digest.update(array.tobytes())
        return digest.hexdigest()

    def description(self) -> dict[str, Any]:
        preprocessing = self.preprocessing.description() if self.preprocessing else None
        return {
            **super().description(),
            "preprocessing": preprocessing,
            "label_mapping": self.index.mapping,
            "counts": self.index.counts(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        known = state_dict["description"].get("preprocessing")
        if known and self.normalization == "train":
            # what was measured when training began holds, even if images have come since
            self.preprocessing = ImagePreprocessing(**known)
            for dataset in self.datasets.values():
                if isinstance(dataset, ImageFiles):
                    dataset.preprocessing = self.preprocessing

    def _skipping(self) -> Report:
        """As `audit` in full, which decides what is left out, so it must not depend on time."""
        found = remembered(self.index)
        return Report([*self.index.findings, *found.findings], found.left_out)

    def _pixels(self, root: Path, names: list[str], *, training: bool = False) -> Pixels:
        """The images of a folder, at a scale at which the smallest part cut out has `size`."""
        share = self.crop or 1.0
        if training and isinstance(self.augmentation, PhotoAugmentation):
            share = min(share, math.sqrt(self.augmentation.crop_share))
        height, width = (math.ceil(side / share) for side in self.size)
        paths = text_array([str(root / name) for name in names])
        return Pixels(paths, at_least=(height, width), cache=self.cache)

    def _unlabelled(self, root: Path) -> Dataset:
        self.predicted = readable(root, skip=self.skip, trainer=self.trainer)
        assert self.preprocessing is not None  # set by `load`
        pixels = self._pixels(root, self.predicted)
        return ImageFiles(pixels, None, self.preprocessing, nn.Identity())


def readable(root: Path, *, skip: bool, trainer: L.Trainer | None) -> list[str]:
    """The images to predict on, in order; those that can't be read are named.

    Args:
        root: Their folder.
        skip: Leave out those that can't be read.
        trainer: Whose directory the list of them is written to.

    Raises:
        UserError: There is no image, or one can't be read and `skip` is false.
    """
    names = text_array(listed(root).names)
    if not len(names):
        raise UserError(f"--data.predict_root {root} holds no image.")
    none = np.zeros(len(names), dtype=np.int64)
    found = Index(root, names, none, np.full(len(names), "predict"), ["any"], {}, [])
    report = audit(found, seconds=None if skip else SECONDS)
    errors = [each for each in report.findings if each.severity == "error"]
    findings.say(errors, skip=skip)
    findings.refuse(errors, skip=skip)
    if errors and trainer is not None:
        path = Path(trainer.default_root_dir) / "predict_audit.csv"
        findings.write(errors, path, skip=True)
    return names[~report.left_out].tolist()


class ImageFiles(Dataset):
    """Images decoded when they are asked for.

    Args:
        pixels: uint8 [3, H, W] by row, of any size.
        target: int64 [N], of several labels each [N, C]; None where there are no labels.
        preprocessing: Makes an image ready for the network.
        augmentation: Changes an image at random before that; for training only.
    """

    def __init__(
        self,
        pixels: Pixels,
        target: Tensor | None,
        preprocessing: nn.Module,
        augmentation: nn.Module,
    ) -> None:
        self.pixels = pixels
        self.target = target
        self.preprocessing = preprocessing
        self.augmentation = augmentation

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int) -> dict[str, Any]:
        image = self.preprocessing(self.augmentation(self.pixels[index]))
        sample: dict[str, Any] = {"inputs": {"image": image}}
        return sample if self.target is None else {**sample, "target": self.target[index]}
