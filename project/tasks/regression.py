"""Numbers, in the user's own units."""

from functools import partial
from typing import Any, ClassVar, Literal, cast

import torch
from lightning.pytorch.cli import OptimizerCallable
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn import functional as F
from torchmetrics import MeanAbsoluteError, MeanSquaredError, Metric, MetricCollection, R2Score
from torchmetrics.wrappers.transformations import MetricInputTransformer

from project.batches import Batch
from project.errors import UserError
from project.figures import predicted_and_true
from project.optim import Schedule
from project.tasks.task import Size, Task


class Regression(Task):
    """One or more numbers for each sample.

    The network predicts them scaled: a target of 200,000 would make gradients that nothing
    survives. Loss is on scaled targets; metrics, predictions and what an exported model answers are
    in the units of the data. For each target are logged `rmse` (root mean square error), `mae`
    (mean absolute error) and `r2` (share of the variance that is explained), by its name if there
    are several.

    Args:
        network: Gives one number per target.
        target_names: What the predicted numbers are called.
        target_mean: Of each over the training samples.
        target_std: The same.
        optimizer: Makes an optimizer of parameter groups.
        schedule: How the learning rate changes over the run; None keeps it.
        loss: `mse` aims at the mean; `smooth_l1` counts errors above half a standard deviation of
            the target by their size, not by their square, so that a few wild ones matter less.

    Shapes:
        network: inputs → float [B, K]; target: float [B, K] in the user's units.
    """

    serves: ClassVar[dict[str, str]] = {
        "predictions": "of each target, in the order of the target names, in the units of the data"
    }

    def __init__(
        self,
        network: nn.Module,
        target_names: list[str],
        target_mean: list[float],
        target_std: list[float],
        *,
        optimizer: OptimizerCallable = torch.optim.AdamW,
        schedule: Schedule | None = None,
        loss: Literal["mse", "smooth_l1"] = "mse",
    ) -> None:
        if not len(target_names) == len(target_mean) == len(target_std) > 0 or min(target_std) <= 0:
            raise UserError(
                f"Regression was given target_names {target_names}, target_mean {target_mean} and "
                f"target_std {target_std}: one of each per target, and every std above 0."
            )
        metrics: dict[str, Metric | MetricCollection] = {}
        for k, name in enumerate(target_names):
            end = f"_{name}" if len(target_names) > 1 else ""
            metrics[f"rmse{end}"] = OfTarget(MeanSquaredError(squared=False), k, target_mean[k])
            metrics[f"mae{end}"] = OfTarget(MeanAbsoluteError(), k, target_mean[k])
            metrics[f"r2{end}"] = OfTarget(R2Score(), k, target_mean[k])
        metrics["pairs"] = Pairs()
        super().__init__(network, MetricCollection(metrics), optimizer=optimizer, schedule=schedule)
        self.target_names = list(target_names)
        self.scale = Scale(target_mean, target_std)
        self.loss = {"mse": F.mse_loss, "smooth_l1": partial(F.smooth_l1_loss, beta=0.5)}[loss]

    def loss_and_predictions(self, batch: Batch) -> tuple[Tensor, Tensor]:
        scaled = self(**batch["inputs"]).float()  # [B, K]
        loss = self.loss(scaled, self.scale(self._target(batch, scaled)))
        return loss, self.scale.inverse(scaled)

    def sample_losses(self, predictions: Tensor, batch: Batch) -> Tensor:
        errors = self.loss(self.scale(predictions), self.scale(batch["target"]), reduction="none")
        return errors.mean(dim=1)  # [B]

    def serve(self, outputs: Tensor, seen: Size = None, own: Size = None) -> dict[str, Tensor]:
        return {"predictions": self.scale.inverse(outputs.float())}  # [B, K]

    def decode(self, outputs: Tensor, batch: Batch) -> dict[str, list[Any]]:
        return self._columns("prediction", self.serve(outputs)["predictions"])

    def decode_target(self, batch: Batch) -> dict[str, list[Any]]:
        return self._columns("target", batch["target"])

    def figures(self, stage: str) -> dict[str, Figure]:
        pairs = self.tables.get(f"{stage}_pairs")
        if pairs is None:
            return {}
        predicted, true = pairs.tolist()
        return {"predicted_and_true": predicted_and_true(predicted, true, self.target_names)}

    def _columns(self, title: str, values: Tensor) -> dict[str, list[Any]]:
        several = len(self.target_names) > 1
        names = [f"{title}_{name}" for name in self.target_names] if several else [title]
        return dict(zip(names, values.T.tolist(), strict=True))

    def _target(self, batch: Batch, predictions: Tensor) -> Tensor:
        """The target, once it is sure that each of its numbers meets its own prediction."""
        target: Tensor = batch["target"]
        if target.shape != predictions.shape:
            raise UserError(
                f"The network's predictions have the shape {tuple(predictions.shape)}, the targets "
                f"{tuple(target.shape)}. Both must be [samples, {len(self.target_names)}], a "
                f"column for each of {self.target_names}: [B] against [B, 1] would be compared "
                "each with each."
            )
        if target.dtype not in (torch.float32, torch.float64):
            raise UserError(
                f"The targets are {target.dtype}, which rounds large ones or has no number for "
                "them. Set --trainer.precision to 16-mixed or bf16-mixed, which leave the data be."
            )
        return target


class Scale(nn.Module):
    """(target - mean) / std, and back; in float32 whatever the network is in.

    Its numbers are part of the state, so that a checkpoint alone predicts in the right units.

    Shapes:
        float [B, K] → float [B, K]
    """

    def __init__(self, mean: list[float], std: list[float]) -> None:
        super().__init__()
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32))
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32))

    def forward(self, target: Tensor) -> Tensor:
        return (target - self.mean) / self.std

    def inverse(self, scaled: Tensor) -> Tensor:
        return scaled * self.std + self.mean

    def _apply(self, fn: Any, recurse: bool = True) -> "Scale":
        # half precision ends at 65,504: follow to another device, not to another dtype
        return super()._apply(lambda tensor: tensor.to(fn(tensor).device), recurse)


class OfTarget(MetricInputTransformer):
    """A metric of one of several targets, which does not change if all numbers are moved alike.

    They are moved by the mean: sums of squares of large numbers would lose the small differences.

    Args:
        metric: Takes [B] and [B].
        number: Of the target.
        mean: Of the target.
    """

    def __init__(self, metric: Metric, number: int, mean: float) -> None:
        super().__init__(metric)
        self.number = number
        self.mean = mean

    @property
    def higher_is_better(self) -> bool | None:  # ty: ignore[incompatible-property-override]
        return cast(Metric, self.wrapped_metric).higher_is_better

    def transform_pred(self, pred: Tensor) -> Tensor:
        return pred[:, self.number] - self.mean

    def transform_target(self, target: Tensor) -> Tensor:
        return target[:, self.number] - self.mean


class Pairs(Metric):
    """Keeps what was predicted and what is true, to be drawn.

    Shapes:
        float [B, K] twice → float [2, N, K]
    """

    full_state_update = False
    predicted: list[Tensor]
    true: list[Tensor]

    def __init__(self) -> None:
        super().__init__()
        self.add_state("predicted", [], dist_reduce_fx="cat")
        self.add_state("true", [], dist_reduce_fx="cat")

    def update(self, predicted: Tensor, true: Tensor) -> None:
        self.predicted.append(predicted.detach())
        self.true.append(true.to(predicted.dtype))

    def compute(self) -> Tensor:
        both = (self.predicted, self.true)
        return torch.stack([torch.cat(p) if isinstance(p, list) else p for p in both])
