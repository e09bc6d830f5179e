"""After a test: samples to look at, and the worst ones, told in words and pictures."""

import csv
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning as L
import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import Dataset

from project.callbacks import Samples
from project.data import DataModule, Loader
from project.tasks import Classification
from project.trainer import Trainer

COUNT = 30


class Numbers(Dataset):
    """The sample n has the feature n, and the class 0."""

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"inputs": {"features": torch.tensor([float(index)])}, "target": 0}


class Words(DataModule):
    """Samples that are no pictures."""

    def __init__(self) -> None:
        super().__init__(7, Loader(num_workers=0))
        self.class_names = ["a", "b"]
        self.sizes = {"num_features": 1, "num_outputs": 2}

    def load(self) -> dict[str, Dataset]:
        return {"test": Numbers()}

    def shown(self, split: str, index: int) -> np.ndarray | str:
        return f"number {index}"

    def names(self, split: str) -> list[str]:
        return [f"row {n}" for n in range(COUNT)]


class Pictures(Words):
    """The same, as pictures."""

    def shown(self, split: str, index: int) -> np.ndarray:
        return np.full((8, 8, 1), index, np.uint8)


class Odd(nn.Module):
    """The larger the feature, the surer it says the wrong class; 13 is the worst."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, features: Tensor) -> Tensor:
        wrong = torch.where(features == 13, 100.0, features) * self.scale
        return torch.cat([torch.zeros_like(wrong), wrong], dim=1)


def evaluated(data: DataModule, folder: Path) -> Trainer:
    torch.manual_seed(0)
    trainer = Trainer(
        accelerator="cpu", logger=False, callbacks=[Samples()], default_root_dir=folder,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.test(Classification(Odd(), ["a", "b"]), datamodule=data, verbose=False)
    return trainer


def test_the_worst_of_all_batches_in_order(tmp_path: Path) -> None:
    evaluated(Words(), tmp_path)
    rows = list(csv.DictReader((tmp_path / "worst.csv").open()))
    assert [row["sample"] for row in rows] == [f"row {n}" for n in (13, *range(29, 18, -1))]
    first = rows[0]
    assert float(first["loss"]) == 100.0
    assert (first["content"], first["target"], first["prediction"]) == ("number 13", "a", "b")
    assert not (tmp_path / "figures").exists()  # words are no picture


def test_pictures_are_drawn(tmp_path: Path) -> None:
    evaluated(Pictures(), tmp_path)
    assert (tmp_path / "worst.csv").is_file()
    for name in ("samples", "worst"):
        with Image.open(tmp_path / "figures" / f"{name}.png") as picture:
            assert min(picture.size) > 300


def test_few_are_kept_and_no_number_is_the_worst() -> None:
    callback, task = Samples(), Classification(Odd(), ["a", "b"])
    trainer = L.Trainer(logger=False, enable_checkpointing=False)
    callback.on_test_start(trainer, task)
    for start in range(0, 1000, 10):
        losses = torch.arange(start, start + 10.0)
        losses[losses == 500] = math.nan
        batch = {"index": torch.arange(start, start + 10)}
        callback.on_test_batch_end(trainer, task, losses, batch, 0)
    assert callback._worst[:3] == [(math.inf, 500), (999.0, 999), (998.0, 998)]
    assert len(callback._worst) == 12
    callback.on_test_batch_end(trainer, task, None, batch, 0)  # a task that can't tell
    assert len(callback._worst) == 12


def test_the_worst_of_several_processes() -> None:
    callback, task = Samples(), Classification(Odd(), ["a", "b"])
    callback._worst = [(3.0, 1), (1.0, 4)]

    def of_both(known: Tensor) -> Tensor:
        other = torch.full_like(known, -math.inf)
        other[0] = torch.tensor([2.0, 7.0])
        return torch.stack([known, other])

    task.all_gather = of_both
    found = callback._of_all_processes(SimpleNamespace(world_size=2), task)
    assert found == [(3.0, 1), (2.0, 7), (1.0, 4)]
