"""The well-known errors: how each is recognised, what causes it, what to do."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import torch

from project.doctor import causes
from project.doctor.scene import Scene


@dataclass(frozen=True)
class Illness:
    """A kind of error.

    Args:
        pattern: Found in the error's type and message.
        cause: Says what happened, from the scene.
        advice: What to do about it.
        practice: The id in docs/practices.md.
    """

    pattern: re.Pattern[str]
    cause: Callable[["Scene"], str]
    advice: str
    practice: str


def _illness(pattern: str, cause: Callable[[Scene], str], advice: str, practice: str) -> Illness:
    return Illness(re.compile(pattern, re.IGNORECASE | re.DOTALL), cause, advice, practice)


ILLNESSES = [
    _illness(
        r"bus error|shared memory|shm|SharedMemory",
        causes.said(
            "A loader's worker ran out of shared memory (/dev/shm), through which batches pass"
        ),
        "Give the container more (docker run --shm-size 8g, or --ipc=host), or use fewer of it: "
        "--data.loader.num_workers 0, a smaller --data.loader.prefetch_factor or batch.",
        "D5",
    ),
    _illness(
        r"out of memory|OutOfMemory|MemoryError|can't allocate memory",
        causes.memory,
        "Halve --data.batch_size and double --trainer.accumulate_grad_batches: the steps stay the "
        "same. python -m project check finds the largest batch that fits.",
        "T11",
    ),
    _illness(
        r"DataLoader worker .*(exited unexpectedly|killed by signal)",
        causes.said("A loader's worker died, most often because the machine's memory ran out"),
        "Look whether the system killed it (dmesg), use fewer workers "
        "(--data.loader.num_workers), or see its own error with --data.loader.num_workers 0.",
        "D11",
    ),
    _illness(
        r"DataLoader timed out after",
        causes.said("A loader's worker delivered nothing for --data.loader.timeout_seconds"),
        "A library may have been forked while it held a lock, or one file takes for ever. See "
        "where it stands with --data.loader.num_workers 0, or allow more time.",
        "D11",
    ),
    _illness(
        r"too many open files|\[Errno 24\]|received 0 items of ancdata",
        causes.said(
            "The process may not open any more files; each tensor that a worker sends is one"
        ),
        "Raise the limit in this shell (ulimit -n 65536), or use fewer workers "
        "(--data.loader.num_workers).",
        "D5",
    ),
    _illness(
        r"(?<!Un)PicklingError|can't pickle|cannot pickle|Can't get (local object|attribute)",
        causes.unpicklable,
        "Put it at the top level of a module, as a function or a class. python -m project check "
        "names the attribute that holds it.",
        "D10",
    ),
    _illness(
        r"(Expected all tensors|is not on the expected device|same device|found at least two)|"
        r"Input type \(.*cuda.*\) and weight type \((?!.*cuda)|"
        r"Input type \((?!.*cuda).*\) and weight type \(.*cuda",
        causes.elsewhere,
        "What is made in forward is made on its input's device (torch.zeros(..., "
        "device=inputs.device)); what belongs to a module is a parameter or a buffer "
        "(register_buffer), so that it moves along.",
        "X9",
    ),
    _illness(
        r"Target -?\d+ is out of bounds|device-side assert|nll_loss.*(out of|assert)|t >= 0",
        causes.target_range,
        "Labels are 0 to the number of classes - 1; python -m project check names the samples. On "
        "a GPU such an error appears late and elsewhere: --trainer.accelerator cpu shows the line.",
        "X5",
    ),
    _illness(
        r"index out of range in self|indexSelect|IndexError: index .* is out of (bounds|range)",
        causes.token_range,
        "The vocabulary and the embedding must be of one size (num_tokens), and what is not in it "
        "must become the unknown token.",
        "X5",
    ),
    _illness(
        r"modified by an inplace operation|leaf variable that requires grad.*in-place|"
        r"view .* is being modified in-?place",
        causes.said("An in-place operation changed what the gradient's computation needs"),
        "Write x = x + y for x += y and relu(x) for relu_(x); python -m project check names the "
        "operation and its line.",
        "X11",
    ),
    _illness(
        r"does not require grad and does not have a grad_fn",
        causes.said("The loss does not depend on any parameter that is trained"),
        "Look for .detach(), .item(), .data, no_grad or argmax on the way from the network to the "
        "loss, or for parameters that are all frozen; python -m project check names the module.",
        "X1",
    ),
    _illness(
        r"backward through the graph a second time",
        causes.said("A tensor of an earlier step is used in this one"),
        "Keep values between steps only after .detach().",
        "X1",
    ),
    _illness(
        r"Expected more than 1 value per channel",
        causes.said("Batch normalisation in training mode was given a single value per channel"),
        "Batches need two samples or more: raise --data.batch_size, or set --data.loader.drop_last "
        "true where the last batch is of one.",
        "D8",
    ),
    _illness(
        r"must have the same dtype|expected scalar type|should be the same|but found dtype|"
        r"Found dtype|to have the same dtype|not implemented for '(Long|Byte|Half)",
        causes.types,
        "Images, features and regression targets are float32, class numbers and tokens int64; the "
        "data set is the place to convert them (.float(), .long()).",
        "D4",
    ),
    _illness(
        r"mat1 and mat2 shapes|to have \d+ channels|must match the size|size mismatch|"
        r"shape .* is invalid for input of size|running_mean should contain|normalized_shape|"
        r"Expected (3D|4D)|weight of size",
        causes.misfit,
        "Compare with the table of layers that python -m project check writes; a layer's input "
        "size must be that of what comes before it.",
        "X2",
    ),
    _illness(
        r"no kernel image|driver version is insufficient|CUDA driver|CUDA error: unknown|"
        r"Found no NVIDIA driver|Torch not compiled with CUDA",
        causes.said(f"torch {torch.__version__} can't use a GPU here"),
        "Compare the driver (nvidia-smi) with the build (python -m torch.utils.collect_env); if "
        "your own code names 'cuda', take the device of its input instead.",
        "X9",
    ),
]
"""The first that matches is told: what names its cause best stands first."""
