"""Pictures of a run, as files and in TensorBoard, and its tables."""

import copy
import csv
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import TensorBoardLogger
from matplotlib.figure import Figure
from torch import nn

from project.callbacks.checkpointing import Checkpoint
from project.callbacks.history import History
from project.data import DataModule
from project.data.loader import Seeded
from project.figures import augmentation_grid, learning_curves, with_boxes, with_mask
from project.tasks import Task

_SAMPLES, _EPOCHS = 4, 6


class Pictures(Callback):
    """Pictures as PNG in `figures/`.

    At the start what augmentation makes of a few training images, after training the learning
    curves, after a test the task's own pictures, and its tables as CSV beside them.
    """

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        data = getattr(trainer, "datamodule", None)
        wanted = trainer.is_global_zero and not trainer.fast_dev_run
        if wanted and isinstance(data, DataModule) and _augments_images(data):
            figure = _augmented(data)
            keep(trainer, "augmentation", figure)

    def on_fit_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        history = next((c for c in trainer.callbacks if isinstance(c, History)), None)
        checkpoint = next((c for c in trainer.callbacks if isinstance(c, Checkpoint)), None)
        if history is None or checkpoint is None:
            return
        figure = learning_curves(history.rows, checkpoint.monitor, checkpoint.best_epoch)
        if figure is not None:
            keep(trainer, "learning_curves", figure)

    def on_test_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if isinstance(pl_module, Task):
            for name, figure in pl_module.figures("test").items():
                keep(trainer, name, figure)
            for name, rows in pl_module.reports("test").items():
                _write(trainer, f"test_{name}", rows)


def keep(trainer: L.Trainer, name: str, figure: Figure) -> None:
    """Write a figure into the run's `figures/`, and to TensorBoard.

    Args:
        trainer: Whose run it is; only its first process writes, and a trial run nothing.
        name: Of the figure.
        figure: What to write.
    """
    if not trainer.is_global_zero or trainer.fast_dev_run:
        return
    path = Path(trainer.default_root_dir) / "figures" / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    for logger in trainer.loggers:
        if isinstance(logger, TensorBoardLogger):
            logger.experiment.add_figure(name, figure, global_step=trainer.global_step)


def _write(trainer: L.Trainer, name: str, rows: list[dict[str, Any]]) -> None:
    if not trainer.is_global_zero or trainer.fast_dev_run or not rows:
        return
    path = Path(trainer.default_root_dir) / f"{name}.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _augments_images(data: DataModule) -> bool:
    """Whether its training samples are images that are changed at random, then preprocessed."""
    if "in_channels" not in data.sizes:
        return False
    train: Any = data.datasets.get("train")
    parts = [getattr(train, name, None) for name in ("augmentation", "preprocessing")]
    return all(isinstance(part, nn.Module) and not isinstance(part, nn.Identity) for part in parts)


def _augmented(data: DataModule) -> Figure:
    """A few training images, each as it is and as the first epochs will see it."""
    augmented: Any = copy.copy(data.datasets["train"])
    augmented.preprocessing = nn.Identity()  # pixels, not what the network takes
    plain = copy.copy(augmented)
    plain.augmentation = nn.Identity()
    # Seeded puts the generators back, so that the run does not notice
    drawn, original = Seeded(augmented, data.seed), Seeded(plain, data.seed)
    count = len(augmented)
    chosen = [number * count // _SAMPLES for number in range(min(_SAMPLES, count))]
    rows = [[original[row], *(drawn[epoch, row] for epoch in range(_EPOCHS))] for row in chosen]
    names = getattr(data, "class_names", [])
    pixels = [[_pixels(sample, len(names)) for sample in row] for row in rows]
    return augmentation_grid(pixels, ["original", *(f"epoch {n + 1}" for n in range(_EPOCHS))])


def _pixels(sample: dict[str, Any], num_classes: int) -> Any:
    """[H, W, C] of a sample's image [C, H, W], with the boxes or the mask that go with it.

    Of an image of more than three channels, the first.
    """
    image = sample["inputs"]["image"]
    channels = image if image.shape[0] in (1, 3) else image[:1]
    picture = channels.permute(1, 2, 0).numpy()
    target = sample.get("target")
    if isinstance(target, dict):
        return with_boxes(picture, target["boxes"].numpy(), target["labels"].numpy(), num_classes)
    if isinstance(target, torch.Tensor) and target.shape == image.shape[1:]:
        return with_mask(picture, target.numpy(), num_classes)
    return picture
