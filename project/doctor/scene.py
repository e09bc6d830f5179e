"""Where an error happened: its frames still hold the module that was called and its inputs."""

import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from torch import Tensor, nn

_CHECKS = Path(__file__).resolve().parent.parent / "checks"


class Scene:
    """Where an error happened: the frames it came through, the innermost last.

    Args:
        error: The error, after it was caught.
    """

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.frames = list(_frames(error))
        self.words = f"{type(error).__name__}: {error}"

    @property
    def module(self) -> nn.Module | None:
        """The innermost module that was running."""
        found = self._selves(nn.Module)
        return found[-1] if found else None

    @property
    def module_name(self) -> str:
        """Its name from the outermost module on, and what it is; empty if there is none."""
        found = self._selves(nn.Module)
        if not found:
            return ""
        for root in found:
            for name, module in root.named_modules():
                if module is found[-1] and name:
                    return f"{name} ({brief(module)})"
        return brief(found[-1])

    @property
    def line(self) -> str:
        """The innermost line that is not torch's or Lightning's: `file.py:12, in forward`."""
        found = [f for f in self.frames if not is_library(f.f_code.co_filename)]
        if not found:
            return ""
        frame = found[-1]
        # where the frame stood when the error went through it, not where it is now
        number = self._line_numbers.get(id(frame), frame.f_lineno)
        file = "/".join(frame.f_code.co_filename.split("/")[-2:])
        return f"{file}:{number}, in {frame.f_code.co_name}"

    @property
    def _line_numbers(self) -> dict[int, int]:
        tb, found = self.error.__traceback__, {}
        while tb is not None:
            found[id(tb.tb_frame)] = tb.tb_lineno
            tb = tb.tb_next
        return found

    @property
    def where(self) -> str:
        """The module and the line, in words."""
        module = f"in {self.module_name}, " if self.module_name else ""
        return f"{module}{self.line}" if self.line else module.rstrip(", ")

    def local(self, name: str) -> Any:
        """The innermost local variable of that name; None if there is none."""
        found = [f.f_locals[name] for f in self.frames if f.f_locals.get(name) is not None]
        return found[-1] if found else None

    def tensors(self) -> dict[str, Tensor]:
        """The tensors at hand where it happened: local variables, and the module's own."""
        mine = [f for f in self.frames if isinstance(f.f_locals.get("self"), nn.Module)]
        mine = [f for f in mine if f.f_code.co_name == "forward"] or mine
        mine = mine or [f for f in self.frames if not is_library(f.f_code.co_filename)]
        if not mine:
            return {}
        local = {n: v for n, v in mine[-1].f_locals.items() if isinstance(v, Tensor)}
        module = mine[-1].f_locals.get("self")
        if not isinstance(module, nn.Module):
            return local
        own = {**vars(module), **module._parameters, **module._buffers}
        return {**local, **{f"self.{n}": v for n, v in own.items() if isinstance(v, Tensor)}}

    def _selves(self, kind: type) -> list[Any]:
        found = [frame.f_locals.get("self") for frame in self.frames]
        return [each for each in found if isinstance(each, kind)]


def _frames(error: BaseException) -> Iterator[FrameType]:
    for frame, _ in traceback.walk_tb(error.__traceback__):
        yield frame


def is_library(path: str) -> bool:
    """Whether a file is of Python or of an installed package."""
    return (
        "site-packages" in path
        or "/lib/python" in path
        or path.startswith(("<", str(_CHECKS)))  # what only looks on
    )


def brief(module: nn.Module) -> str:
    """What a module is, with its sizes."""
    inner = module.extra_repr()
    return f"{type(module).__name__}({inner})" if inner else type(module).__name__


def described(tensor: Tensor) -> str:
    """What a tensor is: type, shape and device."""
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)} on {tensor.device}"
