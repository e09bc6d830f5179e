"""Checks that training works: the loss falls, with augmentation too, and few samples are learnt."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from project.batches import Batch, batch_size
from project.checks.outcome import Outcome, failed, passed, skipped
from project.checks.steps import descend, loss_of, optimizer_of
from project.checks.subject import Subject
from project.tasks import Task
from project.tasks.tracing import first_not_finite

STEPS = 10
FALLS = 1e-4
"""Share of the first loss by which it must fall to count."""

AUGMENTED_STEPS = 30
SAMPLES = 50
LONGEST = 300
HOPELESS = 50
"""Steps after which another learning rate is tried if the loss has hardly fallen."""

LEARNT = 0.1
"""Share of the first loss that is left where samples are learnt by heart."""

GOOD = 0.9
"""Value of a metric between 0 and 1 from which they are, too."""


def falls(subject: Subject) -> Iterator[Outcome]:
    """A few steps on one batch, without augmentation, lower its loss."""
    batch = _small(subject)
    before, after, broken = _fallen(subject, batch)
    subject.facts["few_steps"] = {"before": before, "after": after, "steps": STEPS}
    told = f"loss {before:.4g} → {after:.4g} in {STEPS} steps on one batch"
    if broken:
        reason = "" if broken.startswith("the data") else _reason(subject, batch)
        advice = "Order to look in: data, learning rate, clipping, numerics."
        told = f"after a step or more not finite, first in {broken}{reason}"
        yield failed(told, advice, "X8")
    elif after < before - FALLS * abs(before):
        yield passed(told)
    else:
        advice = "One batch, always the same, without augmentation: no network should fail at that."
        yield failed(f"{told}: it does not fall{_reason(subject, batch)}", advice, "X4")


def falls_augmented(subject: Subject) -> Iterator[Outcome]:
    """With augmentation the loss of the same samples still falls."""
    indices = subject.indices("train", subject.affordable(min(32, subject.size("train"))))
    plain = subject.collated(subject.drawn("train", indices, augmented=False))
    epochs = range(AUGMENTED_STEPS)
    batches = []
    for epoch in epochs:
        if not subject.has_time():
            break
        samples = subject.drawn("train", indices, augmented=True, epoch=epoch)
        batches.append(subject.collated(samples))
    if len(batches) < STEPS or _is_same(batches[0], plain):
        yield passed("there is no augmentation" if batches else "there was no time for it")
        return
    augmented = _losses(subject, batches)
    without = _losses(subject, [plain] * len(augmented))[: len(augmented)]
    if min(len(without), len(augmented)) < STEPS:
        yield passed("there was no time to tell")
        return
    fallen = [_share(losses) for losses in (without, augmented)]
    told = f"in {len(augmented)} steps the loss fell by {fallen[0]:.0%} without augmentation, by "
    told += f"{fallen[1]:.0%} with it"
    if fallen[0] > 0.3 and fallen[1] < 0.15 * fallen[0]:
        advice = (
            "The augmentation destroys what the label says: look at augmented samples, and try "
        )
        advice += "--data.augmentation light or none."
        yield failed(told, advice)
    else:
        yield passed(told)


def overfits(subject: Subject) -> Iterator[Outcome]:
    """About 50 samples can be learnt by heart."""
    batch = subject.batch(subject.affordable(min(SAMPLES, subject.size("train"))))
    if batch_size(batch) < 4:
        yield skipped("fewer than four samples")
        return
    first = loss_of(subject.task(), batch)
    steps = loss = 0
    metric: tuple[str, float] | None = None
    for factor in (1.0, 0.1, 10.0):
        task = subject.task()
        steps, loss, metric = _learn(subject, task, batch, factor)
        if _is_learnt(first, loss, metric):
            break
        if not subject.has_time():
            break
    named = f", {metric[0]} {metric[1]:.3g}" if metric else ""
    told = f"{batch_size(batch)} samples: loss {first:.4g} → {loss:.4g}{named} in {steps} steps"
    subject.facts["overfit"] = {"before": first, "after": loss, "steps": steps}
    if _is_learnt(first, loss, metric):
        rate = "" if factor == 1 else f" (at {factor:g} times the learning rate)"
        yield passed(told + rate)
    elif steps < LONGEST and loss < 0.9 * first:
        yield passed(f"{told}; cut for want of time, still falling")
    else:
        advice = "Leave augmentation alone: look at the structure (capacity, a bottleneck, what "
        advice += "reaches the loss) and at the labels of these samples."
        yield failed(f"{told}: they can't be learnt by heart", advice)


def _small(subject: Subject) -> Batch:
    return subject.batch(subject.affordable(min(32, subject.size("train"))))


def _fallen(subject: Subject, batch: Batch, lr: float | None = None) -> tuple[float, float, str]:
    """The loss before and after a few steps in training mode, and what was not finite first."""
    task = subject.task()
    optimizer = optimizer_of(task, lr)
    before = loss_of(task, batch)
    descend(task, optimizer, [batch] * STEPS, seed=0, may_go_on=subject.has_time)
    after = loss_of(task, batch)  # with the same dropout as before
    if math.isfinite(after):
        return before, after, ""
    return before, after, first_not_finite(task, batch)[0] or "the loss"


def _reason(subject: Subject, batch: Batch) -> str:
    """Whether another learning rate helps, in words."""
    configured = max(g["lr"] for g in optimizer_of(subject.task()).param_groups)
    for rate in (configured / 10, configured / 100, 1e-3, 1e-2, configured * 10, 1e-1):
        if not subject.has_time():
            return ""
        before, after, broken = _fallen(subject, batch, rate)
        if not broken and after < before - 0.01 * abs(before):
            which = "large" if rate < configured else "small"
            return f"; at {rate:.3g} it does: the learning rate {configured:.3g} is too {which}"
    return "; nor at other learning rates: look at the structure, the loss and the labels"


def _losses(subject: Subject, batches: list[Batch]) -> list[float]:
    task = subject.task()
    return descend(task, optimizer_of(task), batches, seed=0, may_go_on=subject.has_time)


def _share(losses: list[float]) -> float:
    end = sum(losses[-3:]) / len(losses[-3:])
    return (losses[0] - end) / max(abs(losses[0]), 1e-12)


def _is_same(a: Batch, b: Batch) -> bool:
    pairs = ((a["inputs"][name], b["inputs"][name]) for name in a["inputs"])
    return all(x.shape == y.shape and torch.equal(x, y) for x, y in pairs)


def _learn(
    subject: Subject, task: Task, batch: Batch, factor: float
) -> tuple[int, float, tuple[str, float] | None]:
    """Train on one batch until it is learnt: steps, loss and metric in evaluation mode."""
    optimizer, first = optimizer_of(task, factor=factor), loss_of(task, batch)
    for group in optimizer.param_groups:
        group["weight_decay"] = 0.0  # it is there to keep a network from just this
    steps, loss, metric = 0, first, None
    while steps < LONGEST and subject.has_time():
        descend(task, optimizer, [batch] * STEPS, seed=steps, may_go_on=subject.has_time)
        steps += STEPS
        if steps % (5 * STEPS) == 0 or not subject.has_time():
            loss, metric = _measured(task, batch)
            if not math.isfinite(loss) or _is_learnt(first, loss, metric):
                break
            if steps >= HOPELESS and loss > 0.9 * first:
                break
    return steps, loss, metric


@torch.no_grad()
def _measured(task: Task, batch: Batch) -> tuple[float, tuple[str, float] | None]:
    """Loss and the first metric whose best is known, in evaluation mode; the modes are put back."""
    modes = {module: module.training for module in task.modules()}
    task.eval()
    loss, predictions = task.loss_and_predictions(batch)
    metric = None
    names = [name for name, best in task.best_is.items() if best == "max"]
    if names:
        task.val_metrics.reset()
        task.val_metrics.update(predictions, batch["target"])
        values: dict[str, Tensor] = task.val_metrics.compute()
        metric = names[0].removeprefix("val_"), float(values[names[0]])
        task.val_metrics.reset()
    for module, training in modes.items():
        module.training = training
    return float(loss), metric


def _is_learnt(first: float, loss: float, metric: tuple[str, float] | None) -> bool:
    return loss <= LEARNT * first or (metric is not None and metric[1] >= GOOD)
