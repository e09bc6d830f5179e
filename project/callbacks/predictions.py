"""`predict` writes a table."""

import csv
import re
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
from lightning.pytorch.callbacks import Callback
from PIL import Image

from project.data import DataModule
from project.errors import UserError


class Predictions(Callback):
    """Writes `predictions.csv`: the sample, and the columns the task decodes, in input order.

    Rows are written batch by batch, so that memory stays flat.

    Args:
        path: The file to write; by default `predictions.csv` in the run's directory.
    """

    def __init__(self, path: str | None = None) -> None:
        self.path = path
        self.written: Path | None = None

    def on_predict_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.world_size > 1:
            raise UserError(
                f"predict was given {trainer.world_size} processes, but writes one table in input "
                "order: use one, --trainer.devices 1."
            )
        self.written = Path(self.path or Path(trainer.default_root_dir) / "predictions.csv")
        self.written.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.written.open("w", newline="", encoding="utf-8")
        self._writer: Any = None
        datamodule = getattr(trainer, "datamodule", None)
        is_ours = isinstance(datamodule, DataModule)
        self._names = datamodule.names(datamodule.predicts) if is_ours else None

    def on_predict_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        columns = {name: list(column) for name, column in outputs.items() if name != "index"}
        if self._writer is None:
            self._writer = csv.DictWriter(self._file, ["sample", *columns], lineterminator="\n")
            self._writer.writeheader()
        for row, number in enumerate(map(int, outputs["index"])):
            sample = self._names[number] if self._names else str(number)
            values = {name: column[row] for name, column in columns.items()}
            for name, value in values.items():
                if isinstance(value, np.ndarray):
                    values[name] = self._picture(value, sample, name)
            self._writer.writerow({"sample": sample, **values})

    def _picture(self, pixels: np.ndarray, sample: str, column: str) -> str:
        """Write a predicted picture below a folder beside the table; its path from there."""
        assert self.written is not None  # set when predict began
        stem = re.sub(r"[^\w.-]+", "_", sample)
        path = self.written.with_name(f"{self.written.stem}_{column}") / f"{stem}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(pixels).save(path)
        return f"{path.parent.name}/{path.name}"

    def on_predict_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._file.close()
