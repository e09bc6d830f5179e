"""Lightning's Trainer, and the verbs that are ours."""

from pathlib import Path
from typing import Any

import lightning as L

from project import tune
from project.callbacks import Checkpoint
from project.checks import CHECKS
from project.data import DataModule
from project.errors import UserError
from project.findings import Finding
from project.tasks import Task


class Trainer(L.Trainer):
    """Lightning's Trainer that does not call a run finished which trained nothing."""

    @property
    def checkpoint_callback(self) -> Any:
        """The one that knows the best checkpoint."""
        ours = [c for c in self.callbacks if isinstance(c, Checkpoint)]
        return ours[0] if ours else super().checkpoint_callback

    def fit(
        self,
        model: L.LightningModule,
        train_dataloaders: Any = None,
        val_dataloaders: Any = None,
        datamodule: L.LightningDataModule | None = None,
        ckpt_path: str | None = None,
        weights_only: bool | None = None,
    ) -> None:
        """Train, and validate after every epoch.

        Args:
            model: The task.
            train_dataloaders: Loaders, where there is no data module.
            val_dataloaders: Loaders, where there is no data module.
            datamodule: The data.
            ckpt_path: Checkpoint to go on from: its weights, optimizer, position and randomness.
            weights_only: Read the checkpoint as data only. This is always done.

        Raises:
            UserError: There is not a single training batch.
        """
        super().fit(model, train_dataloaders, val_dataloaders, datamodule, ckpt_path, True)
        if self.num_training_batches == 0 and not self.fast_dev_run:
            raise UserError(
                "Nothing was trained: there are 0 training batches. trainer.limit_train_batches is "
                f"{self.limit_train_batches}; as a share of few batches it rounds to none. Raise "
                "it, or lower data.batch_size."
            )

    def check(self, model: Task, datamodule: DataModule) -> dict[str, list[Finding]]:
        """Look for what would go wrong in training, without training.

        Args:
            model: The task.
            datamodule: The data.

        Returns:
            What was found, by the name of the check.
        """
        return {name: check(model, datamodule) for name, check in CHECKS.items()}

    def tune(
        self,
        model: Task,
        datamodule: DataModule,
        seconds: float = 6.0,
        write: str | None = None,
    ) -> list[tune.Setting]:
        """Measure which loader settings are fastest, without training.

        Args:
            model: The task; it is not used.
            datamodule: The data.
            seconds: About how long each setting is tried.
            write: A config file to write the fastest setting to, for a further --config.

        Returns:
            What was tried, with what was measured.
        """
        tried = tune.measure(datamodule, seconds)
        if write is not None:
            tune.write_overlay(tune.fastest(tried), datamodule, Path(write))
        return tried
