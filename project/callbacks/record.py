"""A run that says how it was made."""

from pathlib import Path
from typing import Any

import lightning as L
import yaml
from lightning.pytorch.callbacks import Callback

from project.checkpoints import replacing
from project.runs import flat, versions


class Record(Callback):
    """Keeps the full config: in the run's directory, in every checkpoint and in the loggers.

    Args:
        config: Plain values, as parsed, with all defaults.
        filename: Where to write it in the run's directory; None writes no file.
    """

    def __init__(self, config: dict[str, Any], filename: str | None) -> None:
        self.config = config
        self.filename = filename

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if self.filename and not (Path(trainer.default_root_dir) / self.filename).exists():
            self._write(trainer)

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        # not before: a resume that fails to load its checkpoint must not change the record
        self._write(trainer)

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        shown = {
            key: value if isinstance(value, int | float | str | bool) else str(value)
            for key, value in flat(self.config).items()
            if value is not None
        }
        for logger in trainer.loggers:
            logger.log_hyperparams(shown)

    def on_save_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        checkpoint["config"] = self.config
        checkpoint["versions"] = versions()

    def _write(self, trainer: L.Trainer) -> None:
        if trainer.is_global_zero and self.filename and not trainer.fast_dev_run:
            with replacing(Path(trainer.default_root_dir) / self.filename) as temporary:
                text = yaml.safe_dump(self.config, sort_keys=False, allow_unicode=True)
                temporary.write_text(text, encoding="utf-8")
