"""Checks of the learning rate: usual for its optimizer, and where a range test finds it."""

import math
from collections.abc import Iterator

from matplotlib.figure import Figure
from torch.optim import SGD, Optimizer

from project.batches import Batch
from project.checks.outcome import Outcome, failed, passed, warning
from project.checks.steps import optimizer_of
from project.checks.subject import Subject
from project.randomness import combine, seed_all
from project.tasks import Task
from project.tasks.optimization import HIGH_RATE_OF_ADAM

LOWEST, HIGHEST = 1e-6, 10.0
RATES = 60
DIVERGED = 4.0
"""Times the lowest loss from which it has diverged."""

SMALL = 1e-7
LARGE_OF_SGD = 1.0
STRONG_DECAY = 1.0


def usual(subject: Subject) -> Iterator[Outcome]:
    """The learning rate is one that its optimizer bears, and weights don't decay at once."""
    optimizer = optimizer_of(subject.task())
    rates = [group["lr"] for group in optimizer.param_groups]
    name, rate = type(optimizer).__name__, max(rates)
    told = f"{name} at {rate:g}"
    decay = max((g.get("weight_decay") or 0.0) for g in optimizer.param_groups)
    if rate <= 0:
        yield failed(f"{told}: nothing is learnt", "Set --model.optimizer.lr.")
    elif "Adam" in name and rate >= HIGH_RATE_OF_ADAM:
        advice = "Usual are 1e-4 to 3e-3; if the loss jumps, lower it tenfold."
        yield warning(f"{told} is high", advice)
    elif isinstance(optimizer, SGD) and rate > LARGE_OF_SGD:
        yield warning(f"{told} is high", "Usual are 0.01 to 0.1 with momentum.")
    elif rate < SMALL:
        yield warning(f"{told} is so small that hardly anything is learnt", "See `tune --lr true`.")
    elif decay >= STRONG_DECAY or decay * rate > 0.05:
        advice = "Usual are 0 to 0.1: weights decay faster than they are learnt."
        yield warning(f"{told} with weight_decay {decay:g}", advice)
    else:
        yield passed(told)


def range_test(subject: Subject) -> Iterator[Outcome]:
    """Raise the rate from step to step: where does the loss fall fastest, where does it burst?"""
    rates, losses = tried(subject)
    if len(rates) < RATES // 2:
        yield passed(f"cut for want of time after {len(rates)} rates")
        return
    best, limit = suggestion(rates, losses)
    configured = max(g["lr"] for g in optimizer_of(subject.task()).param_groups)
    subject.facts["learning_rate"] = {
        "configured": configured,
        "suggestion": best,
        "diverges": limit,
        "rates": rates,
        "losses": losses,
    }
    subject.pictures["learning_rate"] = picture(rates, losses, best, configured)
    told = f"configured {configured:.2g}, the loss falls fastest near {best:.2g}"
    told += f", and bursts from {limit:.2g} on" if limit else ""
    if limit and configured > 2 * limit:
        yield warning(told, f"--model.optimizer.lr {best:.1g}", "T7")
    else:
        yield passed(told)


def tried(subject: Subject) -> tuple[list[float], list[float]]:
    """The rates, and the loss before the step with each, until it has diverged.

    All steps take the same batch, without augmentation, so that the curve is smooth.
    """
    task = subject.task()
    optimizer = optimizer_of(task)
    batch = subject.batch(subject.affordable(min(64, subject.size("train"))))
    rates: list[float] = []
    losses: list[float] = []
    for step in range(RATES):
        rate = LOWEST * (HIGHEST / LOWEST) ** (step / (RATES - 1))
        if not subject.has_time() or (losses and _has_burst(losses)):
            break
        loss = _step(task, optimizer, batch, rate, step)
        rates.append(rate)
        losses.append(loss)
        if not math.isfinite(loss):
            break
    return rates, losses


def suggestion(rates: list[float], losses: list[float]) -> tuple[float, float | None]:
    """The rate at which the smoothed loss falls fastest, and that from which it has diverged."""
    smooth = smoothed([x for x in losses if math.isfinite(x)])
    lowest = min(range(len(smooth)), key=smooth.__getitem__)
    slopes = (
        [smooth[n + 1] - smooth[n] for n in range(max(1, lowest))] if len(smooth) > 1 else [0.0]
    )
    steepest = min(range(len(slopes)), key=slopes.__getitem__)
    above = [n for n in range(lowest, len(smooth)) if smooth[n] > smooth[0] + abs(smooth[0])]
    limit = rates[above[0]] if above else None
    if limit is None and len(smooth) < len(losses):
        limit = rates[len(smooth)]
    return rates[steepest], limit


def smoothed(values: list[float], weight: float = 0.8) -> list[float]:
    """A running mean that forgets, without the bias of its beginning."""
    mean, found = 0.0, []
    for number, value in enumerate(values, 1):
        mean = weight * mean + (1 - weight) * value
        found.append(mean / (1 - weight**number))
    return found


def picture(rates: list[float], losses: list[float], best: float, configured: float) -> Figure:
    """The loss over the rates, with the suggested and the configured one."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    finite = [(r, x) for r, x in zip(rates, losses, strict=True) if math.isfinite(x)]
    axes.plot(*zip(*finite, strict=True), color="tab:blue", alpha=0.3, label="loss")
    axes.plot([r for r, _ in finite], smoothed([x for _, x in finite]), label="smoothed")
    axes.axvline(best, color="tab:green", linestyle=":", label=f"falls fastest: {best:.2g}")
    axes.axvline(configured, color="grey", linestyle="--", label=f"configured: {configured:.2g}")
    top = 2.0 * max(finite[0][1], 1e-12)
    axes.set(xscale="log", xlabel="learning rate", ylabel="loss", ylim=(None, top))
    axes.legend()
    axes.grid(alpha=0.3)
    return figure


def _has_burst(losses: list[float]) -> bool:
    smooth = smoothed(losses)
    return len(smooth) > 5 and smooth[-1] > DIVERGED * max(min(smooth), 1e-6) + abs(smooth[0])


def _step(task: Task, optimizer: Optimizer, batch: Batch, rate: float, step: int) -> float:
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("lr_factor", 1.0)
    seed_all(combine(step))
    loss, _ = task.loss_and_predictions(batch)
    optimizer.zero_grad()
    if loss.isfinite():
        loss.backward()
        optimizer.step()
    return loss.item()
