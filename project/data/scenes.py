"""Made-up scenes for boxes and masks: handwritten digits scattered on a canvas.

The digits are real (those of scikit-learn), where they lie is drawn: so it is known to the pixel.
"""

import csv
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from project.batches import IGNORED
from project.data.example import written_once

COUNTS = {"train": 400, "val": 100, "test": 100}
"""Scenes in each split."""

SIDE = 64  # pixels
FEWEST, MOST = 2, 4  # digits that are tried on a scene; one scene in ten has none
_EMPTY = 0.1
CLASSES = {0: "background", **{digit + 1: f"digit {digit}" for digit in range(10)}}
"""What a mask's values mean. The blurred rim of a digit is `IGNORED`."""

_SIZES = (16, 25)  # of a digit's 8 x 8 scan on the canvas, in pixels
_RIM, _INSIDE = 0.2, 0.5  # how dark its rim and its inside are at least


def scene_folder() -> Path:
    """600 scenes of 64 x 64 pixels: images/, masks/, and a table of each: boxes.csv, masks.csv.

    They are written on first use, to data/example_scenes in the project's root.

    Source: see `project.data.digits`.
    """
    return written_once("example_scenes", _write)


def scene(split: str, number: int) -> tuple[np.ndarray, np.ndarray, list[list[int]]]:
    """A scene, the same for the same split and number on every machine.

    Each split has scans of its own.

    Args:
        split: `train`, `val` or `test`.
        number: Which scene.

    Returns:
        The picture, uint8 [64, 64, 3]; the mask, uint8 [64, 64]; and of each digit left, top,
        right, bottom in pixels, and which it is.
    """
    names = list(COUNTS)
    random = np.random.default_rng((names.index(split), number))
    images, labels = _scans()
    own = np.arange(names.index(split), len(images), len(names))
    tone = random.integers(150, 256, 3)
    picture = tone + random.normal(0, 8, (SIDE, SIDE, 3))
    mask = np.zeros((SIDE, SIDE), np.uint8)
    boxes: list[list[int]] = []
    for _ in range(0 if random.random() < _EMPTY else random.integers(FEWEST, MOST + 1)):
        row, side = random.choice(own), int(random.integers(*_SIZES))
        left, top = (int(each) for each in random.integers(0, SIDE - side, 2))
        ink = _blown_up(images[row], side)  # [side, side]
        place = np.s_[top : top + side, left : left + side]
        if mask[place][ink > _RIM].any():
            continue  # it would lie on another one
        colour = random.integers(0, 110, 3)
        picture[place] += ink[..., None] * (colour - picture[place])
        mask[place][ink > _RIM] = IGNORED
        mask[place][ink > _INSIDE] = labels[row] + 1
        y, x = np.nonzero(ink > _RIM)
        corners = (left + x.min(), top + y.min(), left + x.max() + 1, top + y.max() + 1)
        boxes.append([*(int(each) for each in corners), int(labels[row])])
    return picture.clip(0, 255).astype(np.uint8), mask, boxes


@cache
def _scans() -> tuple[np.ndarray, np.ndarray]:
    """Ink from 0 to 1, float [1797, 8, 8], and which digit each is."""
    pixels, labels = load_digits(return_X_y=True)
    return pixels.reshape(-1, 8, 8) / 16, labels


def _blown_up(ink: np.ndarray, side: int) -> np.ndarray:
    scan = Image.fromarray((ink * 255).astype(np.uint8))
    return np.asarray(scan.resize((side, side), Image.Resampling.BICUBIC)) / 255


def _write(folder: Path) -> None:
    boxes_of: list[list[object]] = [["file", "split", "label", "xmin", "ymin", "xmax", "ymax"]]
    mask_of: list[list[object]] = [["file", "split", "mask"]]
    for kind in ("images", "masks"):
        (folder / kind).mkdir()
    for split, count in COUNTS.items():
        for number in range(count):
            picture, mask, boxes = scene(split, number)
            name = f"{split}_{number:03}.png"
            Image.fromarray(picture).save(folder / "images" / name)
            Image.fromarray(mask).save(folder / "masks" / name)
            mask_of.append([name, split, f"masks/{name}"])
            boxes_of += [[name, split, digit, *corners] for *corners, digit in boxes]
            if not boxes:
                boxes_of.append([name, split, "", "", "", "", ""])
    for table, rows in {"boxes": boxes_of, "masks": mask_of}.items():
        with (folder / f"{table}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
