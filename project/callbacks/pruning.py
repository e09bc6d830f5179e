"""A trial of a search that does worse than the others is stopped early."""

import json
import os
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import Callback

from project import runs
from project.callbacks.checkpointing import Checkpoint


class Pruning(Callback):
    """Reports the monitored metric to the study that started this run, after every validation."""

    def __init__(self) -> None:
        self.about = json.loads(os.environ[runs.TRIAL])
        self.validations = 0
        self.trial: Any = None

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.is_global_zero:
            self.trial = joined(self.about)
            # what fails from now on is not a mistake in the search space
            self.trial.set_user_attr("begun", True)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.sanity_checking or trainer.state.fn != "fit":
            return
        stop = trainer.is_global_zero and self._is_hopeless(trainer)
        if trainer.strategy.reduce_boolean_decision(stop, all=False):
            trainer.should_stop = True

    def state_dict(self) -> dict[str, int]:
        return {"validations": self.validations}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        self.validations = state_dict["validations"]

    def _is_hopeless(self, trainer: L.Trainer) -> bool:
        checkpoint = next(c for c in trainer.callbacks if isinstance(c, Checkpoint))
        value = trainer.callback_metrics.get(checkpoint.monitor)
        done, self.validations = self.validations, self.validations + 1
        if value is None:  # a metric of the training is not known yet
            return False
        self.trial.report(float(value), done)
        if self.about["pruning"] is None or not self.trial.should_prune():
            return False
        self.trial.set_user_attr("pruned", True)
        return True


def joined(about: dict[str, Any]) -> Any:
    """The trial of the search that started this run."""
    import optuna  # only a search needs it
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    pruning = about["pruning"] or {"startup_trials": 0, "warmup_validations": 0}
    study = optuna.load_study(
        study_name=about["study"],
        storage=optuna.storages.JournalStorage(JournalFileBackend(about["journal"])),
        pruner=optuna.pruners.MedianPruner(
            n_startup_trials=pruning["startup_trials"],
            n_warmup_steps=pruning["warmup_validations"],
        ),
    )
    return optuna.trial.Trial(study, about["trial"])
