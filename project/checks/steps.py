"""Training steps of the checks, on copies."""

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor
from torch.optim import Optimizer

from project.batches import Batch
from project.randomness import combine, seed_all
from project.tasks import Task


def optimizer_of(task: Task, lr: float | None = None, factor: float = 1.0) -> Optimizer:
    """The optimizer that the task configures, at its full rate or another one.

    Args:
        task: The task, of which the optimizer gets the parameters.
        lr: The rate instead of the configured one.
        factor: What the rate is multiplied with.
    """
    made: Any = task.configure_optimizers()
    if isinstance(made, tuple):
        made = made[0]
    if isinstance(made, list):
        made = made[0]
    if isinstance(made, dict):
        made = made["optimizer"]
    for group in made.param_groups:
        base = group.get("initial_lr", group["lr"]) if lr is None else lr
        group["lr"] = float(base) * factor
    return made


def descend(
    task: Task,
    optimizer: Optimizer,
    batches: list[Batch],
    *,
    seed: int,
    may_go_on: Callable[[], bool] | None = None,
) -> list[float]:
    """Take a step per batch.

    Args:
        task: Changed by it, as is its optimizer.
        optimizer: Has the task's parameters.
        batches: One per step.
        seed: Of dropout and the like.
        may_go_on: Asked before every step but the first few.

    Returns:
        The loss before each step; it ends at the first that is not finite.
    """
    losses: list[float] = []
    for step, batch in enumerate(batches):
        if step > 3 and may_go_on is not None and not may_go_on():
            break
        seed_all(combine(seed, step))
        loss, _ = task.loss_and_predictions(batch)
        losses.append(loss.item())
        if not loss.isfinite():
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return losses


@torch.no_grad()
def loss_of(task: Task, batch: Batch, seed: int = 0) -> float:
    """The loss, in the mode that the task is in."""
    seed_all(seed)
    return task.loss_and_predictions(batch)[0].item()


def picked(batch: Batch, positions: list[int]) -> Batch:
    """The batch with these of its samples alone."""
    return cast(Batch, {name: _picked(value, positions) for name, value in batch.items()})


def _picked(value: Any, positions: list[int]) -> Any:
    if isinstance(value, Tensor):
        return value[positions]
    if isinstance(value, dict):
        return {name: _picked(inner, positions) for name, inner in value.items()}
    return [value[position] for position in positions]
