"""The part of a task's training that is about steps: their rates, and windows of batches."""

import math
import warnings
from typing import TYPE_CHECKING, Any

import lightning as L
import torch
from torch import Tensor
from torch.optim import Optimizer

from project.optim import Plateau, Scheduler

if TYPE_CHECKING:
    from project.tasks.task import Task

HIGH_RATE_OF_ADAM = 1e-2
"""Adam moves every weight by about its learning rate at first, whatever the gradient's size."""


def settings(group: dict[str, Any]) -> dict[str, Any]:
    """What a parameter group was configured with."""
    return {k: v for k, v in group.items() if k not in ("params", "initial_lr")}


def warn_of_high_rate(optimizer: Optimizer) -> None:
    """Say so when a learning rate is one that Adam seldom bears."""
    name, rate = type(optimizer).__name__, max(group["lr"] for group in optimizer.param_groups)
    if "Adam" in name and rate >= HIGH_RATE_OF_ADAM:
        warnings.warn(
            f"model.optimizer.lr is {rate:g}, which is high for {name}: a loss that jumps or grows "
            "is to be expected. Usual are 1e-4 to 3e-3.",
            stacklevel=2,
        )


def apply_settings(task: "Task", optimizer: Optimizer) -> None:
    """What the config has changed beats what a resumed optimizer's state brought with it.

    What it has not changed stays as it was, also where a callback has moved it since.
    """
    groups = zip(
        optimizer.param_groups, task.settings_before, task.optimizer_settings, strict=False
    )
    for number, (group, before, now) in enumerate(groups):
        changed = {k: v for k, v in now.items() if before.get(k) != v}
        for name, value in changed.items():
            task.print(f"optimizer group {number}: {name} {before.get(name)} → {value}")
        group.update(changed)
        if "initial_lr" in group:
            group["initial_lr"] = now["lr"]


def start_schedule(task: "Task") -> None:
    """Tell the schedule how long the run is; not earlier, for counting steps needs the loaders."""
    scheduler, trainer = task.lr_schedulers(), task.trainer
    if not isinstance(scheduler, Scheduler):
        return
    if isinstance(scheduler.schedule, Plateau):
        scheduler.schedule.check(task.best_is, _num_val_batches(trainer))
    per_epoch = trainer.num_training_batches / trainer.accumulate_grad_batches
    told = scheduler.start(
        trainer.estimated_stepping_batches,
        [of_group["lr"] for of_group in task.optimizer_settings],
        math.ceil(per_epoch) if per_epoch < math.inf else per_epoch,
    )
    if told:
        task.print(told)


def show_validation(task: "Task", values: dict[str, Tensor]) -> None:
    """Show a plateau's schedule what a validation within the training gave."""
    scheduler = task.lr_schedulers()
    if isinstance(scheduler, Scheduler) and isinstance(scheduler.schedule, Plateau):
        monitor = scheduler.schedule.monitor
        if told := scheduler.see(float(values[monitor]), task.best_is[monitor]):
            task.print(told)


def ends_window(trainer: L.Trainer) -> bool:
    """Whether an optimizer step follows this batch: a full window, or the epoch's last batch."""
    done = trainer.fit_loop.epoch_loop.batch_progress.current.ready
    last = trainer.is_last_batch or done == trainer.num_training_batches
    return last or done % trainer.accumulate_grad_batches == 0


def mean_over_processes(task: "Task", value: Tensor | float) -> Tensor | float:
    """A number averaged over all processes; with one, the number itself."""
    if task.trainer.world_size == 1:
        return value
    value = torch.as_tensor(value, dtype=torch.float32, device=task.device)
    return task.trainer.strategy.reduce(value, reduce_op="mean")


def _num_val_batches(trainer: L.Trainer) -> float:
    """Batches of a validation; infinite where they are not known before the first one."""
    if not trainer.enable_validation:
        return 0
    return sum(trainer.num_val_batches) if trainer.val_dataloaders is not None else math.inf
