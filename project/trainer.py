"""Lightning's Trainer, and the verbs that are ours."""

from typing import Any

import lightning as L

from project.callbacks import Checkpoint
from project.errors import UserError


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
