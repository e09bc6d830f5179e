"""An example of images with texts and numbers, made up from the digits that ship with scikit-learn.

Each part tells something and none tells all: half of the picture is covered, the note names two
digits of which one is right, and the numbers are vague. Together they leave little doubt.
"""

import csv
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from project.data.example import written_once

NUM_ROWS = 1200
SCALE = 2
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
NOTES = (
    "either {} or {}", "looks like {}, could be {}", "{} I think, or else {}", "{}? or {}?",
    "the sender meant {} or {}",
)  # fmt: skip
MISSING = 0.04
"""Share of rows without a picture, and of rows without a note."""


def example_folder() -> Path:
    """A folder with table.csv and the pictures it names, written on first use.

    It lies in data/example_mixed in the project's root.

    Source: of the pictures, see `project.data.digits`; the rest is drawn by a fixed seed.
    """
    return written_once("example_mixed", _write)


def _write(folder: Path) -> None:
    draw = np.random.default_rng(0)
    pixels, labels = load_digits(return_X_y=True)
    with (folder / "table.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["file", "note", "ink", "paper", "label"])
        for row in range(NUM_ROWS):
            label = int(labels[row])
            picture = np.rint(pixels[row].reshape(8, 8) * (255 / 16)).astype(np.uint8)
            ink = picture.mean() * draw.uniform(0.8, 1.25)
            picture[4 * int(draw.integers(2)) :][:4] = 0  # the upper or the lower half
            name = f"{row:04}.png"
            Image.fromarray(picture.repeat(SCALE, 0).repeat(SCALE, 1)).save(folder / name)
            low = (label < 5) == (draw.random() < 0.75)
            writer.writerow([
                "" if draw.random() < MISSING else name,
                "" if draw.random() < MISSING else _note(label, draw),
                f"{ink:.1f}",
                "yellow" if low else "white",
                WORDS[label],
            ])  # fmt: skip


def _note(label: int, draw: np.random.Generator) -> str:
    other = (label + int(draw.integers(1, 10))) % 10
    pair = [WORDS[label], WORDS[other]]
    first = int(draw.integers(2))
    return NOTES[int(draw.integers(len(NOTES)))].format(pair[first], pair[1 - first])
