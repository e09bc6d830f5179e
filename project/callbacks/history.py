"""`metrics.csv`: one row per epoch."""

import csv
import os
import sys
from pathlib import Path
from typing import Any

import lightning as L
from lightning.pytorch import callbacks
from torch.optim import Optimizer
from tqdm import tqdm

from project.checkpoints import replacing
from project.runs import Run

FIRST_COLUMNS = ("epoch", "step", "train_loss", "val_loss")


class History(callbacks.Checkpoint):
    """Appends a row of metrics and learning rates after every epoch, and prints it as a line.

    On a resume, rows of epochs that the checkpoint does not know are cut off and written anew; none
    is lost or doubled. (It derives from Lightning's `Checkpoint` because only such callbacks run
    after the module has logged its epoch metrics.)
    """

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._columns: list[str] = []
        self._epochs_done = 0
        self._lrs: dict[str, float] = {}
        self._validated: dict[str, float] = {}  # of this epoch; Lightning keeps older ones too

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        self.path = Path(trainer.default_root_dir) / "metrics.csv"

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        written = Run(self.path.parent).history
        self.rows = [row for row in written if row["epoch"] < self._epochs_done]
        self._columns = list(self.rows[0]) if self.rows else []
        self._rewrite(trainer)

    def on_before_optimizer_step(
        self, trainer: L.Trainer, pl_module: L.LightningModule, optimizer: Optimizer
    ) -> None:
        # the rates of the epoch's last step; after it the schedule has already moved on
        groups = optimizer.param_groups
        self._lrs = {"lr": groups[0]["lr"]}
        for number, group in enumerate(groups):
            if "part" in group:  # 0 while all of it is frozen
                trained = any(parameter.requires_grad for parameter in group["params"])
                column = f"lr_{group['part']}"
                self._lrs[column] = max(self._lrs.get(column, 0.0), group["lr"] * trained)
            elif group["lr"] != groups[0]["lr"]:
                self._lrs[f"lr_{group.get('name', number)}"] = group["lr"]

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if not trainer.sanity_checking:
            self._validated = {name: v for name, v in _metrics(trainer).items() if _of_val(name)}

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        values = {name: v for name, v in _metrics(trainer).items() if not _of_val(name)}
        values |= self._validated
        self._validated = {}
        values = {name: float(f"{v:.7g}") for name, v in {**values, **self._lrs}.items()}
        row = {"epoch": trainer.current_epoch, "step": trainer.global_step, **values}
        row = {name: row[name] for name in sorted(row, key=_column_order)}
        self.rows.append(row)
        self._epochs_done = trainer.current_epoch + 1
        for logger in trainer.loggers:
            logger.log_metrics(self._lrs, step=trainer.global_step - 1)
        if not trainer.is_global_zero or trainer.fast_dev_run:
            return
        if trainer.progress_bar_callback:
            shown = "  ".join(f"{name} {v:.4g}" for name, v in row.items() if name in values)
            of_all = f"/{trainer.max_epochs}" if (trainer.max_epochs or 0) > 0 else ""
            tqdm.write(f"epoch {row['epoch'] + 1}{of_all}  {shown}", file=sys.stderr)
        if set(row) <= set(self._columns):
            self._append(row)
        else:
            self._columns = sorted({*self._columns, *row}, key=_column_order)
            self._rewrite(trainer)

    def state_dict(self) -> dict[str, Any]:
        return {"epochs_done": self._epochs_done, "validated": self._validated}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._epochs_done = state_dict["epochs_done"]
        self._validated = state_dict.get("validated", {})

    def _append(self, row: dict[str, Any]) -> None:
        with self.path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, self._columns, lineterminator="\n").writerow(row)
            file.flush()
            os.fsync(file.fileno())

    def _rewrite(self, trainer: L.Trainer) -> None:
        if not trainer.is_global_zero or trainer.fast_dev_run or not self._columns:
            return
        with replacing(self.path) as temporary, temporary.open("w", newline="") as file:
            writer = csv.DictWriter(file, self._columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows)


def _metrics(trainer: L.Trainer) -> dict[str, float]:
    return {name: float(value) for name, value in trainer.callback_metrics.items()}


def _of_val(name: str) -> bool:
    return name.startswith("val")


def _column_order(name: str) -> tuple[int, str]:
    if name in FIRST_COLUMNS:
        return FIRST_COLUMNS.index(name), name
    return (100 if name.startswith("lr") else 50), name
