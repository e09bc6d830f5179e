"""Well-known errors, raised for real, are explained with names and values."""

import errno
import os
import pickle
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from project import doctor


class Net(nn.Module):
    """Two layers, of which a test changes one."""

    def __init__(self, second: nn.Module | None = None) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = second or nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))


class Elsewhere(nn.Module):
    """Holds a tensor on another device."""

    def __init__(self) -> None:
        super().__init__()
        self.offset = torch.ones(8, device="meta")

    def forward(self, x: Tensor) -> Tensor:
        return x + self.offset


class Waits(Dataset):
    """Its worker delivers nothing."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Tensor:
        time.sleep(1000)
        return torch.zeros(1)


class Dies(Dataset):
    """Its worker is killed."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        os.kill(os.getpid(), 9)
        return index


class Refuses(Dataset):
    """Fails as an operating system does."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> int:
        raise self.error


def in_place() -> None:
    x = torch.ones(2, requires_grad=True)
    y = x.sigmoid()
    y *= 2
    y.sum().backward()


def leaf() -> None:
    x = torch.ones(2, requires_grad=True)
    x += 1


def twice() -> None:
    x = torch.ones(2, requires_grad=True)
    y = (x * x).sum()
    y.backward()
    y.backward()


def a_step(batch: dict[str, Any]) -> Tensor:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")


def in_a_batch(batch: dict[str, Any]) -> Tensor:
    raise RuntimeError("CUDA error: device-side assert triggered")


BATCH = {"index": torch.arange(6), "target": torch.tensor([1, 5])}

ERRORS: dict[str, tuple[Callable[[], Any], str, str]] = {
    "another device": (
        lambda: Net(Elsewhere())(torch.zeros(2, 4)),
        r"in second \(Elsewhere.*on meta: self.offset.*on cpu: x|on cpu: x.*on meta: self.offset",
        "X9",
    ),
    "a size of a linear layer": (
        lambda: Net(nn.Linear(9, 3))(torch.zeros(2, 4)),
        r"in second \(Linear\(in_features=9.*it was given float32 \[2, 8\] on cpu",
        "X2",
    ),
    "channels of a convolution": (
        lambda: nn.Sequential(nn.Conv2d(3, 2, 3))(torch.zeros(1, 1, 8, 8)),
        r"in 0 \(Conv2d\(3, 2.*float32 \[1, 1, 8, 8\]",
        "X2",
    ),
    "memory of the machine": (lambda: torch.empty(1 << 50), "Memory ran out", "T11"),
    "memory of a GPU": (lambda: a_step(BATCH), "with a batch of 6 samples", "T11"),
    "a lambda in a data set": (lambda: pickle.dumps(lambda x: x), "can't be pickled", "D10"),
    "a label out of range": (
        lambda: F.cross_entropy(torch.zeros(2, 3), torch.tensor([1, 3])),
        r"go from 1 to 3; the network's output has 3 classes, 0 to 2. They look as if counted fr",
        "X5",
    ),
    "a label out of range on a GPU": (
        lambda: in_a_batch(BATCH),
        "Class numbers of this batch go from 1 to 5",
        "X5",
    ),
    "a token out of range": (
        lambda: nn.Sequential(nn.Embedding(4, 2))(torch.tensor([5])),
        r"0 \(Embedding\(4, 2\)\) has 4 rows, and was asked for numbers from 5 to 5",
        "X5",
    ),
    "in place": (in_place, r"test_doctor.py:\d+, in in_place", "X11"),
    "in place on a leaf": (leaf, r"test_doctor.py:\d+, in leaf", "X11"),
    "no graph": (lambda: torch.ones(2).sum().backward(), "not depend on any parameter", "X1"),
    "a graph twice": (twice, "earlier step", "X1"),
    "a batch of one": (
        lambda: nn.BatchNorm1d(2)(torch.zeros(1, 2)), "single value per channel", "D8"
    ),
    "double and float": (
        lambda: Net()(torch.zeros(2, 4).double()),
        r"in first \(Linear.*input is float64.*self.weight is float32",
        "D4",
    ),
    "no GPU": (lambda: torch.zeros(2, device="cuda"), "can't use a GPU here", "X9"),
    "a worker that is killed": (
        lambda: list(DataLoader(Dies(), num_workers=1)), "worker died", "D11"
    ),
    "a worker that waits for ever": (
        lambda: list(DataLoader(Waits(), num_workers=1, timeout=1)), "delivered nothing", "D11"
    ),
    "open files": (
        lambda: list(DataLoader(Refuses(OSError(errno.EMFILE, "Too many open files")))),
        "may not open any more files",
        "D5",
    ),
    "shared memory": (
        lambda: list(DataLoader(Refuses(RuntimeError("unable to mmap 8 bytes from file </torch_1>: "
            "Cannot allocate memory (12): no space in shared memory")))),
        "ran out of shared memory",
        "D5",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_is_explained(name: str) -> None:
    raises, said, practice = ERRORS[name]
    with pytest.raises(Exception) as caught:  # noqa: PT011 - of many kinds
        raises()
    explained = doctor.explain(caught.value)
    assert explained is not None, str(caught.value)
    assert re.search(said, explained), explained
    assert f"[{practice}, docs/checks.md]" in explained


OTHERS = [
    ValueError("something"),
    KeyError("image"),
    OSError("no file"),
    RuntimeError("Weights only load failed: UnpicklingError"),
]


@pytest.mark.parametrize("error", OTHERS, ids=repr)
def test_other_errors_are_left_alone(error: Exception) -> None:
    assert doctor.explain(error) is None


def test_the_command_line_puts_it_below_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    from project import cli

    def fails(args: list[str]) -> None:
        F.cross_entropy(torch.zeros(2, 3), torch.tensor([1, 3]))

    monkeypatch.setattr(cli, "_dispatch", fails)
    with pytest.raises(IndexError) as caught:
        cli.main(["fit"])
    assert "counted from 1" in "\n".join(caught.value.__notes__)
