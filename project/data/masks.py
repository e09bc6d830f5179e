"""Images with a mask each, which says of every pixel what it shows."""

from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset

from project.data.annotated import Annotated
from project.data.augmentation import Strength
from project.data.cache import Cache, Pixels
from project.data.collate import bordered
from project.data.columns import Columns
from project.data.coverage import uncovered
from project.data.folders import located, text_array
from project.data.joint_augmentation import Flip, nearest
from project.data.loader import Collate, Loader
from project.data.mask_files import looked_at, read_mask
from project.data.mask_pairs import paired
from project.data.mask_values import meanings, names_of, numbers_of
from project.data.normalization import Normalization
from project.data.scenes import CLASSES, scene_folder
from project.data.splits import Splits
from project.errors import UserError
from project.findings import Finding


class Masks(Annotated):
    """Image files, and for each a mask of its size whose values stand for classes.

    Images are stretched to one size, and in training the masks with them, by the nearest pixel.
    Evaluated and predicted is at the image's own size. A mask that lacks its image, has another
    size, is in colour or holds an unknown value is said by name before the first step. Which split
    an image belongs to is stated by a column, by folders called train, val and test, or else
    follows from `splits.seed` and its name.

    Args:
        root: Folder of the images, in any depth. None takes an example: scenes of handwritten
            digits, written to data/example_scenes.
        masks: Folder of the masks, each called as its image but for the ending (and a suffix such
            as `_mask`); or a table with a column of files and one of masks, whose paths start from
            the table's folder.
        classes: Names of the classes by their value in the masks, such as `{0: background, 128:
            cytoplasm, 255: nucleus}`; values of one name are one class. None takes the values that
            there are. 255 is ignored where it is not named, unless all are spread evenly from 0 to
            255.
        batch_size: Samples per batch and process.
        size: Height and width that the network sees, in pixels; one number for both.
        augmentation: Strength of the random crops and colours of training images.
        flip: Mirror half of the training images: `horizontal`, or `both` ways for what has no up,
            such as microscopy; `none` where left and right matter.
        on_bad: `error` stops at unreadable images, masks that do not fit and the like; `skip`
            leaves their images out, after looking at every file once, and lists them in audit.csv.
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

    collate: ClassVar[Collate] = staticmethod(bordered)

    # more arguments than elsewhere: each is one that a user types, and none belongs to another
    def __init__(
        self,
        root: str | None = None,
        masks: str | None = None,
        classes: dict[int, str] | None = None,
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
        if (root is None) != (masks is None):
            raise UserError(
                f"data.root is {root!r} and data.masks {masks!r}: give both, the folder of the "
                "images and that of their masks (or a table of file and mask)."
            )
        if root is None or masks is None:
            folder, source = scene_folder() / "images", scene_folder() / "masks.csv"
            classes = classes or CLASSES
        else:
            folder, source = located(root, "data.root"), located(masks, "data.masks")
        self.index, self.masks = paired(folder, source, columns, splits)
        files = [folder / name for name in self.index.names.tolist()]
        looked = looked_at(files, self.masks)
        names = [path.name for path in self.masks]
        self.classes, found, unknown = meanings(looked.pixels, names, classes)
        wrong = [(n, each) for n, each in zip(names, looked.problems, strict=True) if each]
        if wrong:
            found.append(
                Finding("error", "masks that can't be used", wrong,
                        "Mend them, or leave out their images: --data.on_bad skip.",
                        skippable=True)
            )  # fmt: skip
        self.index.findings += found
        self.bad = unknown | np.array([bool(each) for each in looked.problems])
        self.class_names = names_of(self.classes)
        numbers = numbers_of(self.classes)  # [256]
        self.pixels = np.stack(  # int64 [N, C]
            [looked.pixels[:, numbers == n].sum(1) for n in range(len(self.class_names))], axis=1
        )
        self.index.findings += uncovered(self.counts(), "pixel")
        self.class_counts = list(self.counts()["train"].values())
        self.num_samples = int(np.count_nonzero(self.index.split == "train"))
        self.sizes = {"in_channels": 3, "num_outputs": len(self.class_names)}

    def dataset(self, split: str, pixels: Pixels) -> Dataset:
        assert self.preprocessing is not None  # set by `load`
        masks = None
        if split != "predict":
            masks = text_array([str(self.masks[row]) for row in self.rows[split]])
        return MaskFiles(
            pixels,
            masks,
            numbers_of(self.classes),
            self.preprocessing,
            self.augmentation_of(split),
            own_size=split != "train",
        )

    def counts(self) -> dict[str, dict[str, int]]:
        return {
            split: dict(
                zip(
                    self.class_names,
                    self.pixels[self.index.split == split].sum(0).tolist(),
                    strict=True,
                )
            )
            for split in ("train", "val", "test")
        }

    def drawn(self) -> list[np.ndarray]:
        return [self.pixels]


class MaskFiles(Dataset):
    """Images and masks, read when they are asked for.

    Args:
        pixels: uint8 [3, H, W] by row, of any size.
        masks: Files, as an array of text [N]; None where there are none.
        numbers: Class number of each value in them: uint8 [256].
        preprocessing: Makes an image ready for the network.
        augmentation: Changes an image and its mask at random before that; for training only.
        own_size: Give the mask as it is, and say its size; else at the network's size.
    """

    def __init__(
        self,
        pixels: Pixels,
        masks: np.ndarray | None,
        numbers: np.ndarray,
        preprocessing: nn.Module,
        augmentation: nn.Module,
        *,
        own_size: bool,
    ) -> None:
        self.pixels = pixels
        self.masks = masks
        self.numbers = numbers
        self.preprocessing = preprocessing
        self.augmentation = augmentation
        self.own_size = own_size

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int) -> dict[str, Any]:
        image = self.pixels[index]
        sample: dict[str, Any] = {}
        if self.own_size:
            sample["size"] = torch.tensor(image.shape[-2:])
        if self.masks is not None:
            values = read_mask(Path(str(self.masks[index])))
            mask = torch.from_numpy(self.numbers[values])  # uint8 [H, W]
            if not isinstance(self.augmentation, nn.Identity):
                image, changed = self.augmentation(image, {"mask": mask})
                mask = changed["mask"]
            prepared = self.preprocessing(image)
            if not self.own_size:
                mask = nearest(mask, prepared.shape[-2:])
            sample["target"] = mask.long()
        else:
            prepared = self.preprocessing(image)
        return {"inputs": {"image": prepared}, **sample}
