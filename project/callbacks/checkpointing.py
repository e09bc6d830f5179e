"""Keep the best and the last checkpoint."""

import math
import os
from pathlib import Path
from typing import Any, Literal

import lightning as L
from lightning.pytorch import callbacks

from project.checkpoints import replacing
from project.errors import UserError, suggestion
from project.tasks import Task


class Checkpoint(callbacks.Checkpoint):
    """Writes `best.ckpt` and `last.ckpt` into the run's `checkpoints/`.

    The last one is written after every epoch and every validation, better or not, so that it really
    is the last. Only a finite value of the monitored metric can be the best.

    Args:
        monitor: Logged metric that chooses the best, such as `val_loss` or `val_accuracy`.
        mode: Whether `min` or `max` of it is best; `auto` asks the metric itself.
        every_n_steps: Also write the last one within an epoch, every so many optimizer steps.
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        mode: Literal["auto", "min", "max"] = "auto",
        every_n_steps: int | None = None,
    ) -> None:
        if every_n_steps is not None and every_n_steps < 1:
            raise UserError(f"checkpoint.every_n_steps is {every_n_steps}; it must be 1 or more.")
        self.monitor = monitor
        self.mode = mode
        self.every_n_steps = every_n_steps
        self.best_value: float | None = None
        self.best_epoch: int | None = None
        self.best_model_path = ""  # Lightning's name: `ckpt_path="best"` looks for it
        self.last_model_path = ""
        self._saved_at = -1

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if stage != "fit":
            return
        self.folder = Path(trainer.default_root_dir) / "checkpoints"
        if not isinstance(pl_module, Task):
            return
        best_is = pl_module.best_is
        if self.monitor not in best_is:
            raise UserError(
                f"checkpoint.monitor is {self.monitor!r}, which is not logged."
                + suggestion(self.monitor, best_is)
            )
        natural = best_is[self.monitor]
        if self.mode == "auto":
            self.mode = natural
        elif self.mode != natural:
            raise UserError(
                f"checkpoint.mode is {self.mode!r}, but of {self.monitor} the best is the "
                f"{natural}. Leave the mode out."
            )

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        # at the end of an epoch `on_train_epoch_end` follows, with the training loss known as well
        if trainer.state.fn == "fit" and not trainer.sanity_checking and not trainer.is_last_batch:
            self._save(trainer, check_best=True)

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._save(trainer, check_best=True)

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        step = trainer.global_step
        due = self.every_n_steps and step > 0 and step % self.every_n_steps == 0
        if due and step != self._saved_at and not trainer.is_last_batch:
            self._save(trainer, check_best=False)

    def state_dict(self) -> dict[str, Any]:
        return {
            "monitor": self.monitor,
            "best_value": self.best_value,
            "best_epoch": self.best_epoch,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if state_dict["monitor"] == self.monitor:
            self.best_value = state_dict["best_value"]
            self.best_epoch = state_dict["best_epoch"]

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        best = self.folder / "best.ckpt"
        if self.best_epoch is None:
            return
        if best.is_file():
            self.best_model_path = str(best)
        else:  # resumed into another directory: the old best is not ours
            self.best_value = self.best_epoch = None

    def _save(self, trainer: L.Trainer, *, check_best: bool) -> None:
        if trainer.fast_dev_run:
            return
        self._saved_at = trainer.global_step
        best, last = self.folder / "best.ckpt", self.folder / "last.ckpt"
        if check_best and self._is_best(trainer):
            self.best_epoch = trainer.current_epoch
            self.best_model_path = str(best)
            trainer.save_checkpoint(best)
            if trainer.is_global_zero:
                with replacing(last) as temporary:
                    temporary.unlink(missing_ok=True)
                    _link(best, temporary)
        else:
            trainer.save_checkpoint(last)
        self.last_model_path = str(last)

    def _is_best(self, trainer: L.Trainer) -> bool:
        value = trainer.callback_metrics.get(self.monitor)
        if value is None:
            return False
        value = float(value)
        better = self.best_value is None or (
            value > self.best_value if self.mode == "max" else value < self.best_value
        )
        if math.isfinite(value) and better:
            self.best_value = value
            return True
        return False


def _link(source: Path, target: Path) -> None:
    """A second name for the same file, or a copy where the file system has no links."""
    try:
        os.link(source, target)
    except OSError:
        target.write_bytes(source.read_bytes())
