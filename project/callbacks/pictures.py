"""Pictures of a run, as files and in TensorBoard."""

from pathlib import Path

import lightning as L
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import TensorBoardLogger
from matplotlib.figure import Figure

from project.callbacks.checkpointing import Checkpoint
from project.callbacks.history import History
from project.figures import learning_curves
from project.tasks import Task


class Pictures(Callback):
    """Learning curves after training, the task's own pictures after a test: PNG in `figures/`."""

    def on_fit_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        history = next((c for c in trainer.callbacks if isinstance(c, History)), None)
        checkpoint = next((c for c in trainer.callbacks if isinstance(c, Checkpoint)), None)
        if history is None or checkpoint is None:
            return
        figure = learning_curves(history.rows, checkpoint.monitor, checkpoint.best_epoch)
        if figure is not None:
            _keep(trainer, "learning_curves", figure)

    def on_test_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if isinstance(pl_module, Task):
            for name, figure in pl_module.figures("test").items():
                _keep(trainer, name, figure)


def _keep(trainer: L.Trainer, name: str, figure: Figure) -> None:
    if not trainer.is_global_zero or trainer.fast_dev_run:
        return
    path = Path(trainer.default_root_dir) / "figures" / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    for logger in trainer.loggers:
        if isinstance(logger, TensorBoardLogger):
            logger.experiment.add_figure(name, figure, global_step=trainer.global_step)
