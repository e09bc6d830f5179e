"""Parameter groups and learning-rate schedules.

A schedule is a factor on the learning rate, given per optimizer step. Its total is the run's real
number of optimizer steps, so that accumulation, limits and several processes count.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from project.errors import UserError


@dataclass(frozen=True)
class Part:
    """Parameters that are trained at a learning rate of their own.

    Args:
        name: What the part is called in `metrics.csv`, as `lr_<name>`.
        lr_factor: What the optimizer's learning rate is multiplied with.
        parameters: Names of its parameters; other names are ignored.
    """

    name: str
    lr_factor: float
    parameters: Collection[str]


def parameter_groups(network: nn.Module, parts: Sequence[Part] = ()) -> list[dict[str, Any]]:
    """Trainable parameters: weights, and biases and normalisation without decay, of each part.

    Weight decay pulls towards 0, which means something for weights that are multiplied with inputs;
    a bias or a normalisation's scale has nothing to gain from it. Those are the parameters with
    fewer than two dimensions.

    Args:
        network: What is trained.
        parts: Those with a learning rate of their own; of several with the same parameter, the
            first counts. All else comes first.

    Raises:
        UserError: No parameter is trainable.
    """
    trainable = {name: p for name, p in network.named_parameters() if p.requires_grad}
    if not trainable:
        raise UserError(
            f"No parameter of {type(network).__name__} is trainable (requires_grad is False "
            "everywhere), so there is nothing to train."
        )
    part_of = {name: part for part in reversed(parts) for name in part.parameters}
    groups: list[dict[str, Any]] = []
    for part in (None, *parts):
        own = [p for name, p in trainable.items() if part_of.get(name) is part]
        of_part = {"part": part.name, "lr_factor": part.lr_factor} if part else {}
        start = f"{part.name}." if part else ""
        weights, rest = [p for p in own if p.ndim >= 2], [p for p in own if p.ndim < 2]
        groups += [
            {"params": weights, "name": f"{start}weights", **of_part},
            {"params": rest, "name": f"{start}no_decay", "weight_decay": 0.0, **of_part},
        ]
    return [group for group in groups if group["params"]]


def check_same_groups(network: nn.Module, saved: Any, now: list[dict[str, Any]]) -> None:
    """Make sure that a checkpoint's optimizer state goes to the parameters it is about.

    Args:
        network: What is trained.
        saved: What `group_names` said when the checkpoint was written; None if it did not.
        now: The groups of this run.

    Raises:
        UserError: A parameter has come, gone or changed its group.
    """
    names = group_names(network, now)
    if saved is None or saved == names:
        return
    before = {name: group for group, members in saved.items() for name in members}
    here = {name: group for group, members in names.items() for name in members}
    changed = sorted(name for name in {*before, *here} if before.get(name) != here.get(name))
    name = changed[0] if changed else next(iter(here))
    raise UserError(
        f"The checkpoint's optimizer has other parameters than this run's: {len(changed)} differ, "
        f"such as {name}, which was in the group {before.get(name)!r} and is now in "
        f"{here.get(name)!r} (None: never trained). Go on with the run's own settings of freezing "
        "(freeze, unfreeze, lr_factors, batch_norm), or start a new run with --init_from."
    )


def group_names(network: nn.Module, groups: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The names of the parameters in each group, by the name of the group."""
    names = {parameter: name for name, parameter in network.named_parameters()}
    return {group["name"]: [names[p] for p in group["params"]] for group in groups}


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
