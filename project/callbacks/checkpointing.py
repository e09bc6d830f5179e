"""Keep the best and the last checkpoint."""

import math
import os
import shutil
import time
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
        every_minutes: Also write it within an epoch, when so much time has passed; None does not.
        keep_top: Also keep the checkpoints of the best epochs, this many, as `epoch_0007.ckpt`.
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        mode: Literal["auto", "min", "max"] = "auto",
        every_n_steps: int | None = None,
        every_minutes: float | None = 10.0,
        keep_top: int = 0,
    ) -> None:
        if every_n_steps is not None and every_n_steps < 1:
            raise UserError(f"checkpoint.every_n_steps is {every_n_steps}; it must be 1 or more.")
        if every_minutes is not None and every_minutes <= 0:
            raise UserError(f"checkpoint.every_minutes is {every_minutes}; it must be above 0.")
        if keep_top < 0:
            raise UserError(f"checkpoint.keep_top is {keep_top}; it must be 0 or more.")
        self.monitor = monitor
        self.mode = mode
        self.every_n_steps = every_n_steps
        self.every_minutes = every_minutes
        self.keep_top = keep_top
        self.best_value: float | None = None
        self.best_epoch: int | None = None
        self.best_model_path = ""  # Lightning's name: `ckpt_path="best"` looks for it
        self.last_model_path = ""
        self._top: list[tuple[float, int]] = []  # (value, epoch), the best first
        self._to_judge = False  # whether the monitored metric was computed since the last save
        self._saved_at = -1  # optimizer steps
        self._saved_when = math.inf  # seconds of the monotonic clock

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

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.is_global_zero and not trainer.fast_dev_run:
            self.folder.mkdir(parents=True, exist_ok=True)
            _remove_left_overs(self.folder)
            _refuse_full_disk(self.folder, _size(pl_module), 3 + self.keep_top)

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._saved_when = time.monotonic()
        if self.best_epoch is None:
            return
        best = self.folder / "best.ckpt"
        if best.is_file():
            self.best_model_path = str(best)
        else:  # resumed into another directory: the old best is not ours
            self.best_value = self.best_epoch = None
            self._top = []

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
        if self.every_minutes and time.monotonic() - self._saved_when > 60 * self.every_minutes:
            due = True
        if due and step != self._saved_at and not save_follows(trainer, batch_idx):
            self.save_last(trainer)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.state.fn != "fit" or trainer.sanity_checking:
            return
        self._to_judge = True
        # at the end of an epoch `on_train_epoch_end` follows, with the training loss known as well
        if not trainer.is_last_batch:
            self._save(trainer)

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._to_judge |= self.monitor.startswith("train")
        self._save(trainer)

    def save_last(self, trainer: L.Trainer) -> None:
        """Write `last.ckpt` as of now."""
        self._note_save(trainer)
        trainer.save_checkpoint(self.folder / "last.ckpt")

    def state_dict(self) -> dict[str, Any]:
        return {
            "monitor": self.monitor,
            "best_value": self.best_value,
            "best_epoch": self.best_epoch,
            "top": [list(pair) for pair in self._top],
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if state_dict["monitor"] == self.monitor:
            self.best_value = state_dict["best_value"]
            self.best_epoch = state_dict["best_epoch"]
            self._top = [(value, epoch) for value, epoch in state_dict.get("top", [])]

    def _save(self, trainer: L.Trainer) -> None:
        """Write the last checkpoint, and the best and the top ones if it is among them."""
        if trainer.fast_dev_run:
            return
        value, epoch = self._value(trainer), trainer.current_epoch
        self._to_judge = False
        names = ["last.ckpt"]
        if value is not None and (self.best_value is None or self._better(value, self.best_value)):
            self.best_value, self.best_epoch = value, epoch
            self.best_model_path = str(self.folder / "best.ckpt")
            names.insert(0, "best.ckpt")
        dropped = self._enter_top(value, epoch)
        if (value, epoch) in self._top:
            names.insert(0, _top_name(epoch))
        self._note_save(trainer)
        first, *others = [self.folder / name for name in names]
        trainer.save_checkpoint(first)
        if trainer.is_global_zero:
            for other in others:
                _give_second_name(first, other)
            for name in dropped:
                (self.folder / name).unlink(missing_ok=True)

    def _note_save(self, trainer: L.Trainer) -> None:
        self._saved_at, self._saved_when = trainer.global_step, time.monotonic()
        self.last_model_path = str(self.folder / "last.ckpt")

    def _value(self, trainer: L.Trainer) -> float | None:
        """The monitored metric, if it is new and finite; Lightning keeps older values as well."""
        if not self._to_judge:
            return None
        value = trainer.callback_metrics.get(self.monitor)
        return float(value) if value is not None and math.isfinite(value) else None

    def _better(self, value: float, other: float) -> bool:
        return value > other if self.mode == "max" else value < other

    def _enter_top(self, value: float | None, epoch: int) -> list[str]:
        """Note an epoch's value; returns the names of files that are no longer among the top."""
        if value is None or not self.keep_top:
            return []
        entries = [pair for pair in self._top if pair[1] != epoch] + [(value, epoch)]
        entries.sort(key=lambda pair: (-pair[0] if self.mode == "max" else pair[0], pair[1]))
        self._top = entries[: self.keep_top]
        return [_top_name(e) for _, e in entries[self.keep_top :]]


def save_follows(trainer: L.Trainer, batch_idx: int) -> bool:
    """Whether a validation, or the epoch's end, comes right after this batch.

    The checkpoint must then be written after it: Lightning resumes one that was written before as
    if that validation had been done.
    """
    if trainer.is_last_batch:
        return True
    every = trainer.check_val_every_n_epoch
    if not trainer.enable_validation or (every and (trainer.current_epoch + 1) % every):
        return False
    interval = trainer.val_check_batch  # None where the clock says when to validate
    done = batch_idx + 1 if every else trainer.fit_loop.total_batch_idx + 1
    return interval is not None and interval != math.inf and done % interval == 0


def _top_name(epoch: int) -> str:
    return f"epoch_{epoch:04d}.ckpt"


def _give_second_name(source: Path, target: Path) -> None:
    """Let two names lead to one file; a copy where the file system has no links."""
    with replacing(target) as temporary:
        temporary.unlink(missing_ok=True)
        try:
            os.link(source, temporary)
        except OSError:
            shutil.copyfile(source, temporary)


def _size(module: L.LightningModule) -> int:
    """Bytes of a checkpoint, about: the weights, and two moments of the trainable ones (Adam)."""
    weights = sum(t.numel() * t.element_size() for t in module.state_dict().values())
    moments = sum(p.numel() * p.element_size() for p in module.parameters() if p.requires_grad)
    return weights + 2 * moments


def _refuse_full_disk(folder: Path, size: int, count: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < size * count:
        raise UserError(
            f"The disk of {folder} has {free / 1e6:,.0f} MB free, but {count} checkpoints of about "
            f"{size / 1e6:,.0f} MB each have to fit (best, last, and one being written). Free some "
            "space, or let the runs lie elsewhere with --run.root."
        )


def _remove_left_overs(folder: Path) -> None:
    """What a kill during a save left behind: half a file under a name of its own."""
    for path in folder.glob(".*.ckpt.*.tmp"):
        path.unlink(missing_ok=True)
