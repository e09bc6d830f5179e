"""Checks of the network on two samples on the CPU: does a step go through, and reach everything?"""

import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from project import doctor
from project.checks.outcome import Outcome, failed, passed, warning
from project.checks.steps import optimizer_of
from project.checks.subject import Subject
from project.checks.watching import DeviceMix, InPlaceOperations, OneDevice, each_module
from project.doctor.scene import is_library
from project.tasks import Task

PAIR = 2


def step(subject: Subject) -> Iterator[Outcome]:
    """Two samples go forward, and their loss backward."""
    task, batch = subject.task(), subject.batch(PAIR)
    versions = {name: tensor._version for name, tensor in batch["inputs"].items()}
    with InPlaceOperations() as in_place:
        try:
            loss, _ = task.loss_and_predictions(batch)
        except Exception as error:  # whatever the network raises is what is looked for
            cause, advice = doctor.described(error)
            subject.forward_error = cause
            advice = advice or "Run it on two samples in a debugger."
            yield failed(f"the forward pass fails: {cause.rstrip('.')}", advice)
            return
    yield from _loss_shape(subject, loss)
    if subject.forward_error:
        return
    written = [n for n, t in batch["inputs"].items() if t._version > versions[n]]
    if written:
        yield failed(f"forward writes into its input {written[0]}", "Work on a copy.", "X11")
    if not loss.requires_grad:
        subject.forward_error = "the loss has no gradient"
        yield _detached(subject)
        return
    try:
        loss.backward()
    except RuntimeError as error:
        cause, advice = doctor.described(error)
        subject.forward_error = cause
        done = [(o.line, f"{o.function} on {list(o.shape)}") for o in in_place.found]
        yield failed(f"the backward pass fails: {cause.rstrip('.')}", advice, "X11", done)
        return
    yield passed(f"two samples go forward and backward, loss {loss.item():.4g}")


def layers(subject: Subject) -> Iterator[Outcome]:
    """A table of every layer's input and output shapes and parameters."""
    task, batch = subject.task(), subject.batch(PAIR)
    rows: list[dict[str, Any]] = []

    def keep(name: str, module: nn.Module, given: Any, output: Any) -> None:
        own = list(module.parameters(recurse=not any(True for _ in module.children())))
        rows.append(
            {
                "layer": name,
                "type": type(module).__name__,
                "inputs": _shapes(given),
                "outputs": _shapes(output),
                "parameters": sum(p.numel() for p in own),
                "trained": sum(p.numel() for p in own if p.requires_grad),
            }
        )

    with torch.no_grad(), each_module(task.network, keep, leaves=True):
        task.loss_and_predictions(batch)
    if rows:
        subject.facts["layers"] = rows
    total = sum(p.numel() for p in task.network.parameters())
    yield passed(f"{len(rows)} layers, {total:,} parameters; shapes in layers.csv")


def hidden(subject: Subject) -> Iterator[Outcome]:
    """No module or parameter is in a plain list, dict or tuple, and no tensor a plain attribute."""
    known = {id(m) for m in subject.original.modules()}
    known |= {id(t) for t in [*subject.original.parameters(), *subject.original.buffers()]}
    lost, still = [], []
    for path, module in subject.original.network.named_modules(prefix="network"):
        for name, value in vars(module).items():
            if name in _OWN:
                continue
            where = f"{path}.{name}"
            for each in _inside(value):
                if id(each) in known:
                    continue
                if isinstance(each, nn.Module | nn.Parameter):
                    kind = "a plain attribute" if each is value else f"a {type(value).__name__}"
                    lost.append((where, f"{type(each).__name__} in {kind}"))
                elif isinstance(each, Tensor) and not _is_of_library(module):
                    still.append((where, f"tensor {list(each.shape)}"))
    if lost:
        advice = "nn.ModuleList, nn.ModuleDict or nn.ParameterList: what they don't know is not "
        advice += "trained, not saved and not moved to the GPU."
        yield failed("modules or parameters hidden from the network", advice, items=lost)
    if still:
        advice = "self.register_buffer(name, tensor): else it stays on the CPU and is not saved."
        yield warning("tensors that are no buffers", advice, "M3", still)
    if not lost and not still:
        yield passed("all modules, parameters and tensors are registered")


