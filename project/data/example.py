"""An example of a folder of images, made from what ships with scikit-learn."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from project.runs import project_root

NUM_IMAGES = 1000
SCALE = 4


def example_folder() -> Path:
    """Handwritten digits, 32 x 32 pixels, as PNG files in a folder for each class.

    They are written on first use, to data/example_digits in the project's root.

    Source: see `project.data.digits`.
    """
    return written_once("example_digits", _digits)


def written_once(name: str, write: Callable[[Path], None]) -> Path:
    """A folder below data/ in the project's root, written whole on first use.

    Args:
        name: Of the folder.
        write: Fills the folder it is given.
    """
    folder = project_root() / "data" / name
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=".writing-", dir=folder.parent))
    try:
        write(temporary)
        temporary.chmod(0o755)
        try:
            os.rename(temporary, folder)  # noqa: PTH104 - whole or not at all
        except OSError:  # another process was faster and has written the same
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def _digits(folder: Path) -> None:
    pixels, labels = load_digits(return_X_y=True)
    for row in range(NUM_IMAGES):
        image = np.rint(pixels[row].reshape(8, 8) * (255 / 16)).astype(np.uint8)
        path = folder / str(labels[row]) / f"{row:04}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(image.repeat(SCALE, 0).repeat(SCALE, 1)).save(path)
