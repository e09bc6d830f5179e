"""From a picture's file to pixels, right for every kind of file that people have.

The result is what a viewer shows: upright by its EXIF orientation, transparent parts on white, 16
bits scaled to 8, of an animation the first frame. Colour profiles are left alone: the numbers in
the file are taken as they are.

Pillow reads every file's header, and the pixels too unless it is a plain JPEG: it knows most kinds
and notices damage, where torchvision 0.29 ends the process over a damaged PNG. The pixels of a JPEG
are simplejpeg's: read in full, the same numbers in two thirds of the time, as it writes them once
where Pillow copies them twice. What simplejpeg objects to is left to Pillow's judgement. Both read
at 1/2, 1/4 or 1/8 of the size where that is enough; at 1/8 it takes 0.7 of simplejpeg's time.
"""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import simplejpeg
import torch
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile
from torch import Tensor

from project.errors import UserError

VERSION = 1
"""Raised when the same file gives other pixels than before, so that no cache outlives it."""

MAX_PIXELS = 178_956_970
"""Larger pictures are refused: 0.5 GB decoded, and most likely made to fill the memory. The same
number at which Pillow gives up."""

BACKGROUND = (255, 255, 255)
"""What transparent parts are laid on: white."""

_ORIENTATION = 0x0112  # EXIF tag
_STEPS = {  # down the rows and along the columns, by orientation; before lying ones are transposed
    1: (1, 1), 2: (1, -1), 3: (-1, -1), 4: (-1, 1), 5: (1, 1), 6: (-1, 1), 7: (-1, -1), 8: (1, -1),
}  # fmt: skip
_LYING = {5, 6, 7, 8}  # orientations whose height is the file's width
_BITS_PER_SAMPLE = 258  # TIFF tag

# between half its limit and the limit Pillow warns; ours is one limit
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


class Unreadable(UserError):  # noqa: N818 - reads as what it says of the file
    """A file that is no whole picture; the message names it and says why."""


@dataclass(frozen=True)
class Header:
    """What a picture's file says of itself, without its pixels.

    Args:
        format: As Pillow calls it, such as `JPEG`, whatever the file's name ends in.
        mode: As Pillow calls it, such as `RGB`, `L`, `I;16`.
        height: In pixels, once upright.
        width: In pixels, once upright.
        frames: More than 1 for animations and files of several pages.
        orientation: EXIF's, 1 to 8; 1 is upright.
        transparent: Whether it has an alpha channel or a transparent colour.
    """

    format: str
    mode: str
    height: int
    width: int
    frames: int
    orientation: int
    transparent: bool


def header(path: Path) -> Header:
    """What can be known of a picture without decoding it.

    Raises:
        Unreadable: It is no picture, or too large.
    """
    try:
        with Image.open(path) as image:
            _refuse_large(image)
            orientation = _orientation(image)
            width, height = image.size
            if orientation in _LYING and image.format != "TIFF":  # Pillow has turned those
                width, height = height, width
            return Header(
                str(image.format),
                image.mode,
                height,
                width,
                getattr(image, "n_frames", 1),
                orientation,
                image.has_transparency_data,
            )
    except Exception as error:  # damaged bytes may fail in any way
        raise _unreadable(path, error) from error


def decode(path: Path, *, at_least: tuple[int, int] | None = None) -> Tensor:
    """The pixels of a picture, upright, in colour.

    Args:
        path: The file; its content decides what it is, not its name.
        at_least: Height and width below which neither side may fall. A JPEG of twice that or more
            is read at 1/2, 1/4 or 1/8 of its size, which is faster. None reads it in full.

    Raises:
        Unreadable: It is no picture, damaged, too large, or its numbers have no stated range.

    Shapes:
        uint8 [3, H, W]: red, green, blue; a view of [H, W, 3], which torch resizes fastest
    """
    try:
        with path.open("rb") as file, Image.open(file) as image:
            _refuse_large(image)
            _scale_down(image, at_least)
            pixels = _plain_jpeg(image, file)
            if pixels is None:
                image.load()
                pixels = _rgb(image)
            pixels = _upright(pixels, _orientation(image))  # after loading, which turns a TIFF
    except Exception as error:  # damaged bytes may fail in any way
        raise _unreadable(path, error) from error
    return torch.from_numpy(pixels).permute(2, 0, 1)  # [3, H, W]


def num_pixels(path: Path, *, at_least: tuple[int, int] | None = None) -> int:
    """Height times width of what `decode` would return, without decoding.

    Raises:
        Unreadable: It is no picture, or too large.
    """
    try:
        with Image.open(path) as image:
            _refuse_large(image)
            _scale_down(image, at_least)
            return image.width * image.height
    except Exception as error:  # damaged bytes may fail in any way
        raise _unreadable(path, error) from error


