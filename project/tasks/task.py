"""What all problems share: the steps, the metrics' life, the optimizer, the seeds."""

import warnings
from abc import abstractmethod
from collections.abc import MutableMapping
from functools import partial
from typing import Any, ClassVar, Literal, cast

import lightning as L
import numpy as np
import torch
from lightning.pytorch.cli import OptimizerCallable
from matplotlib.figure import Figure
from torch import Tensor, nn
from torchmetrics import MetricCollection

from project.batches import MEANINGS, SIZES, Batch, batch_size, check_inputs
from project.errors import UserError
from project.models.freezing import replace_batch_norms
from project.optim import (
    Part,
    Plateau,
    Schedule,
    Scheduler,
    check_same_groups,
    group_names,
    parameter_groups,
)
from project.optim.accumulation import Window
from project.randomness import combine, seed_all
from project.state_dicts import check_fits, description_of
from project.tasks import optimization
from project.tasks.mean_loss import MeanLoss

Size = tuple[int, int] | None


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

    in_float32: ClassVar[str] = ""
    """What of the loss is computed in float32 under half precision, where it would overflow."""

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
        for saved in (self.hparams, cast(dict[str, Any], self._hparams_initial)):
            _keep_what_can_be_loaded(saved)
        self.network = network
        self.optimizer = optimizer
        self.schedule = schedule
        self.train_loss = MeanLoss()
        self.train_loss.persistent(True)  # a run resumed in mid-epoch knows the epoch's first part
        self.val_loss, self.test_loss = MeanLoss(), MeanLoss()
        self.val_metrics = metrics.clone(prefix="val_")
        self.test_metrics = metrics.clone(prefix="test_")
        self.tables: dict[str, Tensor] = {}
        self.seed = torch.initial_seed()
        self.loaded: str = getattr(network, "loaded", "")
        self.expects: dict[str, list[float]] = getattr(network, "expects", {})
        self.parts: list[Part] = []  # of the network, with a learning rate of their own
        self.group_norms: list[str] = []  # layers of the network that were BatchNorm when made
        self._group_names: dict[str, list[str]] | None = None
        self.optimizer_settings: list[dict[str, Any]] = []  # by parameter group, as configured
        self.settings_before: list[dict[str, Any]] = []  # those of the checkpoint gone on from
        self._inputs_checked = False
        self._window = Window()
        self._window_before: dict[str, Any] | None = None  # one that a checkpoint was written in

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

    @property
    def legend(self) -> dict[str, tuple[int, int, int]]:
        """What the colours mean in which `drawn` draws."""
        return {}

    def serve(self, outputs: Any, seen: Size = None, own: Size = None) -> dict[str, Tensor]:
        """What an exported model answers, by the names of `serves`, from the network's outputs.

        It becomes part of an exported graph: tensor operations only, one row per sample.

        Args:
            outputs: The network's.
            seen: Height and width of the pictures as the network was given them, if it was.
            own: The same as whoever asks has them: what has a place on a picture is answered in
                these pixels. None for those of `seen`.
        """
        return {"outputs": outputs}

    def measurable(self, answers: list[dict[str, Tensor]], batch: Batch) -> Any:
        """Predictions as the metrics take them, out of what an exported model answers.

        Args:
            answers: Of each sample by itself, as batches of one.
            batch: The samples together.
        """
        return torch.cat([next(iter(answer.values())) for answer in answers])

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
        if self.trainer.accumulate_grad_batches > 1:
            mean = partial(optimization.mean_over_processes, self)
            loss = self._window.weighted(loss, self.loss_weight(batch), mean)
        return loss

    def on_after_backward(self) -> None:
        size = self.trainer.accumulate_grad_batches
        if size > 1 and optimization.ends_window(self.trainer):
            mean = partial(optimization.mean_over_processes, self)
            self._window.close(self.parameters(), size, mean)

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
        try:
            optimizer = self.optimizer(groups)
        except ValueError as error:  # torch's words for a setting that can't be
            raise UserError(f"model.optimizer can't be made: {error}.") from None
        for group in optimizer.param_groups:
            group["lr"] *= group.get("lr_factor", 1.0)
        optimization.warn_of_high_rate(optimizer)
        self.optimizer_settings = [optimization.settings(group) for group in optimizer.param_groups]
        if self.schedule is None:
            return optimizer
        scheduler = Scheduler(optimizer, self.schedule)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }

    def on_fit_start(self) -> None:
        if isinstance(self.schedule, Plateau):
            self.schedule.check(self.best_is)  # before anything is trained
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
        optimization.apply_settings(self, self.trainer.optimizers[0])
        optimization.start_schedule(self)
        if self._window_before is not None:
            self._window.load_state_dict(self._window_before, self)
            self._window_before = None

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["seed"] = self.seed
        if self.trainer.world_size > 1:  # the first process writes: let it write for all
            state = self.train_loss.state_dict()
            checkpoint["train_loss"] = {k: self.all_gather(v) for k, v in state.items()}
        elif window := self._window.state_dict(self):  # of several, each has its own gradients
            checkpoint["window"] = window
        checkpoint["group_norms"] = self.group_norms
        checkpoint["parameter_groups"] = self._group_names
        checkpoint["optimizer_settings"] = self.optimizer_settings

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.become_like(checkpoint)
        data = getattr(self._trainer, "datamodule", None)
        if data is not None and (description := description_of(checkpoint)):
            data.refuse_others(description)  # says more than shapes of weights
        check_fits(checkpoint["state_dict"], self.state_dict())
        self.seed = checkpoint.get("seed", self.seed)
        self.settings_before = checkpoint.get("optimizer_settings", [])
        for name, of_all in checkpoint.get("train_loss", {}).items():
            mine = of_all[self.global_rank] if self.global_rank < len(of_all) else of_all[0] * 0
            checkpoint["state_dict"][f"train_loss.{name}"] = mine
        if self._trainer is not None and self._trainer.state.fn == "fit":
            groups = parameter_groups(self.network, self.parts)
            check_same_groups(self.network, checkpoint.get("parameter_groups"), groups)
            self._window_before = checkpoint.get("window")

    def become_like(self, checkpoint: dict[str, Any]) -> None:
        """Change the network as that of a checkpoint was changed after it had been made."""
        self.group_norms += replace_batch_norms(self.network, checkpoint.get("group_norms") or [])

    def _checked(self, batch: Batch) -> tuple[Tensor, Tensor]:
        if not self._inputs_checked:
            check_inputs(self.network, batch)
            self._inputs_checked = True
        return self.loss_and_predictions(batch)

    def _evaluate(self, batch: Batch, loss_metric: MeanLoss, metrics: MetricCollection) -> Any:
        loss, predictions = self._checked(batch)
        loss_metric.update(loss, self.loss_weight(batch))
        metrics.update(predictions, batch["target"])
        return predictions

    def _log_evaluation(self, stage: str, loss: MeanLoss, metrics: MetricCollection) -> None:
        values = {f"{stage}_loss": self._log(f"{stage}_loss", loss)}
        for position, (name, value) in enumerate(metrics.compute().items()):
            if value.numel() == 1:
                self.log(name, value, prog_bar=position == 0)
                values[name] = value
            else:
                self.tables[name] = value.cpu()
        metrics.reset()
        if stage == "val" and self.trainer.state.fn == "fit" and not self.trainer.sanity_checking:
            optimization.show_validation(self, values)

    def _log(self, name: str, metric: MeanLoss) -> Tensor:
        value = metric.compute()
        self.log(name, value, prog_bar=True)
        metric.reset()
        return value


def _near(used: list[float], expected: list[float]) -> bool:
    if len(used) != len(expected):
        return False
    return all(abs(a - b) < 0.01 for a, b in zip(used, expected, strict=True))


def _keep_what_can_be_loaded(saved: MutableMapping[str, Any]) -> None:
    """Leave out of hyperparameters what was made in Python, and what the data did not have."""
    for name in [n for n, value in saved.items() if not _is_plain(value)]:
        del saved[name]
    arguments = saved["network"].get("init_args", {}) if "network" in saved else {}
    for given, names in ((saved, MEANINGS), (arguments, SIZES)):
        for name in [n for n in names if n in given and given[n] is None]:
            del given[name]


def _is_plain(value: Any) -> bool:
    """Whether a value can be read back with `weights_only=True` and means the same everywhere."""
    if isinstance(value, dict):
        return all(isinstance(k, str) and _is_plain(v) for k, v in value.items())
    if isinstance(value, list | tuple):
        return all(_is_plain(v) for v in value)
    return value is None or type(value) in (str, int, float, bool)
