"""Learning-rate schedules: a factor on the learning rate, by the optimizer steps done."""

import math
from abc import ABC, abstractmethod
from typing import Any, Literal

from project.errors import UserError


class Schedule(ABC):
    """A learning rate that changes over the run, after a linear warm-up.

    Args:
        warmup_fraction: Share of the run's optimizer steps over which the rate rises from near 0.
            The warm-up goes step by step, also with `per: epoch`.
        per: Whether the rate changes with every `step`, or is held over an `epoch`.
    """

    needs_end = True
    """Whether the factor depends on how many steps the run has."""

    def __init__(
        self, warmup_fraction: float = 0.0, per: Literal["step", "epoch"] = "step"
    ) -> None:
        check_share("warmup_fraction", warmup_fraction, below=1)
        self.warmup_fraction = warmup_fraction
        self.per = per

    def factor(self, step: int, total_steps: float, steps_per_epoch: float = 1) -> float:
        """What the learning rate is multiplied with at an optimizer step.

        Args:
            step: Optimizer steps done, 0 to `total_steps`.
            total_steps: Optimizer steps of the whole run.
            steps_per_epoch: Optimizer steps of an epoch.
        """
        warmup = self.warmup_steps(total_steps)
        after = self.after_warmup(step, total_steps, steps_per_epoch)
        return after * self.rising(step, warmup) if step < warmup else after

    def after_warmup(self, step: int, total_steps: float, steps_per_epoch: float = 1) -> float:
        """As `factor`, without the warm-up's part in it."""
        if self.per == "epoch":
            step = int(step - step % steps_per_epoch)
        warmup = self.warmup_steps(total_steps)
        progress = (step - warmup) / max(1, total_steps - warmup)
        return self.level(min(1.0, max(0.0, progress)), int(step // steps_per_epoch))

    def warmup_steps(self, total_steps: float) -> int:
        """Optimizer steps of the warm-up."""
        return round(self.warmup_fraction * total_steps) if self.warmup_fraction else 0

    def rising(self, step: int, warmup: int) -> float:
        """The warm-up's part in the factor, above 0 and at most 1."""
        return (step + 1) / (warmup + 1)

    @abstractmethod
    def level(self, progress: float, epoch: int) -> float:
        """The factor without a warm-up.

        Args:
            progress: Share of the steps after the warm-up that is done, from 0 to 1.
            epoch: Epochs done.
        """

    def settings(self) -> dict[str, Any]:
        """What it was made with, as plain values."""
        return {"schedule": type(self).__name__, **vars(self)}


class Constant(Schedule):
    """The same learning rate throughout, after the warm-up.

    Args:
        warmup_fraction: Share of the run's optimizer steps over which the rate rises from near 0.
    """

    needs_end = False

    def __init__(self, warmup_fraction: float = 0.0) -> None:
        super().__init__(warmup_fraction)

    def level(self, progress: float, epoch: int) -> float:
        return 1.0


class Cosine(Schedule):
    """Falls along half a cosine.

    Args:
        warmup_fraction: Share of the run's optimizer steps over which the rate rises from near 0.
        final_fraction: Share of the learning rate that is left at the end.
        per: Whether the rate changes with every `step`, or is held over an `epoch`.

    Source: Loshchilov and Hutter, "SGDR", 2017 (arXiv:1608.03983), without restarts.
    """

    def __init__(
        self,
        warmup_fraction: float = 0.0,
        final_fraction: float = 0.0,
        per: Literal["step", "epoch"] = "step",
    ) -> None:
        super().__init__(warmup_fraction, per)
        check_share("final_fraction", final_fraction)
        self.final_fraction = final_fraction

    def level(self, progress: float, epoch: int) -> float:
        falling = (1 + math.cos(math.pi * progress)) / 2
        return self.final_fraction + (1 - self.final_fraction) * falling


class Linear(Schedule):
    """Falls along a line.

    Args:
        warmup_fraction: Share of the run's optimizer steps over which the rate rises from near 0.
        final_fraction: Share of the learning rate that is left at the end.
        per: Whether the rate changes with every `step`, or is held over an `epoch`.
    """

    def __init__(
        self,
        warmup_fraction: float = 0.0,
        final_fraction: float = 0.0,
        per: Literal["step", "epoch"] = "step",
    ) -> None:
        super().__init__(warmup_fraction, per)
        check_share("final_fraction", final_fraction)
        self.final_fraction = final_fraction

    def level(self, progress: float, epoch: int) -> float:
        return self.final_fraction + (1 - self.final_fraction) * (1 - progress)


class OneCycle(Cosine):
    """Rises along half a cosine to the learning rate, then falls along another one.

    The optimizer's `lr` is the peak. The momentum is left alone.

    Args:
        warmup_fraction: Share of the run's optimizer steps until the peak.
        start_fraction: Share of the learning rate at the first step.
        final_fraction: Share of the learning rate that is left at the end.
        per: Whether the rate falls with every `step`, or is held over an `epoch`.

    Source: Smith and Topin, "Super-convergence", 2017 (arXiv:1708.07120); shares as in torch's
    `OneCycleLR`.
    """

    def __init__(
        self,
        warmup_fraction: float = 0.3,
        start_fraction: float = 0.04,
        final_fraction: float = 0.0,
        per: Literal["step", "epoch"] = "step",
    ) -> None:
        super().__init__(warmup_fraction, final_fraction, per)
        check_share("start_fraction", start_fraction)
        self.start_fraction = start_fraction

    def rising(self, step: int, warmup: int) -> float:
        risen = (1 - math.cos(math.pi * step / warmup)) / 2
        return self.start_fraction + (1 - self.start_fraction) * risen


class Steps(Schedule):
    """Drops by a factor at stated moments, given as shares of the run or as epochs.

    Args:
        at: When, as shares of the steps after the warm-up, such as [0.5, 0.75].
        gamma: What the rate is multiplied with at each.
        warmup_fraction: Share of the run's optimizer steps over which the rate rises from near 0.
        at_epochs: When, as epochs done, such as [30, 60]; they stay where they are when the run
            is extended. Give this or `at`.
        per: Whether a drop of `at` happens at the `step`, or with the next `epoch`.
    """

    def __init__(
        self,
        at: list[float] | None = None,
        gamma: float = 0.1,
        warmup_fraction: float = 0.0,
        at_epochs: list[int] | None = None,
        per: Literal["step", "epoch"] = "step",
    ) -> None:
        super().__init__(warmup_fraction, per)
        if (at is None) == (at_epochs is None):
            raise UserError(
                f"Steps has at={at} and at_epochs={at_epochs}; give one of them: "
                "--model.schedule.at for shares of the run such as [0.5, 0.75], or "
                "--model.schedule.at_epochs for epochs such as [30, 60]."
            )
        if not all(0 < moment < 1 for moment in at or []):
            raise UserError(
                f"at is {at}; each moment is a share of the run between 0 and 1. For epochs give "
                "at_epochs."
            )
        if not all(moment > 0 for moment in at_epochs or []):
            raise UserError(f"at_epochs is {at_epochs}; each is a number of epochs done, above 0.")
        self.moments = at
        self.gamma = gamma
        self.at_epochs = at_epochs
        self.needs_end = at is not None

    def level(self, progress: float, epoch: int) -> float:
        if self.at_epochs is not None:
            return self.gamma ** sum(epoch >= moment for moment in self.at_epochs)
        return self.gamma ** sum(progress >= moment for moment in self.moments or [])


def check_share(name: str, value: float, below: float = math.inf) -> None:
    """Make sure that a setting is a share.

    Raises:
        UserError: It is not between 0 and 1, or not below what it must be below.
    """
    if not 0 <= value <= 1 or value >= below:
        allowed = "0 to below 1" if below == 1 else "0 to 1"
        raise UserError(f"{name} is {value}; it is a share, {allowed}.")