def _scale_down(image: Image.Image, at_least: tuple[int, int] | None) -> None:
    """Have a JPEG read at the smallest scale at which no side falls below `at_least`."""
    if at_least is not None and isinstance(image, JpegImageFile):
        height, width = at_least
        lying = _orientation(image) in _LYING
        image.draft(None, (height, width) if lying else (width, height))


def _plain_jpeg(image: Image.Image, file: BinaryIO) -> np.ndarray | None:
    """uint8 [H, W, 3] of a JPEG in grey or colour, at the scale that was set; None of all else.

    Of a damaged one too: strict, simplejpeg refuses whatever libjpeg warns of, and much of that
    harms no pixel, such as stray bytes before the end.
    """
    if not isinstance(image, JpegImageFile) or image.mode not in ("L", "RGB"):
        return None
    width, height = image.size  # once scaled down; simplejpeg takes the smallest scale not below
    file.seek(0)
    try:
        return simplejpeg.decode_jpeg(file.read(), min_height=height, min_width=width, strict=True)
    except ValueError:
        return None


def _upright(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """uint8 [H, W, 3] turned and mirrored as EXIF's orientation asks."""
    if orientation == 1:
        return pixels
    rows, columns = _STEPS[orientation]
    turned = pixels[::rows, ::columns]
    if orientation in _LYING:
        turned = turned.swapaxes(0, 1)
    copy = np.empty(turned.shape, np.uint8)
    for channel in range(3):  # three planes take a third of the time of one copy of everything
        copy[:, :, channel] = turned[:, :, channel]
    return copy


def _rgb(image: Image.Image) -> np.ndarray:
    """uint8 [H, W, 3] of a loaded picture of any mode."""
    if image.mode.startswith("I") or image.mode == "F":
        return np.repeat(_grey(image)[:, :, None], 3, axis=2)
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        image = Image.new("RGB", layer.size, BACKGROUND)
        image.paste(layer, mask=layer.getchannel("A"))
    return np.array(image if image.mode == "RGB" else image.convert("RGB"))


def _grey(image: Image.Image) -> np.ndarray:
    """uint8 [H, W] of a picture of one channel with more than 8 bits."""
    numbers = np.asarray(image)
    if image.mode == "F":
        if not (numbers.min() >= 0 and numbers.max() <= 1):  # NaN fails as well
            raise ValueError(
                f"its float pixels lie in {numbers.min():.4g} to {numbers.max():.4g}; only 0 to 1 "
                "is known to be black to white"
            )
        return np.rint(numbers * 255).astype(np.uint8)
    if image.mode == "I" and image.format != "PPM":  # those Pillow has scaled to 16 bits
        raise ValueError("its pixels are 32-bit integers, of which black and white are not known")
    bits = getattr(image, "tag_v2", {}).get(_BITS_PER_SAMPLE, (16,))[0]
    white = (1 << bits) - 1
    grey = ((numbers.astype(np.uint32) * 255 + white // 2) // white).astype(np.uint8)
    if "transparency" in image.info:  # one grey level that stands for "nothing here"
        grey[numbers == image.info["transparency"]] = BACKGROUND[0]
    return grey


def _orientation(image: Image.Image) -> int:
    """EXIF's; 1 where it is missing, unknown or unreadable, as viewers do."""
    try:
        # the base class' method: a PNG's own would load the pixels here, and hide what is damaged
        orientation = Image.Image.getexif(image).get(_ORIENTATION, 1)
    except Exception:  # a picture whose EXIF is damaged is still a picture
        return 1
    return orientation if orientation in _STEPS else 1


def _refuse_large(image: Image.Image) -> None:
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise Image.DecompressionBombError


def _unreadable(path: Path, error: Exception) -> Unreadable:
    if isinstance(error, FileNotFoundError):
        reason = "there is no such file"
    elif isinstance(error, IsADirectoryError):
        reason = "it is a directory"
    elif isinstance(error, Image.DecompressionBombError):
        reason = f"it has more than {MAX_PIXELS:,} pixels"
    elif isinstance(error, Image.UnidentifiedImageError):
        empty = path.stat().st_size == 0
        reason = "it is empty" if empty else "it is no picture, or of a kind that Pillow can't read"
    else:
        reason = str(error) or type(error).__name__
    return Unreadable(
        f"{path} can't be read as a picture: {reason}. Replace the file, or leave it out."
    )
