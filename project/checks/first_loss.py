"""Checks of the loss before training: near that of a guess, on outputs the loss is made for."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from project.batches import Batch
from project.checks.outcome import Outcome, failed, passed, skipped, warning
from project.checks.subject import Subject
from project.checks.watching import LossCall, Losses, each_module
from project.tasks import Task

TIMES = 2.5
"""A first loss so many times that of a guess is said."""

LARGE = 20.0
SMALL = 0.05
"""Standard deviations of a target that a squared error can't live with."""


def first_loss(subject: Subject) -> Iterator[Outcome]:
    """The first loss is about that of a guess."""
    call, loss = _called(subject)
    if not math.isfinite(loss):
        yield failed(f"the first loss is {loss}", "Look at the range of inputs and weights.", "X8")
        return
    if call is None:
        yield passed(f"{loss:.4g}, finite; what a guess would give is not known of this loss")
        return
    own, guess, name = _compared(call)
    subject.facts["first_loss"] = {"loss": own, "guess": guess}
    told = f"{call.function} {own:.3g}, a guess gives {guess:.3g} ({name})"
    if loss < 0 and own > 0:
        yield failed(f"the loss is {loss:.3g}: its sign is turned", "Minimise, not maximise.")
    elif guess <= 0 or own <= TIMES * guess:
        yield passed(told)
    elif call.function in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
        yield _far_numbers(call, told)
    else:
        yield warning(
            f"{told}{_constant_class(call.inputs)}",
            "Initialise the last layer small and its bias 0 (project.models.initialization). It is "
            "as it must be where a trained head meets new data.",
        )


def target_scale(subject: Subject) -> Iterator[Outcome]:
    """Numbers to be predicted are about 1 in size where they reach the loss."""
    call, _ = _called(subject)
    if call is None or call.function not in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
        return
    target = call.target.double()
    std, mean = float(target.std()), float(target.mean())
    told = f"targets at the loss: mean {mean:.3g}, std {std:.3g}"
    if std > LARGE or abs(mean) > LARGE or (0 < std < SMALL):
        yield warning(
            f"{told}: not scaled",
            "Scale them with the training split's mean and std, and predictions back.",
            "D16",
        )
    else:
        yield passed(told, "D16")


def outputs(subject: Subject) -> Iterator[Outcome]:
    """What reaches the loss looks as the loss takes it: logits, and of the target's shape."""
    call, _ = _called(subject)
    if call is None:
        yield skipped("this loss is not known")
        return
    inputs = call.inputs.float()
    if call.function in ("cross_entropy", "binary_cross_entropy_with_logits"):
        yield _of_logits(subject, call, inputs)
    elif inputs.shape != call.target.shape:
        yield failed(
            f"{call.function} compares {list(inputs.shape)} with {list(call.target.shape)}: every "
            "output meets every target",
            "Bring both to one shape (squeeze(-1)).",
        )
    elif (inputs >= 0).all() and (inputs == 0).float().mean() > 0.1 and (call.target < 0).any():
        yield failed(
            "outputs are never below 0, targets are: a ReLU at the end",
            "The last layer of a regression has no activation.",
        )
    elif inputs.abs().max() <= 1 < call.target.abs().max() and _stays_within(subject, -1, 1):
        yield failed(
            "outputs stay within -1 and 1, targets do not: a tanh or sigmoid at the end",
            "The last layer of a regression has no activation.",
        )
    else:
        yield passed(f"{call.function} on {list(inputs.shape)}")


