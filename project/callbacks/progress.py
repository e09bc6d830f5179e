"""What a person sees while a run goes on."""

import sys
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import TQDMProgressBar


class Progress(TQDMProgressBar):
    """A bar, where there is a terminal; `History` prints the line per epoch that stays.

    Shows values once per epoch only: reading one at every step would make the accelerator wait.

    Args:
        refresh_rate: Batches between two updates of the bar; 0 switches it off.
    """

    def __init__(self, refresh_rate: int = 10) -> None:
        super().__init__(refresh_rate=refresh_rate if sys.stderr.isatty() else 0)

    def on_train_epoch_start(self, trainer: L.Trainer, *rest: Any) -> None:
        super().on_train_epoch_start(trainer, *rest)
        of_all = f" of {trainer.max_epochs}" if (trainer.max_epochs or 0) > 0 else ""
        self.train_progress_bar.set_description(f"epoch {trainer.current_epoch + 1}{of_all}")

    def get_metrics(self, trainer: L.Trainer, pl_module: L.LightningModule) -> dict[str, Any]:
        metrics = super().get_metrics(trainer, pl_module)
        metrics.pop("v_num", None)  # the logger's version number says nothing here
        return metrics
