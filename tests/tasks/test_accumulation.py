"""Accumulated gradients are those of one big batch."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from project.callbacks import Clipping, NonFinite
from tests.training import Small, Spy, Weighted, batches, fit, fp16, gradient, task


class Plain(Small):
    """Without normalisation, whose statistics would differ between small batches and a big one."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.Identity()


def still() -> Weighted:
    """A task that stands still, so that all windows are at the same weights."""
    return task(Plain, optimizer=lambda groups: torch.optim.SGD(groups, lr=0.0))


def by_hand(window: list[dict[str, Any]]) -> Tensor:
    """The gradient of sum(w * loss) / sum(w), in one pass."""
    trained = still()
    weights = [float(batch.get("weight", len(batch["target"]))) for batch in window]
    losses = [trained.loss_and_predictions(batch)[0] for batch in window]
    total = sum(w * loss for w, loss in zip(weights, losses, strict=True)) / sum(weights)
    total.backward()
    return gradient(trained)


def accumulated(
    given: list[dict[str, Any]], size: int, folder: Path, *callbacks: Any, **options: Any
) -> list[Tensor]:
    spy = Spy(gradient)
    options["accumulate_grad_batches"] = size
    fit(still(), given, folder, *callbacks, spy, **options)
    return spy.seen


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("weight", ["samples", "given", "tensor"])
def test_every_window_is_the_big_batch(tmp_path: Path, size: int, weight: str) -> None:
    given = batches(8, 8, 8, 8, 3)  # the last batch is smaller, and so is the last window
    if weight != "samples":
        for batch, count in zip(given, [40, 3, 9, 25, 7], strict=True):
            batch["weight"] = torch.tensor(float(count)) if weight == "tensor" else count
    found = accumulated(given, size, tmp_path)
    windows = [given[start : start + size] for start in range(0, 5, size)]
    assert len(found) == len(windows)
    for mine, window in zip(found, windows, strict=True):
        torch.testing.assert_close(mine, by_hand(window), rtol=1e-5, atol=1e-7)


def test_one_big_batch_of_all_samples_gives_the_same(tmp_path: Path) -> None:
    (mine,) = accumulated(batches(8, 8, 3), 4, tmp_path)
    trained = still()
    given = batches(8, 8, 3)
    features = torch.cat([batch["inputs"]["features"] for batch in given])
    logits = trained.network(features)
    F.cross_entropy(logits, torch.cat([batch["target"] for batch in given])).backward()
    torch.testing.assert_close(mine, gradient(trained), rtol=1e-5, atol=1e-7)


def test_where_all_windows_are_alike_the_bits_are_those_of_the_usual_loop(tmp_path: Path) -> None:
    given = batches(8, 8, 8, 8, 8, 8)
    found = accumulated(given, 3, tmp_path)
    for number, mine in enumerate(found):
        trained = still()
        for batch in given[3 * number : 3 * number + 3]:
            (trained.loss_and_predictions(batch)[0] / 3).backward()
        assert torch.equal(mine, gradient(trained))


def test_what_the_stock_division_would_give(tmp_path: Path) -> None:
    """Dividing by the number of batches halves the last window, which has one of two."""
    given = batches(8, 8, 8)
    last = accumulated(given, 2, tmp_path)[-1]
    trained = still()
    (trained.loss_and_predictions(given[-1])[0] / 2).backward()
    torch.testing.assert_close(last, 2 * gradient(trained))


def test_limited_batches_end_a_window(tmp_path: Path) -> None:
    given = batches(8, 8, 8, 8, 8)
    found = accumulated(given, 2, tmp_path, limit_train_batches=3)
    torch.testing.assert_close(found[1], by_hand(given[2:3]))


def test_a_window_with_nothing_in_it_moves_nothing(tmp_path: Path) -> None:
    given = batches(4, 4)
    for batch in given:
        batch["weight"] = 0
    (found,) = accumulated(given, 2, tmp_path)
    assert found.abs().sum() == 0


def test_with_scaler_clipping_and_guard(tmp_path: Path) -> None:
    given = batches(8, 8, 8, 8, 3)
    habits = NonFinite(), Clipping(max_norm=0.05)
    found = accumulated(given, 2, tmp_path, *habits, plugins=[fp16(2.0**10)])
    for mine, window in zip(found, [given[:2], given[2:4], given[4:]], strict=True):
        expected = by_hand(window)
        assert expected.norm() > 0.06
        torch.testing.assert_close(mine, expected * 0.05 / expected.norm(), rtol=0.05, atol=1e-3)
