"""Checks of gradients and activations per layer, after a few steps, with a picture."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from project.checks.outcome import Outcome, failed, passed, warning
from project.checks.subject import Subject
from project.checks.watching import each_module

VANISHING = 1e-4
"""A first layer whose gradient, relative to its weights, is so small against the last's."""

EXPLODING = 1e3
"""Activations that grow so much from the first layer to the last, or a gradient's norm."""

DEAD = 0.9
"""Share of a layer's units that no sample switches on."""


@dataclass
class Layer:
    """What is known of a layer with weights, in the order in which they run.

    Args:
        name: Its name.
        activation: Standard deviation of its output.
        gradient: Root mean square of its weight's gradient, over that of the weight.
    """

    name: str
    activation: float
    gradient: float


def gradients(subject: Subject) -> Iterator[Outcome]:
    """Gradients neither vanish towards the first layer nor explode; nor do activations."""
    layers, norm = _measured(subject)
    if not layers:
        yield passed("no layer with weights is trained")
        return
    subject.facts["layer_statistics"] = [vars(layer) for layer in layers]
    subject.pictures["layers"] = picture(layers)
    first, last = layers[0], layers[-1]
    told = f"gradient over weight {first.gradient:.2g} in {first.name}, {last.gradient:.2g} in "
    told += f"{last.name}; norm {norm:.3g}"
    still = [(each.name, "") for each in layers if each.gradient == 0]
    grown = last.activation / max(layers[0].activation, 1e-12)
    largest = max(each.activation for each in layers)
    if first.gradient < VANISHING * last.gradient:
        advice = "ReLU in place of sigmoid and tanh, normalisation, residual connections, "
        advice += "initialisation by activation (project.models.initialization)."
        yield failed(f"vanishing: {told}", advice, items=_smallest(layers))
    elif norm > EXPLODING or max(grown, largest / max(first.activation, 1e-12)) > EXPLODING:
        advice = "Initialisation by activation, normalisation, --clipping.max_norm 1.0."
        told += f"; activations up to {largest:.3g}"
        yield failed(f"exploding: {told}", advice, items=_largest(layers))
    elif still:
        yield warning("layers whose gradient is 0", "Nothing of them is learnt.", items=still)
    else:
        yield passed(told)


def dead_units(subject: Subject) -> Iterator[Outcome]:
    """ReLUs are switched on by some samples."""
    task = subject.task()
    batch = subject.batch(subject.affordable(min(64, subject.size("train"))))
    with torch.no_grad(), Rectifiers(task.network) as rectifiers:
        task.loss_and_predictions(batch)
    dead = [(name, f"{share:.0%} of its units") for name, share in rectifiers.dead if share >= DEAD]
    if dead:
        advice = (
            "Look at the bias and the weights of the layer before, and lower the learning rate; "
        )
        advice += "nn.LeakyReLU or nn.GELU can't die."
        yield failed("dead ReLUs: 0 for every sample", advice, items=dead)
    elif rectifiers.dead:
        worst = max(share for _, share in rectifiers.dead)
        yield passed(
            f"{len(rectifiers.dead)} ReLUs, at most {worst:.0%} of a layer's units are dead"
        )
    else:
        yield passed("the network has no ReLU")


def symmetry(subject: Subject) -> Iterator[Outcome]:
    """Units of a layer differ, else they stay alike for ever."""
    alike = []
    for name, module in subject.original.network.named_modules(prefix="network"):
        weight = getattr(module, "weight", None)
        if not isinstance(module, nn.Linear | nn.Conv1d | nn.Conv2d) or not isinstance(
            weight, Tensor
        ):
            continue
        rows = weight.detach().flatten(1)
        if len(rows) > 1 and rows.abs().max() > 0 and (rows == rows[:1]).all():
            alike.append((name, f"all {len(rows)} units have the same weights"))
    if alike:
        yield failed("units that can't become different", "Draw weights at random.", items=alike)
    else:
        yield passed("units of a layer start from different weights")


def picture(layers: list[Layer]) -> Figure:
    """Gradient and activation of each layer, from the input to the output."""
    figure = Figure(figsize=(8, 2.0 + 0.22 * len(layers)), layout="constrained")
    rows = range(len(layers))
    left, right = figure.subplots(1, 2, sharey=True)
    left.barh(rows, [max(each.gradient, 1e-12) for each in layers])
    left.set(xscale="log", xlabel="gradient / weight (rms)")
    left.set_yticks(rows, [each.name.removeprefix("network.") for each in layers], fontsize=7)
    left.invert_yaxis()
    right.barh(rows, [each.activation for each in layers], color="tab:orange")
    right.set(xlabel="standard deviation of the output")
    for axes in (left, right):
        axes.grid(axis="x", alpha=0.3)
    return figure


class Rectifiers(TorchFunctionMode):
    """Keeps, of each ReLU, which share of its units is 0 for every sample.

    Args:
        network: Whose modules give the names.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.dead: list[tuple[str, float]] = []
        self._running: list[str] = ["network"]
        for name, module in network.named_modules(prefix="network"):
            module.register_forward_pre_hook(self._enters(name))
            module.register_forward_hook(self._leaves)

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") in ("relu", "relu_") and isinstance(result, Tensor):
            self._keep(result)
        return result

    def _keep(self, result: Tensor) -> None:
        if self.dead and self.dead[-1][0] == self._running[-1] and result.ndim < 2:
            return
        units = result.transpose(0, 1).flatten(1) if result.ndim > 2 else result.T  # [C, …]
        share = float((units <= 0).all(dim=1).float().mean()) if result.ndim > 1 else 0.0
        self.dead.append((self._running[-1], share))

    def _enters(self, name: str) -> Any:
        return lambda module, inputs: self._running.append(name)

    def _leaves(self, module: nn.Module, inputs: Any, output: Any) -> None:
        self._running.pop()


def _measured(subject: Subject) -> tuple[list[Layer], float]:
    task = subject.trained()
    batch = subject.batch(subject.affordable(min(32, subject.size("train"))))
    spreads: dict[str, float] = {}

    def keep(name: str, module: nn.Module, given: Any, output: Any) -> None:
        tensors = [x for x in tree_leaves(output) if isinstance(x, Tensor)]
        if tensors and tensors[0].is_floating_point() and tensors[0].numel() > 1:
            spreads.setdefault(name, float(tensors[0].detach().float().std()))

    task.zero_grad()
    with each_module(task.network, keep, leaves=True):
        loss, _ = task.loss_and_predictions(batch)
    loss.backward()
    grads = [p.grad for p in task.network.parameters() if p.grad is not None]
    norm = float(torch.nn.utils.get_total_norm(grads))
    layers = []
    for name, spread in spreads.items():
        weight = getattr(task.network.get_submodule(name[8:]), "weight", None)
        if isinstance(weight, Tensor) and weight.grad is not None and weight.ndim > 1:
            size = _rms(weight.detach())
            layers.append(Layer(name, spread, _rms(weight.grad) / max(size, 1e-12)))
    return layers, norm


def _rms(tensor: Tensor) -> float:
    return float(tensor.double().square().mean().sqrt())


def _smallest(layers: list[Layer]) -> list[tuple[str, str]]:
    chosen = sorted(layers, key=lambda each: each.gradient)[:3]
    return [(each.name, f"{each.gradient:.2g}") for each in chosen]


def _largest(layers: list[Layer]) -> list[tuple[str, str]]:
    chosen = sorted(layers, key=lambda each: -each.activation)[:3]
    return [(each.name, f"output's std {each.activation:.2g}") for each in chosen]
