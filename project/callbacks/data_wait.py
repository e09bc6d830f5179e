"""How much of the training time goes by waiting for data."""

import csv
import sys
import time
from pathlib import Path
from typing import Any

import lightning as L
from lightning.pytorch import callbacks
from tqdm import tqdm

from project.checkpoints import replacing

COLUMNS = ("epoch", "steps", "seconds", "data_wait_fraction")


class DataWait(callbacks.Checkpoint):
    """Measures the share of an epoch's training that is spent between two steps, where batches are
    fetched, and says so once if it is large: `timing.csv` and TensorBoard.

    Nothing is synchronised: where the accelerator works on while no step waits for it, the share is
    an upper bound. It is not in `metrics.csv`, which is the same for the same run, however long it
    took. (It derives from Lightning's `Checkpoint` because those run after all other callbacks, so
    that writing a checkpoint does not count as waiting.)

    Args:
        threshold: Share above which it is said what to change.
        min_seconds: Nothing is said before so much time was lost; short runs need no tuning.
    """

    def __init__(self, threshold: float = 0.4, min_seconds: float = 20.0) -> None:
        self.threshold = threshold
        self.min_seconds = min_seconds
        self.waited = self.worked = 0.0  # seconds of this epoch
        self._steps = 0
        self._lost = 0.0  # seconds of all epochs
        self._said = False
        self._mark = 0.0

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._start_epoch()  # a resume in mid-epoch calls no on_train_epoch_start
        self._path = Path(trainer.default_root_dir) / "timing.csv"
        if trainer.is_global_zero and not trainer.fast_dev_run:
            kept = [r for r in _read(self._path) if int(r["epoch"]) < trainer.current_epoch]
            with replacing(self._path) as temporary, temporary.open("w", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(kept)

    def on_train_epoch_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._start_epoch()

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        now = time.perf_counter()
        self.waited += now - self._mark
        self._mark = now

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        now = time.perf_counter()
        self.worked += now - self._mark
        self._steps += 1
        self._mark = now

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._mark = time.perf_counter()  # validation within an epoch is no waiting

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        seconds = self.waited + self.worked
        if not (trainer.is_global_zero and self._steps) or trainer.fast_dev_run:
            return
        fraction = self.waited / seconds
        self._lost += self.waited
        with self._path.open("a", newline="", encoding="utf-8") as file:
            row = (trainer.current_epoch, self._steps, f"{seconds:.3f}", f"{fraction:.4f}")
            csv.writer(file, lineterminator="\n").writerow(row)
        for logger in trainer.loggers:
            logger.log_metrics({"data_wait_fraction": fraction}, step=trainer.global_step - 1)
        if fraction > self.threshold and self._lost > self.min_seconds and not self._said:
            self._said = True
            tqdm.write(_advice(trainer, fraction), file=sys.stderr)

    def _start_epoch(self) -> None:
        self.waited = self.worked = 0.0
        self._steps = 0
        self._mark = time.perf_counter()


def _advice(trainer: L.Trainer, fraction: float) -> str:
    data = getattr(trainer, "datamodule", None)
    loader = getattr(data, "loader", None)
    settings = [f"--data.loader.num_workers (now {getattr(loader, 'num_workers', 'unknown')})"]
    if getattr(data, "cache", None) == "none":
        settings.append("--data.cache memory or disk")
    return (
        f"{fraction:.0%} of the training time went by waiting for data. Change "
        f"{', or '.join(settings)}; python -m project tune, with the same options, measures what "
        "is fastest."
    )


def _read(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if None not in row.values()]
