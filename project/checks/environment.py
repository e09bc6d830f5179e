"""Checks of the machine and of what is installed."""

import multiprocessing
import shutil
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import torch

from project.checks.outcome import Outcome, failed, passed, skipped, warning
from project.checks.subject import Subject
from project.data.loader import available_cpus

KNOWN_BAD = {
    ("lightning", "2.6.2"): "it was a malicious upload; take the machine for compromised",
    ("lightning", "2.6.3"): "it was a malicious upload; take the machine for compromised",
    ("pytorch-lightning", "2.6.2"): "it was a malicious upload; take the machine for compromised",
    ("pytorch-lightning", "2.6.3"): "it was a malicious upload; take the machine for compromised",
}
"""Releases that nobody should run, with why."""

CHECKPOINTS_KEPT = 3
"""The best, the last, and the one that is being written."""


def versions(subject: Subject) -> Iterator[Outcome]:
    """Known bad releases."""
    installed = {name: _version(name) for name, _ in KNOWN_BAD}
    bad = [(f"{n} {v}", why) for (n, v), why in KNOWN_BAD.items() if installed[n] == v]
    if bad:
        advice = "Remove it, install the next release (pip install -U lightning), change secrets."
        yield failed("a release that must not be run", advice, items=bad)
    else:
        yield passed(f"torch {torch.__version__}, lightning {_version('lightning')}")


def accelerator(subject: Subject) -> Iterator[Outcome]:
    """A build for a GPU, with a driver that can run it."""
    built = torch.version.cuda
    driver = has_nvidia_driver()
    if torch.accelerator.is_available():
        yield passed(
            f"{torch.accelerator.device_count()} × {torch.accelerator.current_accelerator()}"
        )
    elif driver and built:
        yield warning(
            f"there is an NVIDIA driver, but torch's build for CUDA {built} can't use it",
            "Compare it with nvidia-smi's CUDA version: a newer driver, or an older build.",
        )
    elif driver:
        yield warning(
            f"there is an NVIDIA driver, but torch {torch.__version__} is built for the CPU alone",
            "Install torch's build for CUDA (pytorch.org tells the command).",
        )
    else:
        yield passed("no accelerator; training runs on the CPU")


def workers(subject: Subject) -> Iterator[Outcome]:
    """As many loader processes as there are CPUs to run them."""
    count, cpus = _num_workers(subject), available_cpus()
    if count > cpus:
        yield warning(
            f"{count} loader workers for {cpus} CPUs that this process may use",
            f"--data.loader.num_workers {cpus}, or auto; python -m project tune measures it.",
        )
    else:
        method = multiprocessing.get_start_method()
        yield passed(f"{count} loader workers, {cpus} CPUs, started by {method}")


def shared_memory(subject: Subject) -> Iterator[Outcome]:
    """Room in /dev/shm for the batches that workers hold ready."""
    path, count = Path("/dev/shm"), _num_workers(subject)
    if not count or not path.is_dir():
        yield passed("not used: no loader workers")
        return
    free = shutil.disk_usage(path).free
    needed = _batch_bytes(subject) * (count * subject.data.loader.prefetch_factor + 1)
    told = f"/dev/shm has {_size(free)}, the workers' batches take up to {_size(needed)}"
    if needed > free:
        advice = "docker run --shm-size 8g (or --ipc=host), or a smaller --data.loader.num_workers."
        yield failed(told, advice)
    elif needed > free / 2:
        yield warning(told, "Give it more, or use fewer workers (--data.loader.num_workers).")
    else:
        yield passed(told)


def open_files(subject: Subject) -> Iterator[Outcome]:
    """A limit of open files that the workers' tensors stay below."""
    limit = _open_file_limit()
    if limit is None:
        yield skipped("this system does not tell its limit of open files")
        return
    batch = subject.batch(1)
    tensors = len(batch["inputs"]) + 2
    needed = 64 + _num_workers(subject) * subject.data.loader.prefetch_factor * tensors * 2
    told = f"{limit:,} files may be open, about {needed:,} are needed"
    if needed > limit:
        yield warning(told, "ulimit -n 65536 in this shell, or fewer --data.loader.num_workers.")
    else:
        yield passed(told)


def disk(subject: Subject) -> Iterator[Outcome]:
    """Room for the checkpoints."""
    weights = sum(p.numel() * p.element_size() for p in subject.original.parameters())
    needed = weights * 3 * CHECKPOINTS_KEPT  # an optimizer such as Adam keeps two more of each
    folder = subject.folder
    while not folder.is_dir():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    told = f"{_size(free)} free at {folder}, the checkpoints take about {_size(needed)}"
    if needed > free:
        yield failed(told, "Make room, or put the runs elsewhere (--run.root).")
    else:
        yield passed(told)


def has_nvidia_driver() -> bool:
    """Whether the machine has an NVIDIA driver, whatever torch makes of it."""
    return Path("/proc/driver/nvidia/version").exists()


def _version(name: str) -> str:
    try:
        return version(name)
    except ModuleNotFoundError:
        return "none"


def _num_workers(subject: Subject) -> int:
    return int(subject.data.loader.settings()["num_workers"])


def _batch_bytes(subject: Subject) -> int:
    tensors = subject.batch(2)["inputs"].values()
    return sum(t.numel() * t.element_size() for t in tensors) * subject.data.batch_size // 2


def _open_file_limit() -> int | None:
    try:
        import resource  # not on Windows
    except ImportError:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"
