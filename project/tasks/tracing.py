"""Where a NaN or an infinity comes from: run a step again, and look at every module."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from project.batches import Batch, batch_size
from project.tasks.task import Task


def first_not_finite(task: Task, batch: Batch) -> tuple[str, list[int]]:
    """What is not finite first, in the order data → weights → modules as they run → loss.

    Runs the forward pass again, in the mode that the network is in; the caller sets the seeds.

    Args:
        task: Whose step it was.
        batch: The step's batch.

    Returns:
        It in words, empty if all is finite; and the positions in the batch of the samples it is
        about, empty where it is not about some of them.
    """
    for name, tensor in [*tensors_in(batch["inputs"], "inputs"), *targets_in(batch)]:
        if not all_finite(tensor):
            return f"the data: {name} has {count(tensor)}", samples_of(name, tensor, batch)
    for name, tensor in task.network.named_parameters():
        if not all_finite(tensor):
            return f"the weights: network.{name} has {count(tensor)}", []
    found: list[tuple[str, list[int]]] = []
    with torch.no_grad(), torch.compiler.set_stance("force_eager"):
        handles = [
            module.register_forward_hook(_watcher(f"network.{name}" if name else "network", found))
            for name, module in task.network.named_modules()
        ]
        try:
            loss, _ = task.loss_and_predictions(batch)
        finally:
            for handle in handles:
                handle.remove()
    if found:
        words, samples = found[0]
        return words, samples if len(samples) < batch_size(batch) else []
    if not all_finite(loss):
        return f"the loss: it is {loss.item()}, while all outputs of the network are finite", []
    return "", []


def first_gradient_not_finite(task: Task) -> str:
    """The parameter whose gradient is not finite, nearest to the loss; empty if there is none."""
    for name, parameter in reversed(list(task.network.named_parameters())):
        if parameter.grad is not None and not all_finite(parameter.grad):
            return (
                f"a gradient: that of network.{name} has {count(parameter.grad)}, while the "
                "forward pass is finite; nearer to the loss no gradient is not"
            )
    return ""


def tensors_in(value: Any, name: str) -> Iterator[tuple[str, Tensor]]:
    """All tensors in nested dictionaries and lists, with the way to them."""
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from tensors_in(inner, f"{name}.{key}")
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from tensors_in(inner, f"{name}[{number}]")


def targets_in(batch: Batch) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a batch's target."""
    yield from tensors_in(batch.get("target"), "target")


def all_finite(tensor: Tensor) -> bool:
    """Whether a tensor has neither NaN nor infinity."""
    return not tensor.is_floating_point() or bool(tensor.isfinite().all())


def count(tensor: Tensor) -> str:
    """How many values are not finite, in words."""
    nan, infinite = int(tensor.isnan().sum()), int(tensor.isinf().sum())
    words = [f"{nan:,} NaN"] * bool(nan) + [f"{infinite:,} infinite"] * bool(infinite)
    return f"{' and '.join(words)} of {tensor.numel():,} values"


def samples_of(name: str, tensor: Tensor, batch: Batch) -> list[int]:
    """Positions in the batch of the samples that a tensor's values are about."""
    if "[" in name:  # one of a list: a sample each
        return [int(name.rpartition("[")[2].partition("]")[0])]
    if tensor.ndim == 0 or len(tensor) != batch_size(batch):
        return []
    bad = ~tensor.isfinite().reshape(len(tensor), -1).all(dim=1)
    return bad.nonzero().flatten().tolist()


def _watcher(name: str, found: list[tuple[str, list[int]]]) -> Any:
    def watch(module: nn.Module, inputs: Any, output: Any) -> None:
        if found:
            return
        for _, tensor in tensors_in(output, name):
            if not all_finite(tensor):
                given = [t for _, t in tensors_in(inputs, "") if t.is_floating_point()]
                reached = max((float(t.abs().max()) for t in given if t.numel()), default=0.0)
                words = (
                    f"the output of {name} ({type(module).__name__}): {count(tensor)}; its inputs "
                    f"are finite, up to {reached:.3g}"
                )
                bad = ~tensor.isfinite().reshape(len(tensor), -1).all(dim=1) if tensor.ndim else []
                found.append((words, [n for n, each in enumerate(bad) if each]))
                return

    return watch
