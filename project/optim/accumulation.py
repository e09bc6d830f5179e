"""The gradient of an accumulation window is that of one big batch."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn


class Window:
    """Batches whose gradients are added up before an optimizer step.

    Dividing each loss by the number of batches is right only where all have the same weight and the
    window is complete. Here each loss counts by its weight (its samples, its tokens) against that
    of the window's first batch, and when the window ends the sum is put right: by 1 in the plain
    case, which therefore gives the same bits.

    The result is sum(w * g) / sum(w) over the batches, and over all processes.
    """

    def __init__(self) -> None:
        self.first: Tensor | float | None = None  # the weight that others are measured by
        self.total: Tensor | float = 0.0

    def weighted(
        self, loss: Tensor, weight: Tensor | float, mean_over_processes: Callable[[Any], Any]
    ) -> Tensor:
        """A batch's loss times its weight relative to the first one's.

        Args:
            loss: The batch's mean loss.
            weight: What it is the mean of, such as its number of samples.
            mean_over_processes: Averages a number over all processes.
        """
        if self.first is None:
            self.first, self.total = mean_over_processes(_above_zero(weight)), 0.0
        share = weight / self.first
        self.total = self.total + share
        return loss * share

    def close(
        self,
        parameters: Iterable[nn.Parameter],
        size: int,
        mean_over_processes: Callable[[Any], Any],
    ) -> None:
        """Put the gradients right at the window's end, and begin a new one.

        Args:
            parameters: With the window's gradients.
            size: Number of batches that every loss was divided by.
            mean_over_processes: Averages a number over all processes.
        """
        factor = size / _above_zero(mean_over_processes(self.total))
        self.first = None
        if isinstance(factor, float) and factor == 1:
            return
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.mul_(factor)

    def state_dict(self, module: nn.Module) -> dict[str, Any] | None:
        """An open window, with its gradients so far; None between windows."""
        if self.first is None:
            return None
        named = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
        return {"first": self.first, "total": self.total, "gradients": named}

    def load_state_dict(self, state_dict: dict[str, Any], module: nn.Module) -> None:
        """Go on within a window."""
        self.first, self.total = state_dict["first"], state_dict["total"]
        for name, gradient in state_dict["gradients"].items():
            parameter = module.get_parameter(name)
            parameter.grad = gradient.to(parameter.device)


def _above_zero(weight: Tensor | float) -> Tensor | float:
    """1 in the place of 0: a batch, or a window, with nothing in it has no gradient."""
    if isinstance(weight, Tensor):
        return torch.where(weight > 0, weight, torch.ones_like(weight))
    return weight or 1.0
