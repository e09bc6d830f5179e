"""Checks of what an output must not depend on in evaluation: chance, batch mates, padding."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.utils._pytree import tree_leaves

from project.batches import VARIABLE, Batch, batch_size
from project.checks.outcome import Outcome, failed, passed, skipped, warning
from project.checks.steps import picked
from project.checks.subject import Subject
from project.checks.watching import close, first_difference, outputs_of
from project.randomness import seed_all
from project.tasks import Task

MORE = 3
"""Positions by which a batch is padded further."""


def modes(subject: Subject) -> Iterator[Outcome]:
    """`eval()` reaches every module, and nothing draws random numbers after it."""
    task = subject.task()
    task.train()
    task.eval()
    stuck = [(f"network.{name}" if name else "network", type(module).__name__)
             for name, module in task.network.named_modules()
             if module.training and not isinstance(module, nn.ModuleList)]  # fmt: skip
    if stuck:
        advice = "A train() of its own must pass the mode on: super().train(mode)."
        stuck = [(n, k) for n, k in stuck if _matters(task.network.get_submodule(n[8:]))] or stuck
        yield failed("modules stay in training mode after eval()", advice, items=stuck)
        return
    batch = subject.batch(4)
    seed_all(1)
    first = outputs_of(task.network, batch["inputs"])
    seed_all(2)
    where = first_difference(first, outputs_of(task.network, batch["inputs"]))
    if where:
        advice = "F.dropout(x, p, self.training), or nn.Dropout; noise only if self.training."
        yield failed(f"in evaluation mode {where} gives another output each time", advice)
    else:
        yield passed("evaluation mode reaches every module, and draws nothing")


def batch_mates(subject: Subject) -> Iterator[Outcome]:
    """A sample's output in evaluation does not depend on what else is in its batch."""
    batch = subject.batch(4)
    if batch_size(batch) < 3:
        yield skipped("fewer than three samples")
        return
    task = _evaluated(subject)
    if not _is_repeatable(task, batch):
        yield skipped("the network draws random numbers in evaluation")
        return
    first = outputs_of(task.network, picked(batch, [0, 1])["inputs"])
    second = outputs_of(task.network, picked(batch, [0, 2])["inputs"])
    last = len(first[-1][1])
    if last != 2 or close(first[-1][1][:1], second[-1][1][:1]):
        yield passed("a sample's output is its own")
        return
    where = first_difference(first, second, rows=1)
    advice = "Look there for a mean, norm or reshape over the batch dimension."
    yield failed(f"a sample's output depends on its batch mates, first in {where}", advice)


def padding(subject: Subject) -> Iterator[Outcome]:
    """More padding changes nothing."""
    batch = subject.batch(4)
    mask = batch["inputs"].get("padding")
    if mask is None:
        return
    task = _evaluated(subject)
    wider: dict[str, Tensor] = {}
    for name, tensor in batch["inputs"].items():
        wider[name] = _padded(name, tensor) if name in (*VARIABLE, "padding") else tensor
    try:
        with torch.no_grad():
            a, b = _row_wise(task, batch["inputs"]), _row_wise(task, wider)
    except RuntimeError as error:
        advice = "Make no assumption about the length of a batch."
        yield warning(f"the network fails on a longer batch: {str(error)[:80]}", advice)
        return
    if a.ndim > 2 and a.shape[1] != b.shape[1]:
        b = b[:, : a.shape[1]]  # an output for each position
    if close(a, b):
        yield passed(f"{MORE} more padded positions change nothing")
    else:
        advice = "Mask before pooling, attention and normalisation (masked_fill, lengths), and "
        advice += "mind that padding is True where padded."
        gap = float((a - b).abs().max())
        yield failed(f"the output changes by up to {gap:.2g} with more padding", advice)


def loss_per_sample(subject: Subject) -> Iterator[Outcome]:
    """The loss of a batch is the mean of its samples' losses, each on its own."""
    batch = subject.batch(4)
    task = _evaluated(subject)
    if not _is_repeatable(task, batch):
        yield skipped("the network draws random numbers in evaluation")
        return
    ones = [picked(batch, [n]) for n in range(batch_size(batch))]
    with torch.no_grad():
        whole = float(task.loss_and_predictions(batch)[0])
        losses = [float(task.loss_and_predictions(one)[0]) for one in ones]
        weights = [float(task.loss_weight(one)) for one in ones]
    mean = sum(a * b for a, b in zip(losses, weights, strict=True)) / max(sum(weights), 1e-12)
    if abs(whole - mean) <= 1e-2 * max(abs(whole), abs(mean), 1e-6):
        yield passed("the loss is the mean over the samples")
        return
    told = f"the loss of {len(ones)} samples is {whole:.4g}, the mean of each alone {mean:.4g}"
    if abs(whole - mean * len(ones)) <= 1e-2 * abs(whole):
        advice = "reduction='mean': with a sum the learning rate grows with the batch."
        yield warning(f"{told}: it is a sum", advice)
    else:
        advice = "Compare the shapes of output and target: [B, 1] against [B] becomes [B, B]. Or a "
        advice += "loss over pairs of samples, which is as it must be."
        yield warning(told, advice, "X3")


def uses_inputs(subject: Subject) -> Iterator[Outcome]:
    """Every input matters: another sample's in its place changes the output."""
    batch = subject.batch(8)
    task = subject.trained().eval()
    inputs = batch["inputs"]
    if batch_size(batch) < 2 or not _is_repeatable(task, batch):
        yield skipped("a single sample, or randomness in evaluation")
        return
    ignored = []
    names = [name for name in inputs if name != "padding"]
    with torch.no_grad():
        usual = _row_wise(task, inputs)
        for name in names:
            moved = {name, "padding"} if name in VARIABLE else {name}
            other = {n: t.roll(1, 0) if n in moved else t for n, t in inputs.items()}
            if torch.equal(other[name], inputs[name]):
                continue
            if torch.equal(usual, _row_wise(task, other)):
                ignored.append((name, ""))
    if len(ignored) == len(names):
        advice = "Look for a dead activation, a weight that is 0, or an output that is a parameter."
        yield failed("the output is the same for every sample", advice, "X3")
    elif ignored:
        advice = "Look at forward: what it is joined with, and which name is used twice."
        yield failed("an input that changes nothing", advice, "X3", ignored)
    else:
        yield passed(f"the output depends on {', '.join(names)}")


def _evaluated(subject: Subject) -> Task:
    task = subject.task()
    task.eval()
    return task


def _is_repeatable(task: Task, batch: Batch) -> bool:
    outputs = []
    for seed in (1, 2):
        seed_all(seed)
        with torch.no_grad():
            outputs.append(_row_wise(task, batch["inputs"]))
    return close(outputs[0], outputs[1])


def _row_wise(task: Task, inputs: dict[str, Tensor]) -> Tensor:
    """The network's first output tensor; of boxes, all numbers in a row."""
    output: Any = task(**inputs)
    tensors = [x for x in tree_leaves(output) if isinstance(x, Tensor)]
    same = [x for x in tensors if x.ndim and len(x) == len(next(iter(inputs.values())))]
    return same[0] if same else torch.cat([x.flatten().float() for x in tensors])


def _padded(name: str, tensor: Tensor) -> Tensor:
    more = list(tensor.shape)
    more[1] = MORE
    filler = tensor.new_ones(more) if name == "padding" else tensor.new_zeros(more)
    return torch.cat([tensor, filler], dim=1)


def _matters(module: nn.Module) -> bool:
    return isinstance(module, _BatchNorm | _DropoutNd)
