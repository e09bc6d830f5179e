"""What the hardware does well: precision, and repeatable against fast."""

from typing import Any, Literal

import torch
from torch import nn

from project.errors import UserError

Precision = Literal["auto", "fp32", "bf16", "fp16"]
Mode = Literal["fast", "deterministic"]
MemoryFormat = Literal["contiguous", "channels_last"]

LIGHTNINGS = {"fp32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}
"""Lightning's names for the precisions of ours."""


def best_precision(accelerator: str) -> tuple[str, str]:
    """What `auto` means here, and why.

    bfloat16 has the range of float32, so it needs no loss scaler: it is taken where the hardware
    has it. float16 with a scaler is for older GPUs. A CPU emulates both, many times slower.

    Args:
        accelerator: Lightning's `trainer.accelerator`.
    """
    if accelerator not in ("auto", "gpu", "cuda") or not torch.cuda.is_available():
        return "fp32", "no CUDA GPU"
    name, capability = torch.cuda.get_device_name(), torch.cuda.get_device_capability()
    if capability >= (8, 0):
        return "bf16", f"{name} computes in it"
    if capability >= (7, 0):
        return "fp16", f"{name} has no bfloat16"
    return "fp32", f"{name} is not faster in half precision"


def precision(asked: Precision, of_trainer: Any, accelerator: str) -> tuple[Any, str]:
    """The trainer's precision, and in a word why it is so.

    Args:
        asked: `run.precision`.
        of_trainer: `trainer.precision`, which is more detailed; None where it is left out.
        accelerator: Lightning's `trainer.accelerator`.

    Raises:
        UserError: Both are given, or float16 on a CPU, which Lightning would silently replace.
    """
    if of_trainer is not None and asked != "auto":
        raise UserError(
            f"run.precision is {asked!r} and trainer.precision is {of_trainer!r}; give one of them."
        )
    on_cpu = accelerator == "cpu" or not torch.accelerator.is_available()
    if on_cpu and (asked == "fp16" or str(of_trainer) in ("16", "16-mixed")):
        raise UserError(
            "float16 with a loss scaler is for GPUs, and this run is on a CPU, where Lightning "
            "would take bfloat16 in its place. Leave the precision out: auto is float32 here."
        )
    if of_trainer is not None:
        return of_trainer, ""
    if asked != "auto":
        return LIGHTNINGS[asked], ""
    chosen, reason = best_precision(accelerator)
    return LIGHTNINGS[chosen], f"auto: {reason}"


def flags(mode: Mode) -> dict[str, Any]:
    """The trainer's settings of a mode.

    On a CPU both give the same numbers. On a GPU `fast` lets cuDNN choose the quickest algorithm
    and multiplies float32 matrices in TF32; `deterministic` takes only algorithms that give the
    same bits every time, and raises where there is none.
    """
    if mode == "deterministic":
        return {"deterministic": True, "benchmark": False}
    return {"deterministic": False, "benchmark": torch.cuda.is_available()}


def set_matmul_precision(mode: Mode) -> None:
    """Let float32 matrices be multiplied in TF32, or not, where there is a GPU that has it."""
    if torch.cuda.is_available():
        torch.set_float32_matmul_precision("high" if mode == "fast" else "highest")


def lay_out(network: nn.Module, memory_format: MemoryFormat) -> None:
    """Order the network's weights in memory; convolutions hand the order on to their images.

    Shapes and strides are all that differ: values, names and checkpoints stay as they are, and code
    that calls `view` on such an image raises where `reshape` would copy.
    """
    if memory_format == "channels_last":
        network.to(memory_format=torch.channels_last)
