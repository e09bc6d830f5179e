"""Parameter groups and learning-rate schedules.

A schedule is a factor on the learning rate, given per optimizer step. Its total is the run's real
number of optimizer steps, so that accumulation, limits and several processes count.
"""

import math
from abc import ABC, abstractmethod
from typing import Any

from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from project.errors import UserError


def parameter_groups(network: nn.Module) -> list[dict[str, Any]]:
    """Trainable parameters in two groups: weights, and biases and normalisation without decay.

    Weight decay pulls towards 0, which means something for weights that are multiplied with inputs;
    a bias or a normalisation's scale has nothing to gain from it. Those are the parameters with
    fewer than two dimensions.

    Raises:
        UserError: No parameter is trainable.
    """
    trainable = [p for p in network.parameters() if p.requires_grad]
    if not trainable:
        raise UserError(
            f"No parameter of {type(network).__name__} is trainable (requires_grad is False "
            "everywhere), so there is nothing to train."
        )
    groups = [
        {"params": [p for p in trainable if p.ndim >= 2], "name": "weights"},
        {"params": [p for p in trainable if p.ndim < 2], "name": "no_decay", "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


class Schedule(ABC):
    """A learning rate that changes over the run, after a linear warm-up.

    Args:
        warmup_fraction: Share of the run's optimizer steps over which the rate rises from near 0.
    """

    def __init__(self, warmup_fraction: float = 0.0) -> None:
        if not 0 <= warmup_fraction < 1:
            raise UserError(
                f"warmup_fraction is {warmup_fraction}; it is a share of the run: 0 to below 1."
            )
        self.warmup_fraction = warmup_fraction

    def factor(self, step: int, total_steps: int) -> float:
        """What the learning rate is multiplied with at an optimizer step.

        Args:
            step: Optimizer steps done, 0 to `total_steps`.
            total_steps: Optimizer steps of the whole run.
        """
        warmup = round(self.warmup_fraction * total_steps)
        if step < warmup:
            return (step + 1) / (warmup + 1)
        return self.after_warmup(min(1.0, (step - warmup) / max(1, total_steps - warmup)))

    @abstractmethod
    def after_warmup(self, progress: float) -> float:
        """The factor when a share of the steps after the warm-up is done, from 0 to 1."""


class Constant(Schedule):
    """The same learning rate throughout, after the warm-up."""

    def after_warmup(self, progress: float) -> float:
        return 1.0


class Cosine(Schedule):
    """Falls along half a cosine.

    Args:
        warmup_fraction: Share of the run's optimizer steps over which the rate rises from near 0.
        final_fraction: Share of the learning rate that is left at the end.

    Source: Loshchilov and Hutter, "SGDR", 2017 (arXiv:1608.03983), without restarts.
    """

    def __init__(self, warmup_fraction: float = 0.0, final_fraction: float = 0.0) -> None:
        super().__init__(warmup_fraction)
        self.final_fraction = final_fraction

    def after_warmup(self, progress: float) -> float:
        falling = (1 + math.cos(math.pi * progress)) / 2
        return self.final_fraction + (1 - self.final_fraction) * falling


class Linear(Schedule):
    """Falls along a line.

    Args:
        warmup_fraction: Share of the run's optimizer steps over which the rate rises from near 0.
        final_fraction: Share of the learning rate that is left at the end.
    """

    def __init__(self, warmup_fraction: float = 0.0, final_fraction: float = 0.0) -> None:
        super().__init__(warmup_fraction)
        self.final_fraction = final_fraction

    def after_warmup(self, progress: float) -> float:
        return self.final_fraction + (1 - self.final_fraction) * (1 - progress)


class Steps(Schedule):
    """Drops by a factor at stated moments.

    Args:
        at: When, as shares of the steps after the warm-up, such as [0.5, 0.75].
        gamma: What the rate is multiplied with at each.
        warmup_fraction: Share of the run's optimizer steps over which the rate rises from near 0.
    """

    def __init__(self, at: list[float], gamma: float = 0.1, warmup_fraction: float = 0.0) -> None:
        super().__init__(warmup_fraction)
        if not all(0 < moment < 1 for moment in at):
            raise UserError(f"at is {at}; each moment is a share of the run between 0 and 1.")
        self.at = at
        self.gamma = gamma

    def after_warmup(self, progress: float) -> float:
        return self.gamma ** sum(progress >= moment for moment in self.at)


class Scheduler(LambdaLR):
    """Applies a schedule step by step; Lightning calls `step` after every optimizer step.

    The total is not known when this is made: counting the steps needs the loaders, and loaders
    made that early would lose the position of a resumed run. `start` is called with it before the
    first step.
    """

    def __init__(self, optimizer: Optimizer, schedule: Schedule) -> None:
        self.schedule = schedule
        self.total_steps: int | None = None
        # a function, which torch leaves out of the state: the total may change on resume
        super().__init__(optimizer, lambda step: self._factor(step))

    def _factor(self, step: int) -> float:
        return 1.0 if self.total_steps is None else self.schedule.factor(step, self.total_steps)

    def start(self, total_steps: float, base_lrs: list[float]) -> None:
        """Set the run's total and the learning rates it is multiplied with.

        Args:
            total_steps: Optimizer steps of the whole run.
            base_lrs: One per parameter group.

        Raises:
            UserError: The run has no known end.
        """
        if not 0 < total_steps < math.inf:
            raise UserError(
                f"The schedule {type(self.schedule).__name__} needs a run of known length, but "
                "this one has none. Set trainer.max_epochs or trainer.max_steps (and give a "
                "streaming data set a length), or leave the schedule out."
            )
        self.total_steps = int(total_steps)
        self.base_lrs = list(base_lrs)
        factor = self._factor(self.last_epoch)
        for group, base in zip(self.optimizer.param_groups, base_lrs, strict=True):
            group["lr"] = base * factor
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        return {"last_epoch": self.last_epoch}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.last_epoch = state_dict["last_epoch"]
