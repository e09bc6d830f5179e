"""Checks of the loader: what it gives, what workers receive, what they draw."""

import multiprocessing
import pickle
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.data import Dataset

from project.batches import check_inputs
from project.checks.outcome import Outcome, failed, passed, warning
from project.checks.subject import Subject
from project.checks.watching import each_module
from project.randomness import seed_all
from project.tasks.tracing import tensors_in

LOST = 0.2
"""Share of the training samples that an epoch may leave out before it is said."""

FEW_VALUES = 16
"""Values from which a mean and a variance are no more than noise."""

_DEEPEST = 4  # attributes of attributes that are tried one by one


def batches(subject: Subject) -> Iterator[Outcome]:
    """The real loader gives batches that the network takes, and enough of them."""
    with subject.in_process():
        loader = subject.data.train_dataloader()
        first = next(iter(loader))
    missing = {"inputs", "target", "index"} - set(first)
    if missing:
        yield failed(f"a batch has no {sorted(missing)}", "See project/batches.py.", "D9")
        return
    check_inputs(subject.original.network, first)
    shapes = [f"{name} {list(t.shape)}" for name, t in tensors_in(first["inputs"], "inputs")]
    size, used = subject.size("train"), _samples_per_epoch(loader)
    told = f"{len(loader)} batches an epoch; {', '.join(shapes)}"
    if used is not None and used < (1 - LOST) * size:
        advice = "--data.loader.drop_last false, or a smaller --data.batch_size."
        yield warning(f"{told}: only {used} of {size} samples are used", advice, "D8")
    else:
        yield passed(told, "D8")


def batch_of_one(subject: Subject) -> Iterator[Outcome]:
    """Batch normalisation sees enough values of each channel in every training batch."""
    counts = _values_per_sample(subject)
    if not counts:
        yield passed("no batch normalisation that is trained")
        return
    with subject.in_process():
        sampler: Any = subject.data.train_dataloader().batch_sampler
    sizes = [len(keys) for _, keys in zip(range(10_000), sampler, strict=False)]
    name = min(counts, key=counts.__getitem__)
    fewest = counts[name] * min(sizes)
    advice = "Raise --data.batch_size, or --data.loader.drop_last true if only the last is small"
    if fewest <= 1:
        yield failed(
            f"a training batch of {min(sizes)} sample, of which {name} (batch normalisation) sees "
            "one value per channel",
            f"{advice}.",
        )
    elif fewest < FEW_VALUES:
        yield warning(
            f"{name} (batch normalisation) sees {fewest:g} values of a channel in a batch of "
            f"{min(sizes)}: evaluation, by running statistics, will be much worse than training",
            f"{advice}; or use group normalisation.",
            "M7",
        )
    else:
        yield passed(f"batches of {min(sizes)} to {max(sizes)}, enough for batch normalisation")


def pickling(subject: Subject) -> Iterator[Outcome]:
    """A worker can be given the data set under any start method."""
    collate = subject.data.loader.collate or subject.data.collate
    things: dict[str, Any] = {**subject.data.datasets, "collate": collate}
    items = [(where, why) for name, each in things.items() for where, why in _stuck(each, name)]
    if not items:
        yield passed("data sets and collation can be pickled")
        return
    advice = "Use a function or class at the top level of a module in place of a lambda, and open "
    advice += "files when they are read."
    told = "a worker could not be given the data set"
    if multiprocessing.get_start_method() == "fork":
        yield warning(f"{told} on Windows, macOS or Python 3.14", advice, items=items)
    else:
        yield failed(told, advice, items=items)


def randomness(subject: Subject) -> Iterator[Outcome]:
    """Workers draw different random numbers, and every epoch new ones."""
    dataset = subject.data.datasets["train"]
    try:
        copies: list[Any] = [pickle.loads(pickle.dumps(dataset)) for _ in range(3)]
    except Exception:  # whatever a user's class raises; told by `pickling`
        return
    index = subject.indices("train", 1)[0]
    first, other, same = (_drawn(c, index, s) for c, s in zip(copies, (1, 2, 1), strict=True))
    advice = "Draw from torch's, NumPy's or Python's global generators: they are seeded per sample."
    if not _equal(first, same):
        yield warning("a sample is another one with the same seed", advice)
    elif not _equal(first, other):
        yield passed("augmentation follows the seed of epoch and sample")
    elif _equal(first, _drawn(copies[0], index, 1)):
        yield passed("training samples are the same each time: no random augmentation")
    else:
        yield failed(
            f"{type(dataset).__name__} draws from a generator of its own, of which every worker "
            "has the same copy: all workers draw the same",
            advice,
        )


def _drawn(dataset: Any, index: int, seed: int) -> list[torch.Tensor]:
    seed_all(seed)
    return [tensor for _, tensor in tensors_in(dataset[index]["inputs"], "inputs")]


def _equal(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(a, b, strict=True))


def _samples_per_epoch(loader: Any) -> int | None:
    sampler = getattr(loader, "batch_sampler", None)
    return sum(len(keys) for keys in sampler) if sampler is not None else None


def _values_per_sample(subject: Subject) -> dict[str, float]:
    """How many values of a channel each batch normalisation in training mode gets of a sample."""
    network, inputs = subject.task().network, subject.batch(2)["inputs"]
    found: dict[str, float] = {}

    def keep(name: str, module: nn.Module, given: Any, output: Any) -> None:
        if isinstance(module, _BatchNorm) and module.training:
            found[name] = output.numel() / output.shape[1] / 2

    try:
        with torch.no_grad(), each_module(network, keep, leaves=True):
            network(**inputs)
    except Exception:  # told by model.step, with its reason
        return {}
    return found


def _stuck(value: Any, name: str, depth: int = 0) -> list[tuple[str, str]]:
    """The innermost attributes that can't be pickled, each with the reason."""
    try:
        pickle.dumps(value)
        return []
    except Exception as error:  # whatever a user's class raises
        reason = str(error).strip().splitlines()[0] if str(error) else type(error).__name__
    inner: dict[str, Any] = {}
    if depth < _DEEPEST:
        if isinstance(value, dict):
            inner = {f"{name}[{key!r}]": each for key, each in value.items()}
        elif isinstance(value, list | tuple):
            inner = {f"{name}[{n}]": each for n, each in enumerate(value[:100])}
        elif isinstance(value, Dataset | nn.Module) or hasattr(value, "__dict__"):
            inner = {f"{name}.{key}": each for key, each in vars(value).items()}
    found = [pair for key, each in inner.items() for pair in _stuck(each, key, depth + 1)]
    return found or [(name, reason)]
