"""Lightning's Trainer, and the verbs that are ours."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import lightning as L
from lightning.pytorch.profilers import PassThroughProfiler

from project import checks, tune
from project.callbacks import Checkpoint
from project.data import DataModule
from project.errors import UserError
from project.tasks import Task


class _Unprofiled(PassThroughProfiler):
    """Measures nothing, in a sixth of the time that Lightning's own takes for that.

    A step has about 150 profiled sections: 0.15 ms, a tenth of the whole step of a tiny network.
    """

    _nothing = nullcontext()

    def profile(self, action_name: str) -> Any:
        return self._nothing


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
            UserError: There is not a single training batch, or a setting allows none.
        """
        _refuse_settings(self)
        if type(self.profiler) is PassThroughProfiler:
            self.profiler = _Unprofiled()
        super().fit(model, train_dataloaders, val_dataloaders, datamodule, ckpt_path, True)
        if self.num_training_batches == 0 and not self.fast_dev_run:
            raise UserError(
                "Nothing was trained: there are 0 training batches. trainer.limit_train_batches is "
                f"{self.limit_train_batches}; as a share of few batches it rounds to none. Raise "
                "it, or lower data.batch_size."
            )

    def check(
        self, model: Task, datamodule: DataModule, seconds: float = 55.0, folder: str | None = None
    ) -> checks.Report:
        """Look for what would go wrong in training; neither the task nor the data is changed.

        Args:
            model: The task.
            datamodule: The data.
            seconds: For all checks together, after the files were looked at; what comes later is
                skipped, and said to be.
            folder: Where runs are written.

        Returns:
            What each check came to.
        """
        subject = checks.Subject(
            model,
            datamodule,
            accumulate=self.accumulate_grad_batches,
            epochs=self.max_epochs,
            folder=Path(folder or self.default_root_dir),
        )
        return checks.run(subject, checks.CHECKS, seconds)

    def tune(
        self,
        model: Task,
        datamodule: DataModule,
        seconds: float = 6.0,
        write: str | None = None,
        lr: bool = False,
    ) -> list[tune.Setting] | checks.Report:
        """Measure which loader settings are fastest, or which learning rate; nothing is trained.

        Args:
            model: The task.
            datamodule: The data.
            seconds: About how long each setting is tried.
            write: A config file to write the fastest setting to, for a further --config.
            lr: Look for a learning rate instead, by a range test.

        Returns:
            What was tried, with what was measured.
        """
        if lr:
            datamodule.setup("fit")
            chosen = [check for check in checks.CHECKS if check.name.startswith("rate.")]
            return checks.run(checks.Subject(model, datamodule), chosen)
        tried = tune.measure(datamodule, seconds)
        if write is not None:
            tune.write_overlay(tune.fastest(tried), datamodule, Path(write))
        return tried


def _refuse_settings(trainer: L.Trainer) -> None:
    """Refuse settings with which Lightning would break in the middle, or train nothing.

    Raises:
        UserError: Names the setting.
    """
    for name in ("accumulate_grad_batches", "check_val_every_n_epoch", "log_every_n_steps"):
        value = getattr(trainer, name)
        if value is not None and value < 1:
            raise UserError(f"trainer.{name} is {value}; it must be 1 or more.")
    if trainer.val_check_interval is not None and trainer.val_check_interval == 0:
        raise UserError("trainer.val_check_interval is 0; it is a share of an epoch, or batches.")
    if (clip := trainer.gradient_clip_val) is not None and clip < 0:
        raise UserError(f"trainer.gradient_clip_val is {clip}; it must be above 0.")
    for name in ("max_epochs", "max_steps"):
        if getattr(trainer, name) == 0:
            raise UserError(f"trainer.{name} is 0: nothing would be trained.")
