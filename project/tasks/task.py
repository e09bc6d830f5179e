"""What all problems share: the steps, the metrics' life, the optimizer, the seeds."""

import warnings
from abc import abstractmethod
from typing import Any, ClassVar, Literal, cast

import lightning as L
import numpy as np
import torch
from lightning.pytorch.cli import OptimizerCallable
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.optim import Optimizer
from torchmetrics import MetricCollection
from torchmetrics.aggregation import MeanMetric

from project.batches import Batch, batch_size, check_inputs
from project.models.freezing import replace_batch_norms
from project.optim import (
    Part,
    Schedule,
    Scheduler,
    check_same_groups,
    group_names,
    parameter_groups,
)
from project.randomness import combine, seed_all
from project.state_dicts import check_fits


class Task(L.LightningModule):
    """A problem: a network, its loss, its metrics.

    A subclass computes the loss and the predictions of a batch in `loss_and_predictions` and puts
    predictions into a table in `decode`; the steps, logging and optimization are here. Logged are
    `train_loss`, `val_loss`, `test_loss` and each metric under `val_` and `test_`, once per epoch,
    as means over all samples, however they were batched.

    What `project.batches.MEANINGS` names, such as `class_names`, is given by the data to a subclass
    whose `__init__` has a parameter of that name.

    A network made from pretrained weights may have two attributes: `loaded`, one line that says
    what was loaded, and `expects`, the `mean` and `std` its images were normalised with.

    Args:
        network: Takes a batch's inputs by name.
        metrics: Fed with (predictions, target) in validation and test; those with more than one
            number are not logged but drawn.
        optimizer: Makes an optimizer of parameter groups.
        schedule: How the learning rate changes over the run; None keeps it.
    """

    serves: ClassVar[dict[str, str]] = {"outputs": "the network's outputs as they are"}
    """What each answer of `serve` means, for the exported model's contract."""

    def __init__(
        self,
        network: nn.Module,
        metrics: MetricCollection,
        *,
        optimizer: OptimizerCallable,
        schedule: Schedule | None,
    ) -> None:
        super().__init__()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*is an instance of `nn.Module`.*")
            self.save_hyperparameters()
        # what was made in Python, not from a config, could not be loaded safely: it is left out
        for saved in (self.hparams, cast(dict[str, Any], self._hparams_initial)):
            for name in [n for n, value in saved.items() if not _is_plain(value)]:
                del saved[name]
        self.network = network
        self.optimizer = optimizer
        self.schedule = schedule
        self.train_loss = MeanMetric()
        self.train_loss.persistent(True)  # a run resumed in mid-epoch knows the epoch's first part
        self.val_loss, self.test_loss = MeanMetric(), MeanMetric()
        self.val_metrics = metrics.clone(prefix="val_")
        self.test_metrics = metrics.clone(prefix="test_")
        self.tables: dict[str, Tensor] = {}
        self.seed = torch.initial_seed()
        self.loaded: str = getattr(network, "loaded", "")
        self.expects: dict[str, list[float]] = getattr(network, "expects", {})
        self.parts: list[Part] = []  # of the network, with a learning rate of their own
        self.group_norms: list[str] = []  # layers of the network that were BatchNorm when made
        self._group_names: dict[str, list[str]] | None = None
        self._optimizer_settings: list[dict[str, Any]] = []  # by parameter group, as configured
        self._settings_before: list[dict[str, Any]] = []  # those of the checkpoint gone on from
        self._inputs_checked = False

    @abstractmethod
    def loss_and_predictions(self, batch: Batch) -> tuple[Tensor, Any]:
        """The mean loss over the batch's samples, and predictions as the metrics take them."""

    @abstractmethod
    def decode(self, outputs: Any, batch: Batch) -> dict[str, list[Any]]:
        """Columns of the prediction table from the network's outputs, one entry per sample.

        Where a sample has several rows (its boxes) or none, a column `index` says whose each is.
        An entry that is a picture, uint8 [H, W], is written to a file, and its name to the table.
        """

    def decode_target(self, batch: Batch) -> dict[str, list[Any]]:
        """What is true, as `decode` puts what is predicted: one entry per sample."""
        return {}

    def loss_weight(self, batch: Batch) -> Tensor | int:
        """How much there is in the batch of what its loss is the mean of: by default, samples."""
        return batch_size(batch)

    def sample_losses(self, predictions: Any, batch: Batch) -> Tensor | None:
        """How wrong each prediction is, [B], to find the worst samples; None if unknown."""
        return None

    def drawn(self, picture: np.ndarray, outputs: Any, batch: Batch) -> np.ndarray:
        """A sample's picture with what was predicted (and what is true) drawn on it.

        Args:
            picture: uint8 [H, W, C], in its own size.
            outputs: The network's, of a batch of this sample alone.
            batch: The sample alone.
        """
        return picture

    def serve(self, outputs: Any) -> dict[str, Tensor]:
        """What an exported model answers, by the names of `serves`, from the network's outputs.

        It becomes part of an exported graph: tensor operations only, one row per sample.
        """
        return {"outputs": outputs}

    def figures(self, stage: str) -> dict[str, Figure]:
        """Pictures of the last evaluation, by name; drawn from `tables`."""
        return {}

    def reports(self, stage: str) -> dict[str, list[dict[str, Any]]]:
        """Tables of the last evaluation, by name, such as a row per class."""
        return {}

    @property
    def best_is(self) -> dict[str, Literal["min", "max"]]:
        """What is logged in training, by name, and whether its smallest or largest value is best.

        A metric that does not know this of itself, such as a confusion matrix, can't be monitored.
        """
        best: dict[str, Literal["min", "max"]] = {"train_loss": "min", "val_loss": "min"}
        for name, metric in self.val_metrics.items():
            if metric.higher_is_better is not None:
                best[str(name)] = "max" if metric.higher_is_better else "min"
        return best

    def forward(self, **inputs: Tensor) -> Any:
        return self.network(**inputs)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        loss, _ = self._checked(batch)
        self.train_loss.update(loss.detach(), self.loss_weight(batch))
        if (batch_idx + 1) % self.trainer.log_every_n_steps == 0:
            for logger in self.loggers:
                logger.log_metrics({"train_loss_step": loss.item()}, step=self.global_step)
        return loss

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        self._evaluate(batch, self.val_loss, self.val_metrics)

    def test_step(self, batch: Batch, batch_idx: int) -> Tensor | None:
        predictions = self._evaluate(batch, self.test_loss, self.test_metrics)
        return self.sample_losses(predictions, batch)

    def predict_step(self, batch: Batch, batch_idx: int) -> dict[str, Any]:
        check_inputs(self.network, batch)
        return {"index": batch["index"], **self.decode(self(**batch["inputs"]), batch)}

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        seed_all(combine(self.seed, self.current_epoch, batch_idx, self.global_rank))

    def on_train_epoch_end(self) -> None:
        self._log("train_loss", self.train_loss)

    def on_validation_epoch_end(self) -> None:
        self._log_evaluation("val", self.val_loss, self.val_metrics)

    def on_test_epoch_end(self) -> None:
        self._log_evaluation("test", self.test_loss, self.test_metrics)

    def configure_optimizers(self) -> Any:
        groups = parameter_groups(self.network, self.parts)
        self._group_names = group_names(self.network, groups)
        optimizer = self.optimizer(groups)
        for group in optimizer.param_groups:
            group["lr"] *= group.get("lr_factor", 1.0)
        self._optimizer_settings = [_settings(group) for group in optimizer.param_groups]
        if self.schedule is None:
            return optimizer
        scheduler = Scheduler(optimizer, self.schedule)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }

    def on_fit_start(self) -> None:
        if self.loaded:
            self.print(self.loaded)
        data = getattr(self.trainer, "datamodule", None)
        used = data.description().get("preprocessing") if data else None
        if used and any(not _near(used[name], self.expects[name]) for name in self.expects):
            warnings.warn(
                f"The pretrained weights expect images normalised with mean {self.expects['mean']} "
                f"and std {self.expects['std']}; data.normalization gives them mean {used['mean']} "
                f"and std {used['std']}.",
                stacklevel=2,
            )

    def on_train_start(self) -> None:
        self._apply_settings(self.trainer.optimizers[0])
        scheduler = self.lr_schedulers()
        if isinstance(scheduler, Scheduler):
            base_lrs = [settings["lr"] for settings in self._optimizer_settings]
            scheduler.start(self.trainer.estimated_stepping_batches, base_lrs)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["seed"] = self.seed
        if self.trainer.world_size > 1:  # the first process writes: let it write for all
            state = self.train_loss.state_dict()
            checkpoint["train_loss"] = {k: self.all_gather(v) for k, v in state.items()}
        checkpoint["group_norms"] = self.group_norms
        checkpoint["parameter_groups"] = self._group_names
        checkpoint["optimizer_settings"] = self._optimizer_settings

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.become_like(checkpoint)
        check_fits(checkpoint["state_dict"], self.state_dict())
        self.seed = checkpoint.get("seed", self.seed)
        self._settings_before = checkpoint.get("optimizer_settings", [])
        for name, of_all in checkpoint.get("train_loss", {}).items():
            mine = of_all[self.global_rank] if self.global_rank < len(of_all) else of_all[0] * 0
            checkpoint["state_dict"][f"train_loss.{name}"] = mine
        if self._trainer is not None and self._trainer.state.fn == "fit":
            groups = parameter_groups(self.network, self.parts)
            check_same_groups(self.network, checkpoint.get("parameter_groups"), groups)

    def become_like(self, checkpoint: dict[str, Any]) -> None:
        """Change the network as that of a checkpoint was changed after it had been made."""
        self.group_norms += replace_batch_norms(self.network, checkpoint.get("group_norms") or [])

    def _checked(self, batch: Batch) -> tuple[Tensor, Tensor]:
        if not self._inputs_checked:
            check_inputs(self.network, batch)
            self._inputs_checked = True
        return self.loss_and_predictions(batch)

    def _evaluate(self, batch: Batch, loss_metric: MeanMetric, metrics: MetricCollection) -> Any:
        loss, predictions = self._checked(batch)
        loss_metric.update(loss, self.loss_weight(batch))
        metrics.update(predictions, batch["target"])
        return predictions

    def _log_evaluation(self, stage: str, loss: MeanMetric, metrics: MetricCollection) -> None:
        self._log(f"{stage}_loss", loss)
        for position, (name, value) in enumerate(metrics.compute().items()):
            if value.numel() == 1:
                self.log(name, value, prog_bar=position == 0)
            else:
                self.tables[name] = value.cpu()
        metrics.reset()

    def _log(self, name: str, metric: MeanMetric) -> None:
        self.log(name, metric.compute(), prog_bar=True)
        metric.reset()

    def _apply_settings(self, optimizer: Optimizer) -> None:
        """What the config has changed beats what a resumed optimizer's state brought with it.

        What it has not changed stays as it was, also where a callback has moved it since.
        """
        groups = zip(
            optimizer.param_groups, self._settings_before, self._optimizer_settings, strict=False
        )
        for number, (group, before, settings) in enumerate(groups):
            changed = {k: v for k, v in settings.items() if before.get(k) != v}
            for name, value in changed.items():
                self.print(f"optimizer group {number}: {name} {before.get(name)} → {value}")
            group.update(changed)
            if "initial_lr" in group:
                group["initial_lr"] = settings["lr"]


def _settings(group: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in group.items() if k not in ("params", "initial_lr")}


def _near(used: list[float], expected: list[float]) -> bool:
    if len(used) != len(expected):
        return False
    return all(abs(a - b) < 0.01 for a, b in zip(used, expected, strict=True))


def _is_plain(value: Any) -> bool:
    """Whether a value can be read back with `weights_only=True` and means the same everywhere."""
    if isinstance(value, dict):
        return all(isinstance(k, str) and _is_plain(v) for k, v in value.items())
    if isinstance(value, list | tuple):
        return all(_is_plain(v) for v in value)
    return value is None or type(value) in (str, int, float, bool)
