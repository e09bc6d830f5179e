"""Which images there are, and which boxes are drawn on each: found, checked, numbered."""

import dataclasses
import math
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from project.data.box_files import Row, read_boxes
from project.data.columns import Columns
from project.data.decoding import Unreadable, header
from project.data.folders import by_folders, listed, text_array
from project.data.index import Index
from project.data.labels import classes
from project.data.loader import available_cpus
from project.data.matching import AMBIGUOUS, Finder
from project.data.splits import Splits, divided
from project.errors import UserError
from project.findings import Finding, skippable

KINDS = {
    "number": "boxes whose corners are no numbers",
    "empty": "boxes without width or height",
    "outside": "boxes that reach beyond their image",
    "label": "boxes without a label",
}
"""What is wrong with a box, by its code."""


_ADVICE = {
    "empty": "Mend them; an image that shows nothing has a row with its file alone, the other "
    "cells blank. Or leave out their images: --data.on_bad skip."
}  # fmt: skip
_FEW = 10


@dataclass
class Annotations:
    """Images and their boxes, as arrays.

    Args:
        index: The images; what it has for targets means nothing.
        boxes: Left, top, right, bottom in the image's own pixels: float32 [M, 4], by image.
        labels: Class numbers: int64 [M].
        starts: Where each image's boxes start, and at last M: int64 [N + 1].
        sizes: Height and width of each image, 0 where it can't be read: int64 [N, 2].
        class_names: What the class numbers mean.
        mapping: Class number of every way in which a label was written.
        bad: Images with something wrong: bool [N].
    """

    index: Index
    boxes: np.ndarray
    labels: np.ndarray
    starts: np.ndarray
    sizes: np.ndarray
    class_names: list[str]
    mapping: dict[str, int]
    bad: np.ndarray

    def of_image(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """The boxes of an image and their class numbers."""
        its = slice(self.starts[number], self.starts[number + 1])
        return self.boxes[its], self.labels[its]

    def of_images(self, numbers: np.ndarray) -> "Annotations":
        """The same of some images alone."""
        taken = [np.arange(self.starts[n], self.starts[n + 1]) for n in numbers]
        rows = np.concatenate([np.zeros(0, np.int64), *taken])
        starts = np.cumsum([0, *map(len, taken)])
        index = dataclasses.replace(
            self.index, names=self.index.names[numbers], target=self.index.target[numbers],
            split=self.index.split[numbers], findings=[],
        )  # fmt: skip
        return dataclasses.replace(
            self, index=index, boxes=self.boxes[rows], labels=self.labels[rows], starts=starts,
            sizes=self.sizes[numbers], bad=self.bad[numbers],
        )  # fmt: skip

    def vanishing(self, size: tuple[int, int]) -> list[Finding]:
        """Boxes that are less than a pixel wide or high once images are stretched to `size`."""
        its = np.repeat(np.arange(len(self.sizes)), np.diff(self.starts))
        scale = np.array(size) / np.maximum(self.sizes[its], 1)  # [M, 2], height and width
        sides = (self.boxes[:, 2:] - self.boxes[:, :2]) * scale[:, ::-1]
        items = [
            (str(self.index.names[its[n]]), " x ".join(f"{side:.2g}" for side in sides[n]))
            for n in np.flatnonzero((sides < 1).any(axis=1) & (self.sizes[its] > 0).all(axis=1))
        ]
        title = "boxes of less than a pixel at the network's size"
        told = Finding("warning", title, items, "They are not found: raise --data.size.")
        return [told] if items else []

    def counts(self) -> dict[str, dict[str, int]]:
        """Boxes by split and class."""
        split = np.repeat(self.index.split, np.diff(self.starts))
        return {
            name: dict(
                zip(self.class_names, _counted(self.labels[split == name], self), strict=True)
            )
            for name in ("train", "val", "test")
        }


def _counted(labels: np.ndarray, found: Annotations) -> list[int]:
    return np.bincount(labels, minlength=len(found.class_names)).tolist()


def annotations(root: Path, source: Path, columns: Columns, splits: Splits) -> Annotations:
    """Read the boxes, find their images, and look at every box and at every image's header.

    Raises:
        UserError: There is nothing to train on: no image, no box, no file that can be read.
    """
    files = listed(root)
    rows, findings = read_boxes(source, columns)
    finder = Finder(root, files.names, source if source.is_dir() else source.parent)
    number_of = {name: finder.find(name) for name in dict.fromkeys(row.file for row in rows)}
    if all(number < 0 for number in number_of.values()):
        raise UserError(
            f"None of the {len(number_of)} images that {source} names exists below {root}, such as "
            f"{rows[0].file!r}. --data.root is the folder that their paths start from."
        )
    findings += _lost(rows, number_of) + _unlisted(files.names, number_of)
    kept = sorted({number for number in number_of.values() if number >= 0},
                  key=lambda number: finder.names[number])  # fmt: skip
    names = [finder.names[number] for number in kept]
    position = {number: place for place, number in enumerate(kept)}
    placed = [(position[number_of[r.file]], r) for r in rows if number_of[r.file] >= 0]
    sizes = image_sizes([root / name for name in names])
    good, bad, more = _looked_at(placed, sizes)
    findings += more
    if not good:
        raise UserError(f"{source} has no box that can be used. {findings[-1].line()}")
    found = classes(
        [row.label for _, row, _ in good],
        unlabelled=columns.unlabelled,
        merge_similar=columns.merge_similar,
        fewest=1,
    )
    findings += found.findings
    none = [(g[1].file, g[1].where) for g, n in zip(good, found.target, strict=True) if n < 0]
    if none:
        findings.append(Finding("note", "boxes left out, their label means none", none))
    good = [each for each, label in zip(good, found.target, strict=True) if label >= 0]
    labels = found.target[found.target >= 0]
    order = np.argsort([place for place, _, _ in good], kind="stable")
    places = np.array([good[n][0] for n in order], dtype=np.int64)
    split, more = _splits(files.root, names, placed, places, labels[order], splits)
    index = Index(
        root, text_array(names), np.zeros(len(names), np.int64), split, ["any"], {},
        findings + more,
    )  # fmt: skip
    boxes = np.array([good[n][2] for n in order], dtype=np.float32).reshape(-1, 4)
    starts = np.searchsorted(places, np.arange(len(names) + 1))
    return Annotations(index, boxes, labels[order], starts, sizes, found.names, found.mapping, bad)


def image_sizes(paths: list[Path]) -> np.ndarray:
    """Height and width of each image, read from its header; 0 where it can't be: int64 [N, 2]."""

    def size(path: Path) -> tuple[int, int]:
        try:
            found = header(path)
        except Unreadable:
            return 0, 0  # the audit tells why
        return found.height, found.width

    with ThreadPoolExecutor(available_cpus()) as pool:
        return np.array(list(pool.map(size, paths)), dtype=np.int64).reshape(-1, 2)


Good = tuple[int, Row, tuple[float, ...]]


def _looked_at(
    placed: list[tuple[int, Row]], sizes: np.ndarray
) -> tuple[list[Good], np.ndarray, list[Finding]]:
    """The boxes that can be used, the images that have others, and what is wrong with those."""
    good: list[Good] = []
    wrong: dict[str, list[tuple[str, str]]] = {code: [] for code in KINDS}
    bad = np.zeros(len(sizes), dtype=bool)
    for place, row in placed:
        if row.corners is None:
            continue
        corners, code = _checked(row, *sizes[place].tolist())
        if code:
            told = ", ".join(str(each) for each in row.corners)
            of = f" of {sizes[place][1]} x {sizes[place][0]}" if code == "outside" else ""
            wrong[code].append((row.file, f"{row.where}: {told}{of}"))
            bad[place] = True
        else:
            good.append((place, row, corners))
    findings = [
        Finding("error", KINDS[code], items,
                _ADVICE.get(code, "Mend them, or leave out their images: --data.on_bad skip."),
                skippable=True)
        for code, items in wrong.items() if items
    ]  # fmt: skip
    findings += _of_another_format(placed, sizes, len(wrong["empty"] + wrong["outside"]))
    twice = Counter((place, row.label, corners) for place, row, corners in good)
    repeated = [
        (row.file, row.where) for place, row, corners in good
        if twice[place, row.label, corners] > 1
    ]  # fmt: skip
    if repeated:
        findings.append(Finding("warning", "equal boxes on one image", repeated))
    return good, bad, findings


def _checked(row: Row, height: int, width: int) -> tuple[tuple[float, ...], str]:
    """Corners as numbers, and the code of what is wrong, blank if nothing is."""
    assert row.corners is not None
    try:
        corners = tuple(float(each) for each in row.corners)
    except (TypeError, ValueError):
        return (), "number"
    left, top, right, bottom = corners
    if not all(map(math.isfinite, corners)):
        return (), "number"
    if right <= left or bottom <= top:
        return (), "empty"
    unknown = height == 0
    if min(left, top) < 0 or (not unknown and (right > width or bottom > height)):
        return (), "outside"
    return corners, "" if row.label else "label"


def _of_another_format(
    placed: list[tuple[int, Row]], sizes: np.ndarray, amiss: int
) -> list[Finding]:
    """What the numbers of all boxes together look like, if not like corners in pixels.

    Args:
        placed: The boxes.
        sizes: Height and width of each image.
        amiss: Boxes that can't be, taken for corners.
    """
    drawn = [(n, row.corners) for n, row in placed if row.corners is not None]
    try:
        numbers = np.array([corners for _, corners in drawn], dtype=np.float64).reshape(-1, 4)
    except (TypeError, ValueError):
        return []
    if len(numbers) and (numbers >= 0).all() and (numbers <= 1).all():
        advice = "Multiply them by the image's width and height: corners are in pixels."
        return [Finding("error", "boxes are shares of their image, from 0 to 1", advice=advice)]
    width_height = sizes[[n for n, _ in drawn]][:, ::-1]
    fits = (numbers[:, 2:] > 0).all() and (numbers[:, :2] + numbers[:, 2:] <= width_height).all()
    if 2 * amiss > len(numbers) and fits:
        advice = "Needed are xmin, ymin, xmax, ymax: add x and y to the last two."
        return [Finding("error", "boxes look like x, y, width, height", advice=advice)]
    return []


def _lost(rows: list[Row], number_of: dict[str, int]) -> list[Finding]:
    """Rows whose image is not there."""
    items = [
        (row.file, f"{row.where}{', fits several files' * (number_of[row.file] == AMBIGUOUS)}")
        for row in rows if number_of[row.file] < 0
    ]  # fmt: skip
    return [skippable("boxes whose image does not exist", items)] if items else []


def _unlisted(names: list[str], number_of: dict[str, int]) -> list[Finding]:
    missing = sorted(set(range(len(names))) - set(number_of.values()))
    if not missing:
        return []
    return [
        Finding("error", "images that no box names", [(names[n], "") for n in missing],
                "If they show no object, give each a row with its file alone, the other cells "
                "blank; else leave them out: --data.on_bad skip.", skippable=True)
    ]  # fmt: skip


def _splits(
    root: Path,
    names: list[str],
    placed: list[tuple[int, Row]],
    places: np.ndarray,
    labels: np.ndarray,
    settings: Splits,
) -> tuple[np.ndarray, list[Finding]]:
    """The split of each image: by its rows, else by its folder, else by seed."""
    said: list[set[str]] = [set() for _ in names]
    for place, row in placed:
        said[place].add(row.split)
    torn = [(names[n], ", ".join(sorted(each))) for n, each in enumerate(said) if len(each) > 1]
    findings = [Finding("error", "images in several splits", torn)] if torn else []
    stated = [min(each) for each in said]
    if not any(stated):
        files = listed(root)
        of_folder = dict(zip(files.names, by_folders(files)[1], strict=True))
        stated = [of_folder.get(name, "") for name in names]
    split = divided(names, _rarest(len(names), places, labels), settings, stated=stated)
    told = ", ".join(f"{n} {int((split == n).sum()):,}" for n in ("train", "val", "test"))
    return split, [*findings, Finding("note", f"images: {told}")]


def _rarest(count: int, places: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """What is to be spread over the splits: the rarest class on each image, by images: int64 [N].

    Classes that are the rarest on few images are one stratum, with those that show nothing: alone,
    they would all be trained on.
    """
    if not len(labels):
        return np.zeros(count, dtype=np.int64)
    has = np.zeros((count, int(labels.max()) + 1), dtype=bool)
    has[places, labels] = True
    rarity = np.where(has, has.sum(0), count + 1)
    rarest = np.where(has.any(1), rarity.argmin(1), -1)
    classes_, number, sizes = np.unique(rarest, return_inverse=True, return_counts=True)
    return np.where(sizes < _FEW, -1, classes_)[number]