def gradients(subject: Subject) -> Iterator[Outcome]:
    """Every parameter that is to be trained gets a gradient, and the optimizer has it."""
    task, batch = subject.task(), subject.batch(PAIR)
    named = dict(task.network.named_parameters(prefix="network"))
    wanted = {name: p for name, p in named.items() if p.requires_grad}
    share = sum(p.numel() for p in wanted.values()) / max(1, sum(p.numel() for p in named.values()))
    if not wanted:
        yield failed(
            "all parameters are frozen", "Unfreeze a part, or look at requires_grad.", "M6"
        )
        return
    task.loss_and_predictions(batch)[0].backward()
    without = [(name, str(list(p.shape))) for name, p in wanted.items() if p.grad is None]
    if without:
        advice = "Use it in forward, remove it, or look for .detach(), .data, no_grad on its way."
        cut = _cut(subject)
        told = f"; the graph is cut {cut}" if cut else ""
        yield warning(f"parameters that get no gradient{told}", advice, items=without)
    held = {id(p) for group in optimizer_of(task).param_groups for p in group["params"]}
    missing = [(name, str(list(p.shape))) for name, p in wanted.items() if id(p) not in held]
    if missing:
        advice = "Give it all of self.network.parameters()."
        yield failed("parameters that the optimizer does not have", advice, items=missing)
    if not without and not missing:
        yield passed(f"gradients reach all {len(wanted)} trained parameters, {share:.0%} of all")


def devices(subject: Subject) -> Iterator[Outcome]:
    """Nothing in the network stays behind when it is moved to another device.

    On the CPU alone this is tried with torch's `meta` device, which computes shapes only.
    """
    task, batch = subject.task(), subject.batch(PAIR)
    network = task.network.to("meta").eval()
    inputs = {name: tensor.to("meta") for name, tensor in batch["inputs"].items()}
    advice = "In forward, make tensors with device=inputs.device; register others as buffers."
    try:
        with torch.no_grad(), OneDevice("meta"):
            network(**inputs)
    except DeviceMix as mix:
        yield failed(f"a tensor stays on the CPU when the network moves: in {mix}", advice)
        return
    except Exception as error:  # what looks at values can't be tried without them
        words = str(error).strip().splitlines() or [type(error).__name__]
        if "is not on the expected device" in words[0] or "two devices" in words[0]:
            yield failed(f"a tensor stays on the CPU: {doctor.described(error)[0]}", advice)
        else:
            yield passed(f"moves to another device as far as it can be told ({words[0][:60]})")
        return
    yield passed("the whole network moves to another device")


def _loss_shape(subject: Subject, loss: Any) -> Iterator[Outcome]:
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        found = list(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
        subject.forward_error = "the loss is not one number"
        yield failed(
            f"the loss is {found}, not one number", "Take its mean over the samples.", "X3"
        )


def _detached(subject: Subject) -> Outcome:
    cut = _cut(subject)
    frozen = not any(p.requires_grad for p in subject.original.network.parameters())
    if frozen:
        return failed("all parameters are frozen", "Unfreeze a part of the network.", "M6")
    where = cut or f"in {type(subject.original).__name__}.loss_and_predictions, after the network"
    return failed(
        f"the loss has no gradient: the graph is cut {where}",
        "Look there for .detach(), .data, .item(), no_grad, argmax or NumPy.",
    )


def _cut(subject: Subject) -> str:
    """After which module the gradient's computation ends, in words; empty if it does not."""
    task, batch = subject.task(), subject.batch(PAIR)
    found: list[str] = []

    def look(name: str, module: nn.Module, given: Any, output: Any) -> None:
        comes = [x for x in tree_leaves(given) if isinstance(x, Tensor) and x.requires_grad]
        learns = any(p.requires_grad for p in module.parameters())
        goes = [x for x in tree_leaves(output) if isinstance(x, Tensor)]
        if (comes or learns) and goes and not any(x.requires_grad for x in goes):
            found.append(f"in {name} ({type(module).__name__})")

    with each_module(task.network, look):
        task.loss_and_predictions(batch)
    if found:
        return found[0]
    return _gap(task, batch)


def _gap(task: Task, batch: Any) -> str:
    """Between which two modules, where neither is to blame."""
    before, found = "", []

    def look(name: str, module: nn.Module, given: Any, output: Any) -> None:
        nonlocal before
        comes = [x for x in tree_leaves(given) if isinstance(x, Tensor) and x.is_floating_point()]
        if before and comes and not any(x.requires_grad for x in comes):
            found.append(f"between {before} and {name}")
        if any(isinstance(x, Tensor) and x.requires_grad for x in tree_leaves(output)):
            before = name

    with each_module(task.network, look, leaves=True):
        task.loss_and_predictions(batch)
    return found[0] if found else ""


def _is_of_library(module: nn.Module) -> bool:
    """Whether a module's class is an installed package's, which minds its own tensors."""
    return is_library(sys.modules[type(module).__module__].__file__ or "")


_OWN = frozenset(vars(nn.Module()))


def _inside(value: Any, depth: int = 0) -> Iterator[Any]:
    """Modules and tensors in a value, and in plain containers of it."""
    if isinstance(value, nn.Module | Tensor):
        yield value
    elif isinstance(value, dict) and depth < 3:
        for each in value.values():
            yield from _inside(each, depth + 1)
    elif isinstance(value, list | tuple | set) and depth < 3:
        for each in value:
            yield from _inside(each, depth + 1)


def _shapes(value: Any) -> str:
    return ", ".join(str(list(x.shape)) for x in tree_leaves(value) if isinstance(x, Tensor))
