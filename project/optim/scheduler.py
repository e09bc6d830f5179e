"""Applies a schedule to an optimizer, also over a resume and to a run that was made longer."""

import math
from dataclasses import asdict
from typing import Any, Literal

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from project.errors import UserError
from project.optim.plateau import Plateau, Watched
from project.optim.schedules import Schedule

NEARLY_NOTHING = 1e-2
"""A share of the learning rate at which a network hardly changes."""


class Scheduler(LambdaLR):
    """Applies a schedule step by step; Lightning calls `step` after every optimizer step.

    The total is not known when this is made: counting the steps needs the loaders, and loaders
    made that early would lose the position of a resumed run. `start` is called with it before the
    first step.

    A run that is made longer does not climb back: past its warm-up, the rate stays at most what it
    was at the last step that was planned otherwise.
    """

    def __init__(self, optimizer: Optimizer, schedule: Schedule) -> None:
        self.schedule = schedule
        self.total_steps: float | None = None
        self.steps_per_epoch: float = 1
        self.watched = Watched()
        self.cap: float | None = None  # the largest factor, in a run that was made longer
        self._settings_before: dict[str, Any] | None = None
        # a function, which torch leaves out of the state: the total may change on resume
        super().__init__(optimizer, lambda step: self._factor(step))

    def _factor(self, step: int) -> float:
        if self.total_steps is None:
            return 1.0
        args = step, self.total_steps, self.steps_per_epoch
        factor = self.schedule.factor(*args)
        if self.cap is not None:  # nor is there a second warm-up
            factor = min(self.cap, self.schedule.after_warmup(*args))
        if isinstance(self.schedule, Plateau):
            factor *= self.schedule.lowered(self.watched)
        return factor

    def start(
        self, total_steps: float, base_lrs: list[float], steps_per_epoch: float = 1
    ) -> str | None:
        """Set the run's length and the learning rates that the factor is multiplied with.

        Args:
            total_steps: Optimizer steps of the whole run; infinite where it has no known end.
            base_lrs: One per parameter group.
            steps_per_epoch: Optimizer steps of an epoch.

        Returns:
            What happens to the rate of a run that was made longer, in words.

        Raises:
            UserError: The run has no known end, or its epochs none, and the schedule needs one.
        """
        self._check_length(total_steps, steps_per_epoch)
        planned, self.steps_per_epoch = self.total_steps, steps_per_epoch
        self.total_steps = int(total_steps) if 0 < total_steps < math.inf else math.inf
        told = self._extend(planned, max(base_lrs)) if planned not in (None, total_steps) else None
        self.base_lrs = list(base_lrs)
        self._apply()
        return told

    def see(self, value: float, best_is: Literal["min", "max"]) -> str | None:
        """Show a plateau's schedule what a validation gave; other schedules take no notice.

        Returns:
            That the rate was lowered, in words.
        """
        if not isinstance(self.schedule, Plateau):
            return None
        before, drops = max(self._last_lr), self.watched.drops
        self.watched = self.schedule.after(self.watched, value, best_is)
        if self.watched.drops == drops:
            return None
        self._apply()
        return (
            f"{self.schedule.monitor} has not become better than {self.watched.best}, "
            f"{self.schedule.patience + 1} times in a row: learning rate {before:.3g} → "
            f"{max(self._last_lr):.3g}"
        )

    def state_dict(self) -> dict[str, Any]:
        return {
            "last_epoch": self.last_epoch,
            "total_steps": self.total_steps,
            "cap": self.cap,
            "watched": asdict(self.watched),
            "settings": self.schedule.settings(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.last_epoch = state_dict["last_epoch"]
        # a checkpoint of an older version has no more than that
        self.total_steps = state_dict.get("total_steps")
        self.cap = state_dict.get("cap")
        self._settings_before = state_dict.get("settings")
        self.watched = Watched(**state_dict.get("watched", {}))

    def _apply(self) -> None:
        factor = self._factor(self.last_epoch)
        for group, base in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            group["lr"] = base * factor
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def _check_length(self, total_steps: float, steps_per_epoch: float) -> None:
        schedule, name = self.schedule, type(self.schedule).__name__
        needs_end = schedule.needs_end or schedule.warmup_fraction > 0
        if needs_end and not 0 < total_steps < math.inf:
            raise UserError(
                f"The schedule {name} needs a run of known length, but "
                "this one has none. Set trainer.max_epochs or trainer.max_steps (and give a "
                "streaming data set a length), or leave the schedule out."
            )
        by_epoch = schedule.per == "epoch" or getattr(schedule, "at_epochs", None)
        if by_epoch and not steps_per_epoch < math.inf:
            raise UserError(
                f"The schedule {name} goes by epochs, but an epoch of this data has no known "
                "length. Set trainer.limit_train_batches, or let the schedule go by steps."
            )

    def _extend(self, planned: float | None, base_lr: float) -> str | None:
        """Keep the rate from climbing when the run's length has changed."""
        done, now = self.last_epoch, self.total_steps
        assert planned is not None
        assert now is not None
        if done <= self.schedule.warmup_steps(planned):
            return None  # still warming up: nothing has fallen yet
        asked_anew = self._settings_before != self.schedule.settings()
        if asked_anew:
            self.cap = None  # another schedule was asked for: it is as if it had been the first
        # the factor of the last step, which is above 0 where the schedule ends at 0
        last = self.schedule.after_warmup(done - 1, planned, self.steps_per_epoch)
        self.cap = last if self.cap is None else min(self.cap, last)
        if self.schedule.after_warmup(done, now, self.steps_per_epoch) <= self.cap:
            return None
        told = (
            f"the run was planned with {planned:.0f} optimizer steps and now has {now:.0f}: its "
            f"learning rate {'goes on' if asked_anew else 'does not climb back, but stays'} at or "
            f"below {self.cap * base_lr:.3g}"
        )
        if done < planned:
            return f"{told} until {type(self.schedule).__name__} falls below that"
        if self.cap >= NEARLY_NOTHING or not hasattr(self.schedule, "final_fraction"):
            return told
        return (
            f"{told}, where {type(self.schedule).__name__} had ended. That is {self.cap:.2g} of "
            "the learning rate, so hardly anything will change. To train on, say what share of it "
            "the added epochs are to have: --model.schedule.final_fraction 0.1"
        )