def _of_logits(subject: Subject, call: LossCall, inputs: Tensor) -> Outcome:
    advice = "Give the loss the last layer's output; the softmax is inside of it."
    sums = inputs.sum(dim=1) if inputs.ndim > 1 else inputs
    if inputs.isnan().any():
        return failed("outputs are NaN", "See model.step.", "X8")
    if (inputs >= 0).all() and call.function == "cross_entropy" and torch.allclose(
        sums, torch.ones_like(sums), atol=1e-3
    ):  # fmt: skip
        return failed("outputs are probabilities (each row sums to 1): softmax twice", advice)
    if (inputs >= 0).all() and (inputs == 0).float().mean() > 0.1 and inputs.max() > 0:
        return failed("outputs are never below 0: a ReLU before the loss", advice)
    if (inputs >= 0).all() and (inputs <= 1).all() and _stays_within(subject, 0, 1):
        return failed("outputs lie within 0 and 1: a sigmoid before the loss", advice)
    if inputs.abs().max() <= 1 and _stays_within(subject, -1, 1):
        return failed("outputs lie within -1 and 1: a tanh before the loss", advice)
    return passed(f"logits from {inputs.min():.3g} to {inputs.max():.3g}")


def _called(subject: Subject) -> tuple[LossCall | None, float]:
    """The last call of a known loss function on a batch, and the task's loss."""
    task = subject.task()
    batch = subject.batch(min(16, subject.size("train")))
    with torch.no_grad(), Losses() as losses:
        loss, _ = task.loss_and_predictions(batch)
    # a loss of several known parts is not one of them
    return (losses.calls[0] if len(losses.calls) == 1 else None), float(loss)


def _compared(call: LossCall) -> tuple[float, float, str]:
    """The plain loss of a call, that of a guess, and what the guess is."""
    inputs, target = call.inputs.float(), call.target
    if call.function in ("cross_entropy", "nll_loss"):
        classes = inputs.shape[1]
        function = F.cross_entropy if call.function == "cross_entropy" else F.nll_loss
        ignored = {k: v for k, v in call.settings.items() if k == "ignore_index"}
        own = float(function(inputs, target, **ignored))
        return own, math.log(classes), f"ln {classes}"
    if call.function.startswith("binary_cross_entropy"):
        own = float(getattr(F, call.function)(inputs, target.float()))
        return own, math.log(2), "ln 2"
    own = float(getattr(F, call.function)(inputs, target.expand_as(inputs)
                if target.numel() == inputs.numel() else target))  # fmt: skip
    centre = target.float().mean(dim=0, keepdim=True).expand_as(target)
    return own, float(getattr(F, call.function)(centre, target.float())), "the mean"


def _far_numbers(call: LossCall, told: str) -> Outcome:
    spread = float(call.inputs.float().std())
    advice = "Initialise the last layer small, and scale the targets."
    return warning(f"{told}; outputs have std {spread:.3g}", advice)


def _constant_class(logits: Tensor) -> str:
    if logits.ndim < 2:
        return ""
    winners = logits.argmax(dim=1).flatten()
    common = int(winners.mode().values)
    share = float((winners == common).float().mean())
    lead = float((logits.amax(dim=1) - logits.mean(dim=1)).mean())
    if share > 0.99 and lead > 3:
        return f"; output {common} is the largest for every sample, by {lead:.2g}: a bias"
    return ""


def _last_parameters(task: Task, batch: Batch) -> list[nn.Parameter]:
    """Those of the layer that runs last."""
    ran: list[nn.Module] = []
    with each_module(task.network, lambda name, module, given, output: ran.append(module)):
        task(**batch["inputs"])
    weighted = [m for m in ran if isinstance(getattr(m, "weight", None), nn.Parameter)]
    return list(weighted[-1].parameters(recurse=False)) if weighted else []


def _stays_within(subject: Subject, low: float, high: float) -> bool:
    """Whether outputs stay in a range however large the last layer's weights are made.

    That tells an activation at the end from outputs which happen to be small or of one sign.
    """
    for factor in (1000.0, -1000.0):
        task, batch = subject.task(), subject.batch(4)
        task.eval()
        with torch.no_grad():
            for parameter in _last_parameters(task, batch):
                parameter.mul_(factor)
            output = task(**batch["inputs"])
        if not isinstance(output, Tensor) or output.min() < low or output.max() > high:
            return False
    return True
