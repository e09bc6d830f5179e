"""Checks of memory and time: the largest batch that fits, the share of time waited for data."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from project.batches import batch_size
from project.checks.outcome import Outcome, failed, passed, skipped, warning
from project.checks.steps import optimizer_of
from project.checks.subject import Subject
from project.data.loader import available_cpus
from project.tasks import Task

WAITED = 0.4
"""Share of the time waited for data from which it is said, if it is worth saying."""

WORTH = 60.0
"""Seconds of the whole training that must be lost before it is."""

BATCHES = 12
FEW = 6


def largest_batch(subject: Subject) -> Iterator[Outcome]:
    """The configured batch fits into memory; if not, the largest that does."""
    wanted = subject.data.batch_size
    if torch.cuda.is_available():
        fits = _on_cuda(subject, wanted)
        told = f"a batch of {wanted} on the GPU"
    else:
        free = _free_memory()
        if free is None:
            yield skipped("this system does not tell its free memory")
            return
        fixed, each = _bytes_needed(subject)
        fits = max(0, int((free - fixed) / max(each, 1)))
        told = f"a batch of {wanted} takes about {(fixed + each * wanted) / 1e6:,.0f} MB of "
        told += f"{free / 1e6:,.0f} MB that are free"
    if fits >= wanted:
        yield passed(told)
    elif fits < 1:
        yield failed(f"{told}: not even one sample fits", "A smaller network or smaller inputs.")
    else:
        size = 2 ** (fits.bit_length() - 1)
        windows = max(1, round(wanted * subject.accumulate / size))
        advice = f"--data.batch_size {size} --trainer.accumulate_grad_batches {windows} takes the "
        yield failed(f"{told}; {fits} samples fit", advice + "same steps.")


def waiting(subject: Subject) -> Iterator[Outcome]:
    """How long training would wait for the loader, with its real settings."""
    threads = torch.get_num_threads()
    task, batch = subject.task(), subject.batch(min(subject.data.batch_size, subject.size("train")))
    device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
    task.to(device)
    batch = _moved(batch, device)
    optimizer = optimizer_of(task)
    loader = subject.data.train_dataloader()
    loaded = iter(loader)
    waited = worked = 0.0
    batches = 0
    try:
        next(loaded)  # starting the workers is once in a run
        _work(task, optimizer, batch)
        for _ in range(BATCHES):
            began = time.perf_counter()
            if next(loaded, None) is None or not subject.has_time():
                break
            between = time.perf_counter()
            _work(task, optimizer, batch)
            worked += time.perf_counter() - between
            waited += between - began
            batches += 1
    finally:
        loaded.close()
        torch.set_num_threads(threads)
    if batches < FEW:
        yield passed(f"an epoch has only {batches + 1} batches" if batches + 1 >= len(loader) else
                     f"{batches} batches were measured, too few to tell")  # fmt: skip
        return
    share = waited / (waited + worked)
    subject.facts["data_wait_fraction"] = share
    told = f"{share:.0%} of the time goes by waiting for data ({batches} batches)"
    steps = len(loader) * (subject.epochs or 1000)
    lost = waited / batches * steps
    if share > WAITED and lost > WORTH:
        yield warning(f"{told}, {lost:,.0f} s of the training", _advice(subject))
    else:
        yield passed(told)


def _advice(subject: Subject) -> str:
    now = subject.data.loader.settings()["num_workers"]
    settings = [f"--data.loader.num_workers (now {now} of {available_cpus()} CPUs)"]
    if getattr(subject.data, "cache", None) == "none":
        settings.append("--data.cache memory or disk")
    return f"Change {', or '.join(settings)}; python -m project tune measures what is fastest."


def _work(task: Task, optimizer: torch.optim.Optimizer, batch: Any) -> None:
    optimizer.zero_grad()
    task.loss_and_predictions(batch)[0].backward()
    optimizer.step()
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return {name: _moved(inner, device) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_moved(inner, device) for inner in value]
    return value


def _bytes_needed(subject: Subject) -> tuple[int, int]:
    """What training takes whatever the batch, and for each sample: kept activations and inputs."""
    task, batch = subject.task(), subject.batch(2)
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    weights = {p.untyped_storage().data_ptr() for p in task.parameters()}
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        task.loss_and_predictions(batch)
    total = sum(size for pointer, size in kept.items() if pointer not in weights)
    parameters = sum(p.numel() * p.element_size() for p in task.parameters())
    # weights, gradients and two moments; passing gradients take about as much as is kept
    return 4 * parameters, 2 * total // batch_size(batch)


def _free_memory() -> int | None:
    """Bytes that this process may still take: the machine's, or its cgroup's limit."""
    meminfo = Path("/proc/meminfo")
    if not meminfo.is_file():
        return None
    lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
    free = int(lines["MemAvailable"].split()[0]) * 1024
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit.is_file() and used.is_file() and limit.read_text().strip().isdigit():
        free = min(free, int(limit.read_text()) - int(used.read_text()))
    return free


def _on_cuda(subject: Subject, wanted: int) -> int:
    """The wanted size, or it halved until a step fits; 0 if none does."""
    samples = subject.samples("train", min(wanted, subject.size("train"), 64))
    size = wanted
    while size >= 1 and subject.has_time():
        batch = subject.collated([samples[n % len(samples)] for n in range(size)])
        try:
            task = subject.task().cuda()
            _work(task, optimizer_of(task), _moved(batch, torch.device("cuda")))
            return size
        except torch.OutOfMemoryError:
            size //= 2
        finally:
            task = None
            torch.cuda.empty_cache()
    return 0
