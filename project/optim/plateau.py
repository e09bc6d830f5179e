"""A learning rate that falls when a metric has stopped getting better."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from project.errors import UserError, suggestion
from project.optim.schedules import Schedule, check_share


@dataclass(frozen=True)
class Watched:
    """What a plateau's metric has done so far.

    Args:
        best: Its best value; None before the first.
        waited: Validations in a row that were not better.
        drops: How often the rate has been lowered.
    """

    best: float | None = None
    waited: int = 0
    drops: int = 0


class Plateau(Schedule):
    """Drops when a metric of the validation has not become better for a while.

    It sees the metric once per validation, however often that happens within an epoch.

    Args:
        monitor: Metric that validation logs, such as `val_loss` or `val_accuracy`.
        gamma: What the rate is multiplied with at each drop.
        patience: Validations in a row without improvement that are put up with.
        min_change: An improvement is one by more than this share of the best value.
        final_fraction: Share of the learning rate below which it does not fall.
        warmup_fraction: Share of the run's optimizer steps over which the rate rises from near 0.

    Source: torch's `ReduceLROnPlateau`, with a relative threshold and no cooldown.
    """

    needs_end = False

    def __init__(
        self,
        monitor: str = "val_loss",
        gamma: float = 0.1,
        patience: int = 5,
        min_change: float = 1e-4,
        final_fraction: float = 0.0,
        warmup_fraction: float = 0.0,
    ) -> None:
        super().__init__(warmup_fraction)
        check_share("final_fraction", final_fraction)
        check_share("gamma", gamma, below=1)
        if patience < 0:
            raise UserError(f"patience is {patience}; it is a number of validations, 0 or more.")
        self.monitor = monitor
        self.gamma = gamma
        self.patience = patience
        self.min_change = min_change
        self.final_fraction = final_fraction

    def level(self, progress: float, epoch: int) -> float:
        return 1.0

    def lowered(self, watched: Watched) -> float:
        """The factor after what was watched."""
        return max(self.final_fraction, self.gamma**watched.drops)

    def after(self, watched: Watched, value: float, best_is: Literal["min", "max"]) -> Watched:
        """What has been watched after one more validation; a NaN is no improvement.

        Args:
            watched: So far.
            value: The metric.
            best_is: Whether its smallest or its largest value is best.
        """
        if not math.isnan(value) and self._better(value, watched.best, best_is):
            return replace(watched, best=value, waited=0)
        if watched.waited < self.patience:
            return replace(watched, waited=watched.waited + 1)
        return replace(watched, waited=0, drops=watched.drops + 1)

    def _better(self, value: float, best: float | None, best_is: Literal["min", "max"]) -> bool:
        if best is None:
            return True
        margin = self.min_change * abs(best)
        return value < best - margin if best_is == "min" else value > best + margin

    def check(self, logged: Mapping[str, str], num_val_batches: float = math.inf) -> None:
        """Make sure that there will be something to watch.

        Args:
            logged: What is logged in training.
            num_val_batches: Batches of a validation.

        Raises:
            UserError: The metric is not one of validation, or nothing is validated.
        """
        names = [name for name in logged if name.startswith("val_")]
        if self.monitor not in names:
            raise UserError(
                f"model.schedule.monitor is {self.monitor!r}, which no validation logs."
                + suggestion(self.monitor, names)
            )
        if num_val_batches == 0:
            raise UserError(
                f"The schedule Plateau watches {self.monitor}, but this run validates nothing: "
                "there is no validation split, or trainer.limit_val_batches is 0. Choose another "
                "--model.schedule, such as Cosine."
            )
