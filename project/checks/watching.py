"""Looking on while a network runs: which module, which operation, which loss."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from project.doctor.scene import is_library

Hook = Callable[[str, nn.Module, Any, Any], None]

LOSSES = (
    "cross_entropy",
    "nll_loss",
    "binary_cross_entropy_with_logits",
    "binary_cross_entropy",
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
)
"""Functions of torch.nn.functional that compare an input with a target."""


@contextmanager
def each_module(network: nn.Module, hook: Hook, *, leaves: bool = False) -> Generator[None]:
    """Call `hook(name, module, inputs, output)` after each module of a network has run.

    Args:
        network: The network.
        hook: What is called.
        leaves: Only modules that have none inside.
    """

    def of(name: str) -> Any:
        return lambda module, args, kwargs, output: hook(name, module, (args, kwargs), output)

    handles = [
        module.register_forward_hook(of(f"network.{name}" if name else "network"), with_kwargs=True)
        for name, module in network.named_modules()
        if not (leaves and any(module.children()))
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@dataclass
class LossCall:
    """One call of a loss function.

    Args:
        function: Its name.
        inputs: What the network's output has become by then.
        target: What it is compared with.
        settings: Further arguments by name.
    """

    function: str
    inputs: Tensor
    target: Tensor
    settings: dict[str, Any]


class Losses(TorchFunctionMode):
    """Keeps the calls of `LOSSES`, however they are reached."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[LossCall] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        settings = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name in LOSSES and getattr(func, "__module__", "") == "torch.nn.functional":
            given = [*args[:2], *(settings.pop(k) for k in ("input", "target") if k in settings)]
            inputs, target = given[:2]
            self.calls.append(LossCall(name, inputs.detach(), target.detach(), settings))
        return func(*args, **(kwargs or {}))


@dataclass
class InPlace:
    """An operation that changed a tensor.

    Args:
        function: As it is written: `mul_`, `+=`.
        shape: Of the tensor.
        line: `file.py:12`.
    """

    function: str
    shape: tuple[int, ...]
    line: str


_SIGNS = {"__iadd__": "+=", "__isub__": "-=", "__imul__": "*=", "__itruediv__": "/=",
          "__setitem__": "x[...] ="}  # fmt: skip


class InPlaceOperations(TorchFunctionMode):
    """Keeps what changes a tensor that is part of a gradient's computation."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[InPlace] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        writes = name in _SIGNS or (name.endswith("_") and not name.startswith("_"))
        writes = writes or bool((kwargs or {}).get("inplace"))
        if writes and args and isinstance(args[0], Tensor) and args[0].requires_grad:
            shape = tuple(args[0].shape)
            self.found.append(InPlace(_SIGNS.get(name, name), shape, own_line()))
        return func(*args, **(kwargs or {}))


class DeviceMix(Exception):  # noqa: N818 - found by looking for it
    """An operation was given tensors of two devices."""


class OneDevice(TorchDispatchMode):
    """Raises `DeviceMix` at the first operation on tensors of another device than the one.

    A tensor of no dimension may be on the CPU, as torch allows; so may an index.
    """

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = device

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        tensors = [x for x in tree_leaves((args, kwargs or {})) if isinstance(x, Tensor)]
        here = [t for t in tensors if t.device.type == self.device]
        away = [t for t in tensors if t.device.type != self.device and t.ndim]
        name = func.overloadpacket._qualified_op_name.partition("::")[2]
        moves = name in (
            "_to_copy",
            "copy_",
            "index",
            "index_put_",
            "lift_fresh",
            "_index_put_impl_",
        )
        if here and away and not moves:
            raise DeviceMix(f"{name} at {own_line()}")
        return func(*args, **(kwargs or {}))


def own_line() -> str:
    """The innermost line being run that is neither a library's nor the checks': `file.py:12`."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if not is_library(path):
            return f"{'/'.join(path.split('/')[-2:])}:{frame.f_lineno}"
        frame = frame.f_back
    return "unknown"


@torch.no_grad()
def outputs_of(network: nn.Module, inputs: dict[str, Tensor]) -> list[tuple[str, Tensor]]:
    """Every module's first output tensor, in the order in which they run."""
    found: list[tuple[str, Tensor]] = []

    def keep(name: str, module: nn.Module, given: Any, output: Any) -> None:
        tensors = [x for x in tree_leaves(output) if isinstance(x, Tensor)]
        if tensors:
            found.append((f"{name} ({type(module).__name__})", tensors[0].detach().clone()))

    with each_module(network, keep):
        network(**inputs)
    return found


def first_difference(
    a: list[tuple[str, Tensor]], b: list[tuple[str, Tensor]], rows: int | None = None
) -> str:
    """The first module whose outputs differ; empty if none do.

    Args:
        a: As `outputs_of` gives them.
        b: The same of another pass.
        rows: Compare only so many of the first rows of those that have a row per sample.
    """
    for (name, x), (_, y) in zip(a, b, strict=False):
        x, y = (x[:rows], y[:rows]) if rows and x.ndim else (x, y)
        if x.shape == y.shape and not close(x, y):
            return name
    return ""


def close(a: Tensor, b: Tensor) -> bool:
    """Equal but for rounding."""
    if not a.is_floating_point():
        return torch.equal(a, b)
    finite = a[a.isfinite()]
    scale = max(float(finite.abs().max()), 1e-6) if finite.numel() else 1.0
    return torch.allclose(a, b, rtol=1e-3, atol=1e-4 * scale, equal_nan=True)
