"""What a person looks at after a test: some samples, and the worst ones."""

import csv
import math
from pathlib import Path
from typing import Any, cast

import lightning as L
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor

from project.batches import Batch
from project.callbacks.pictures import keep
from project.data import DataModule
from project.data.loader import Seeded
from project.figures import gallery
from project.tasks import Task

SHOWN = 12
"""Samples in each picture, and in `worst.csv`."""


class Samples(Callback):
    """After a test: `figures/samples.png`, `figures/worst.png`, and `worst.csv`.

    The samples are evenly spaced over the test split; the worst are those with the highest
    `sample_losses` of the task. What is predicted and what is true is drawn on pictures and written
    below them. Data that are no pictures have the table alone.
    """

    def __init__(self) -> None:
        self._worst: list[tuple[float, int]] = []  # (loss, index), the highest first

    def on_test_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._worst = []

    def on_test_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        if not isinstance(outputs, Tensor) or outputs.ndim != 1:
            return
        losses, rows = outputs.float().topk(min(SHOWN, len(outputs)))
        found = zip(losses.tolist(), batch["index"][rows].tolist(), strict=True)
        # a loss that is no number is the worst of all
        known = [(math.inf if math.isnan(loss) else loss, index) for loss, index in found]
        self._worst = sorted([*self._worst, *known], key=lambda each: -each[0])[:SHOWN]

    def on_test_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        data = getattr(trainer, "datamodule", None)
        if trainer.fast_dev_run or not (
            isinstance(pl_module, Task) and isinstance(data, DataModule)
        ):
            return
        worst = self._of_all_processes(trainer, pl_module)
        if not trainer.is_global_zero:
            return
        look = _Look(trainer, pl_module, data)
        count = len(look.dataset)
        chosen = (
            [number * count // SHOWN for number in range(SHOWN)] if count > SHOWN else range(count)
        )
        look.picture("samples", [(None, index) for index in chosen])
        if worst:
            look.picture("worst", worst)
            look.table("worst", worst)

    def _of_all_processes(self, trainer: L.Trainer, task: Task) -> list[tuple[float | None, int]]:
        """The worst of what all processes have seen."""
        known = torch.full((SHOWN, 2), -math.inf, dtype=torch.float64, device=task.device)
        for row, (loss, index) in enumerate(self._worst):
            known[row, 0], known[row, 1] = loss, index
        if trainer.world_size > 1:
            known = cast(Tensor, task.all_gather(known)).reshape(-1, 2)
        seen = known[known[:, 0] > -math.inf].tolist()
        return [(loss, int(index)) for loss, index in sorted(seen, key=lambda e: -e[0])[:SHOWN]]


Chosen = list[tuple[float | None, int]]
"""Loss, if known, and index of samples."""


class _Look:
    """Shows samples of the test split, as the task sees them now.

    Args:
        trainer: Whose run's directory is written to.
        task: What predicts.
        data: Where the samples are from.
    """

    def __init__(self, trainer: L.Trainer, task: Task, data: DataModule) -> None:
        self.trainer = trainer
        self.task = task
        self.data = data
        self.dataset = Seeded(data.datasets["test"], data.seed)
        self.names = data.names("test")
        self.collate = data.loader.collate or data.collate

    def picture(self, name: str, chosen: Chosen) -> None:
        """Draw samples, if they are pictures."""
        shown = [self.data.shown("test", index) for _, index in chosen]
        if any(isinstance(each, str) for each in shown):
            return
        pictures, captions = [], []
        for (loss, index), picture in zip(chosen, shown, strict=True):
            batch, outputs = self._predicted(index)
            pictures.append(self.task.drawn(np.asarray(picture), outputs, batch))
            captions.append(self._caption(index, loss, batch, outputs))
        sides = "left: true, right: predicted" if self.task.legend else ""
        figure = gallery(pictures, captions, title=sides, legend=self.task.legend)
        keep(self.trainer, name, figure)

    def table(self, name: str, chosen: Chosen) -> None:
        """Write what is true and what is predicted of samples, a row or several each."""
        rows: list[dict[str, Any]] = []
        for loss, index in chosen:
            batch, outputs = self._predicted(index)
            shown = self.data.shown("test", index)
            about: dict[str, Any] = {"sample": self._name(index), "loss": loss}
            if isinstance(shown, str) and shown != about["sample"]:
                about["content"] = shown
            rows += [about | each for each in self._rows(batch, outputs)]
        columns = list(dict.fromkeys(column for row in rows for column in row))
        path = Path(self.trainer.default_root_dir) / f"{name}.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)

    def _name(self, index: int) -> str:
        return self.names[index] if self.names else str(index)

    @torch.no_grad()
    def _predicted(self, index: int) -> tuple[Batch, Any]:
        """A batch of one sample, and what the network says of it."""
        batch: Any = self.collate([self.dataset[index]])
        batch = self.task.transfer_batch_to_device(batch, self.task.device, 0)
        return batch, self.task(**batch["inputs"])

    def _rows(self, batch: Batch, outputs: Any) -> list[dict[str, Any]]:
        """Columns of what is true, then of what is predicted; boxes have rows of their own."""
        true, predicted = self.task.decode_target(batch), self.task.decode(outputs, batch)
        if "index" in predicted:
            return [
                {"is": kind, **row}
                for kind, columns in (("true", true), ("predicted", predicted))
                for row in _by_row(columns)
            ]
        return [first | second for first, second in zip(
            _by_row(true) or [{}], _by_row(predicted), strict=True)]  # fmt: skip

    def _caption(self, index: int, loss: float | None, batch: Batch, outputs: Any) -> str:
        lines = [Path(self._name(index)).name[-28:]]
        if loss is not None:
            lines[0] += f"  loss {loss:.3g}"
        true, predicted = self.task.decode_target(batch), self.task.decode(outputs, batch)
        if "index" not in predicted and true:
            for what, columns in (("true", true), ("predicted", predicted)):
                value = next(iter(_by_row(columns)[0].values()))
                text = f"{value:.5g}" if isinstance(value, float) else str(value)
                lines.append(f"{what}: {text[:28]}")
        return "\n".join(lines)


def _by_row(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Rows of columns; pictures and the samples' own numbers are left out."""
    plain = {
        name: values for name, values in columns.items()
        if name != "index" and not any(isinstance(value, np.ndarray) for value in values)
    }  # fmt: skip
    return [dict(zip(plain, row, strict=True)) for row in zip(*plain.values(), strict=True)]
