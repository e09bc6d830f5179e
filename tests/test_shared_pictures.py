"""Acceptance on real boxes and masks, where PROJECT_SHARED_DATA says that they are."""

import csv
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from project.runs import Run

SHARED = Path(os.environ.get("PROJECT_SHARED_DATA", "/nowhere"))
CELLS, LEUKOCYTES = SHARED / "bccd_detection", SHARED / "wbc_segmentation"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CELLS.is_dir(), reason="PROJECT_SHARED_DATA is not set"),
]

BOXES = ["--config", "configs/detection.yaml", "--data.root", str(CELLS),
         "--data.boxes", str(CELLS / "boxes.csv"), "--data.size", "[240, 320]",
         "--data.flip", "both", "--data.augmentation", "medium",
         "--data.batch_size", "4", "--model.network.width", "12",
         "--model.network.strides", "[8, 16]", "--model.network.pyramid", "48",
         "--model.optimizer.lr", "0.002", "--trainer.max_epochs", "40"]  # fmt: skip
MASKS = ["--config", "configs/segmentation.yaml", "--data.root", str(LEUKOCYTES / "images"),
         "--data.masks", str(LEUKOCYTES / "masks"),
         "--data.classes", "{0: background, 128: cytoplasm, 255: nucleus}", "--data.size", "96",
         "--data.flip", "both", "--data.augmentation", "light", "--data.batch_size", "8",
         "--model.network.width", "12", "--model.network.depth", "4", "--model.dice", "1",
         "--trainer.max_epochs", "32"]  # fmt: skip


def test_boxes_of_blood_cells(command: Callable[..., int], latest: Callable[[], Run]) -> None:
    assert command("fit", *BOXES) == 0
    results = json.loads((latest().path / "metrics.json").read_text())["test"]
    assert results["test_map_50"] >= 0.80


def test_masks_of_white_cells(command: Callable[..., int], latest: Callable[[], Run]) -> None:
    assert command("fit", *MASKS) == 0
    with (latest().path / "test_classes.csv").open() as file:
        found = {row["class"]: float(row["iou"]) for row in csv.DictReader(file)}
    least = {"background": 0.97, "cytoplasm": 0.80, "nucleus": 0.88}
    assert all(found[name] >= bound for name, bound in least.items()), found  # 18 images
