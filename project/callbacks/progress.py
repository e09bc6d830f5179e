"""What a person sees while a run goes on."""

import sys
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import TQDMProgressBar


class Progress(TQDMProgressBar):
    """A bar on a terminal; one line per epoch everywhere else (a log file, CI).

    Shows values once per epoch only: reading one at every step would make the accelerator wait.

    Args:
        refresh_rate: Batches between two updates of the bar; 0 switches it off.
    """

    def __init__(self, refresh_rate: int = 10) -> None:
        super().__init__(refresh_rate=refresh_rate if sys.stderr.isatty() else 0)

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        super().on_train_epoch_end(trainer, pl_module)
        if sys.stderr.isatty() or not trainer.is_global_zero:
            return
        shown = self.get_metrics(trainer, pl_module)
        values = "  ".join(f"{name} {value:.4g}" for name, value in shown.items())
        print(f"epoch {trainer.current_epoch + 1}/{trainer.max_epochs}  {values}", file=sys.stderr)

    def get_metrics(self, trainer: L.Trainer, pl_module: L.LightningModule) -> dict[str, Any]:
        metrics = super().get_metrics(trainer, pl_module)
        metrics.pop("v_num", None)  # the logger's version number says nothing here
        return metrics
