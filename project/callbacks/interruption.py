"""Ctrl-C, SIGTERM and SIGUSR1 end a run without losing anything."""

import os
import signal
import subprocess
import sys
import threading
from types import FrameType
from typing import Any

import lightning as L
from lightning.pytorch import callbacks

from project.callbacks.checkpointing import Checkpoint, save_follows
from project.errors import Interrupted

SIGNALS = [getattr(signal, n) for n in ("SIGINT", "SIGTERM", "SIGUSR1") if hasattr(signal, n)]


class Interruption(callbacks.Checkpoint):
    """On a signal: finish the step, write `last.ckpt`, stop with exit code 128 + signal.

    During a validation, that is finished first. The same signal a second time stops at once, with
    the checkpoint written before. On SIGUSR1 under SLURM the job is put back into the queue.

    (It derives from Lightning's `Checkpoint` to run after ours at the end of an epoch.)
    """

    def __init__(self) -> None:
        self.signum: int | None = None
        self._handlers: dict[int, Any] = {}

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        # after Lightning has set its own handlers; it puts the original ones back at the end
        if threading.current_thread() is threading.main_thread():
            self._handlers = {number: signal.signal(number, self._note) for number in SIGNALS}

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        self._handlers = {}

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        if self._agreed(trainer) and not save_follows(trainer, batch_idx):
            for callback in trainer.callbacks:
                if isinstance(callback, Checkpoint):
                    callback.save_last(trainer)
            self._stop(trainer)

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self._agreed(trainer):
            self._stop(trainer)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if self.signum is not None:
            raise Interrupted(signum)
        self.signum = signum
        name = signal.Signals(signum).name
        print(f"\n{name}: saving at the end of the step; again to stop at once", file=sys.stderr)

    def _agreed(self, trainer: L.Trainer) -> bool:
        """Whether to stop: on one process its own signal; of several, any one's."""
        if trainer.world_size == 1:
            return self.signum is not None
        return trainer.strategy.reduce_boolean_decision(self.signum is not None, all=False)

    def _stop(self, trainer: L.Trainer) -> None:
        signum = self.signum or signal.SIGTERM
        if signum == getattr(signal, "SIGUSR1", None) and trainer.is_global_zero:
            _requeue()
        raise Interrupted(signum)


def _requeue() -> None:
    """Put this SLURM job back into the queue; nothing outside SLURM."""
    job = os.environ.get("SLURM_JOB_ID")
    if "SLURM_ARRAY_JOB_ID" in os.environ:
        job = f"{os.environ['SLURM_ARRAY_JOB_ID']}_{os.environ['SLURM_ARRAY_TASK_ID']}"
    if job:
        subprocess.run(["scontrol", "requeue", job], check=False)
