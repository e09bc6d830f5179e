"""Masks as files: one channel, in which every value stands for a class."""

import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from project.data.decoding import Unreadable, header
from project.data.loader import available_cpus
from project.errors import UserError

FOLDER = Path.home() / ".cache" / "project" / "masks"
"""Where `looked_at` writes. What lies there can be deleted at any time."""


@dataclass
class Looked:
    """What masks and their images hold.

    Args:
        pixels: How many pixels of each value every mask has: int64 [N, 256].
        problems: What is wrong with a pair of image and mask, blank if nothing: [N].
    """

    pixels: np.ndarray
    problems: list[str]


def read_mask(path: Path) -> np.ndarray:
    """The values of a mask as they are: never scaled, never converted; uint8 [H, W].

    A palette's numbers are the values, whatever their colours; black and white is 0 and 255.

    Raises:
        Unreadable: It can't be read, has colours, or has values above 255.
    """
    try:
        with Image.open(path) as image:
            values = np.asarray(image)
            if image.mode == "1":
                return values.astype(np.uint8) * 255
    except Exception as error:  # damaged bytes may fail in any way
        raise Unreadable(f"{path} can't be read as a mask: {error}.") from error
    if values.ndim == 3:
        colours = values[..., : 1 if values.shape[2] == 2 else 3]  # the last is transparency
        if (colours != colours[..., :1]).any():
            number = len(np.unique(colours.reshape(-1, 3), axis=0))
            raise Unreadable(
                f"{path} is in colour ({number} different ones). A mask has one channel, whose "
                "values stand for classes: write the number of each pixel's class instead."
            )
        values = colours[..., 0]
    if not np.issubdtype(values.dtype, np.integer) or values.min() < 0 or values.max() > 255:
        raise Unreadable(
            f"{path} has values from {values.min()} to {values.max()}; those of a mask are whole "
            "numbers from 0 to 255."
        )
    return values.astype(np.uint8)


def looked_at(images: list[Path], masks: list[Path]) -> Looked:
    """Read all masks and the sizes of their images; as long as no file changes, only once.

    Args:
        images: Files.
        masks: The mask of each.
    """
    file = FOLDER / f"{_fingerprint([*images, *masks])}.json"
    if file.is_file():
        known = json.loads(file.read_text("utf-8"))
        pixels = np.zeros((len(masks), 256), dtype=np.int64)
        for row, counts in enumerate(known["pixels"]):
            for value, count in counts.items():
                pixels[row, int(value)] = count
        return Looked(pixels, known["problems"])
    with ThreadPoolExecutor(available_cpus()) as pool:
        found = list(pool.map(_looked_at, images, masks))
    looked = Looked(np.stack([counts for counts, _ in found]), [each for _, each in found])
    rows = [{str(v): int(row[v]) for v in np.flatnonzero(row)} for row in looked.pixels]
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_suffix(f".{os.getpid()}")
    content = {"pixels": rows, "problems": looked.problems}
    temporary.write_text(json.dumps(content), encoding="utf-8")
    temporary.replace(file)
    return looked


def _looked_at(image: Path, mask: Path) -> tuple[np.ndarray, str]:
    none = np.zeros(256, dtype=np.int64)
    try:
        values = read_mask(mask)
    except UserError as error:
        return none, str(error).replace(f"{mask} ", "")
    try:
        found = header(image)
    except Unreadable:
        return none, ""  # the audit of the images tells why
    if values.shape != (found.height, found.width):
        height, width = values.shape
        return none, f"is {width} x {height} pixels, its image {found.width} x {found.height}"
    return np.bincount(values.ravel(), minlength=256), ""


def _fingerprint(paths: list[Path]) -> str:
    """Changes with any file's size or time."""
    digest = hashlib.blake2b(digest_size=12)
    for path in paths:
        status = path.stat()
        digest.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return digest.hexdigest()
