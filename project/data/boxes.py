"""Images with boxes drawn around the objects on them."""

from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from project.data.annotated import Annotated
from project.data.annotations import Annotations, annotations
from project.data.augmentation import Strength
from project.data.cache import Cache, Pixels
from project.data.collate import listed
from project.data.columns import Columns
from project.data.coverage import uncovered
from project.data.folders import located
from project.data.joint_augmentation import Flip, scaled
from project.data.loader import Collate, Loader
from project.data.normalization import Normalization
from project.data.scenes import scene_folder
from project.data.splits import Splits
from project.errors import UserError


class Boxes(Annotated):
    """Image files, and a table, Pascal VOC's xml files or COCO's json that say what is where.

    Images are stretched to one size, boxes with them; what is predicted comes back in the pixels of
    the image's own size. An image may have no box. What is wrong with a box (no number, no area,
    beyond the image) is said with its file and line before the first step. Which split an image
    belongs to is stated by a column, by folders called train, val and test, or else follows from
    `splits.seed` and its name.

    Args:
        root: Folder of the images, in any depth. None takes that of `boxes`, and without those an
            example: scenes of handwritten digits, written to data/example_scenes.
        boxes: A table (.csv, .tsv, .xlsx, .jsonl) of file, label, xmin, ymin, xmax, ymax in pixels,
            one row a box; or a folder of Pascal VOC's .xml files; or COCO's .json.
        batch_size: Samples per batch and process.
        size: Height and width that the network sees, in pixels; one number for both. Give it the
            aspect of your images, for they are stretched to it.
        augmentation: Strength of the random crops and colours of training images.
        flip: Mirror half of the training images: `horizontal`, or `both` ways for what has no up,
            such as microscopy; `none` where left and right matter.
        on_bad: `error` stops at unreadable images, boxes that can't be and the like; `skip` leaves
            their images out, after looking at every file once, and lists them in audit.csv.
        cache: Keep decoded images in `memory` that all workers share or on `disk`; `none` decodes
            in every epoch.
        normalization: `train` measures mean and std on the training images, `imagenet` suits
            networks trained on that, `half` maps 0 to 255 to -1 to 1; or numbers, as in
            `{mean: [0.5, 0.5, 0.5], std: [0.2, 0.2, 0.2]}`.
        predict_root: Folder of images that `predict` runs over, instead of the test split.
        columns: How the table is read.
        splits: How images are divided where the data don't say.
        loader: How batches are loaded.
    """

    collate: ClassVar[Collate] = staticmethod(listed)

    # more arguments than elsewhere: each is one that a user types, and none belongs to another
    def __init__(
        self,
        root: str | None = None,
        boxes: str | None = None,
        *,
        batch_size: int = 8,
        size: int | tuple[int, int] = 256,
        augmentation: Strength = "light",
        flip: Flip = "horizontal",
        on_bad: Literal["error", "skip"] = "error",
        cache: Cache = "none",
        normalization: Normalization = "train",
        predict_root: str | None = None,
        columns: Columns = Columns(),  # noqa: B008 - never changed, and the parser reads it
        splits: Splits = Splits(),  # noqa: B008
        loader: Loader = Loader(),  # noqa: B008
    ) -> None:
        super().__init__(
            batch_size,
            size,
            augmentation=augmentation,
            flip=flip,
            on_bad=on_bad,
            cache=cache,
            normalization=normalization,
            predict_root=predict_root,
            loader=loader,
        )
        if boxes is None and root is not None:
            raise UserError(
                "data.boxes is not given: where are the boxes of the images in data.root? A table "
                "of file, label, xmin, ymin, xmax, ymax, a folder of .xml files, or COCO's .json."
            )
        if boxes is None:
            folder, source = scene_folder() / "images", scene_folder() / "boxes.csv"
        else:
            source = located(boxes, "data.boxes")
            near = source if source.is_dir() else source.parent
            folder = located(root, "data.root") if root else near
        self.annotations: Annotations = annotations(folder, source, columns, splits)
        self.index, self.bad = self.annotations.index, self.annotations.bad
        self.class_names = self.annotations.class_names
        self.index.findings += uncovered(self.counts(), "box")
        self.index.findings += self.annotations.vanishing(self.size)
        self.class_counts = list(self.counts()["train"].values())
        self.num_samples = int(np.count_nonzero(self.index.split == "train"))
        self.sizes = {"in_channels": 3, "num_outputs": len(self.class_names)}

    def dataset(self, split: str, pixels: Pixels) -> Dataset:
        assert self.preprocessing is not None  # set by `load`
        found = None if split == "predict" else self.annotations.of_images(self.rows[split])
        return BoxFiles(pixels, found, self.preprocessing, self.augmentation_of(split))

    def counts(self) -> dict[str, dict[str, int]]:
        return self.annotations.counts()

    def drawn(self) -> list[np.ndarray]:
        return [self.annotations.boxes, self.annotations.labels, self.annotations.starts]


class BoxFiles(Dataset):
    """Images decoded when they are asked for, with their boxes.

    Args:
        pixels: uint8 [3, H, W] by row, of any size.
        boxes: Of these images; None where they are not known.
        preprocessing: Makes an image ready for the network.
        augmentation: Changes an image and its boxes at random before that; for training only.
    """

    def __init__(
        self,
        pixels: Pixels,
        boxes: Annotations | None,
        preprocessing: nn.Module,
        augmentation: nn.Module,
    ) -> None:
        self.pixels = pixels
        self.boxes = boxes
        self.preprocessing = preprocessing
        self.augmentation = augmentation

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int) -> dict[str, Any]:
        image = self.pixels[index]
        target = self._target(index)
        if not isinstance(self.augmentation, nn.Identity):
            image, target = self.augmentation(image, target)
        size = (image.shape[-2], image.shape[-1])
        prepared = self.preprocessing(image)  # [3, *size of the network]
        sample: dict[str, Any] = {"inputs": {"image": prepared}, "size": torch.tensor(size)}
        if self.boxes is None:
            return sample
        boxes = scaled(target["boxes"], size, (prepared.shape[-2], prepared.shape[-1]))
        return {**sample, "target": {"boxes": boxes, "labels": target["labels"]}}

    def _target(self, index: int) -> dict[str, Tensor]:
        if self.boxes is None:
            return {}
        boxes, labels = self.boxes.of_image(index)
        return {"boxes": torch.tensor(boxes), "labels": torch.tensor(labels)}
