"""A training step never makes the device wait, but for the one look of the guard against NaN."""

from collections.abc import Callable
from typing import Any

import lightning as L
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from project.tasks.mean_loss import MeanLoss

WAITS: list[str] = []


class Waiting(TorchDispatchMode):
    """Notes what reads a number from a tensor: `item()`, `float()`, `bool()`."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if "_local_scalar_dense" in str(func):
            WAITS.append(str(func))
        return func(*args, **(kwargs or {}))


class Watch(L.Callback):
    """Looks at ten steps."""

    def __init__(self) -> None:
        self.mode = Waiting()

    def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, batch_idx: int) -> None:
        if batch_idx == 2:
            self.mode.__enter__()
        if batch_idx == 12:
            self.mode.__exit__(None, None, None)


@pytest.mark.slow
@pytest.mark.parametrize(("every", "expected"), [(50, 0), (3, 4)])
def test_only_the_log_reads_a_number(
    every: int, expected: int, command: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    WAITS.clear()
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)  # with a progress bar
    words = {
        "trainer.callbacks+": "tests.tasks.test_waiting.Watch",
        "trainer.max_epochs": 1,
        "trainer.log_every_n_steps": every,
        "model.optimizer": "torch.optim.SGD",  # Adam reads its counter, which lies on the CPU
        "model.network.width": 4,
        "clipping.max_norm": 1.0,
        "data.augmentation": "none",
        "run.test_after_fit": "false",
    }
    options = [word for key, value in words.items() for word in (f"--{key}", str(value))]
    assert command("fit", "--config", "configs/digits.yaml", *options) == 0
    assert len(WAITS) == expected


def test_the_mean_counts_weights_and_does_not_hide_nan() -> None:
    mean = MeanLoss()
    mean.update(torch.tensor(1.0), 3)
    mean.update(torch.tensor(5.0), torch.tensor(1.0))
    assert mean.compute() == 2.0
    mean.update(torch.tensor(float("nan")), 1)
    assert mean.compute().isnan()
    mean.reset()
    mean.update(torch.tensor(7.0), 2)
    assert mean.compute() == 7.0
