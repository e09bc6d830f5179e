"""Hints are given when there is something to hint at, and only once."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from project.callbacks import Hints


def after(
    losses: list[float], capsys: pytest.CaptureFixture[str], norm: float | None = None
) -> str:
    hints = Hints()
    for epoch, loss in enumerate(losses, 1):
        logged = {"train_loss": torch.tensor(loss)}
        if norm is not None:
            logged["grad_norm"] = torch.tensor(norm)
        trainer: Any = SimpleNamespace(
            callback_metrics=logged, current_epoch=epoch, is_global_zero=True
        )
        hints.on_train_epoch_start(trainer, None)  # type: ignore[arg-type]
    return capsys.readouterr().err


def test_a_flat_loss_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    said = after([2.302, 2.303, 2.302, 2.301, 2.302, 2.302, 2.301], capsys)
    assert said.count("has not fallen in 5 epochs (2.302 → 2.302)") == 1
    assert "[X4, docs/checks.md#during-training]" in said


def test_a_loss_that_is_flat_at_the_end_is_as_it_should_be(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert after([2.3, 1.0, 0.5, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1], capsys) == ""


def test_an_oscillating_loss(capsys: pytest.CaptureFixture[str]) -> None:
    said = after([2.0, 1.0, 1.9, 0.9, 2.0, 1.0, 2.1, 0.9], capsys)
    assert said.count("goes up and down") == 1
    assert "lower --model.optimizer.lr tenfold [T7" in said


def test_small_swings_are_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert after([2.0, 1.0, 1.05, 1.0, 1.04, 1.0, 1.05, 0.99], capsys) == ""


def test_vanishing_gradients_where_the_norm_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert "gradient's norm is 1e-09" in after([2.3], capsys, norm=1e-9)
    assert after([2.3, 0.1], capsys, norm=1e-3) == ""


def test_a_resumed_run_does_not_repeat_itself(capsys: pytest.CaptureFixture[str]) -> None:
    first = Hints()
    first.losses, first.said = [2.0, 1.0, 1.9, 0.9, 2.0], ["oscillating"]
    second = Hints()
    second.load_state_dict(first.state_dict())
    trainer: Any = SimpleNamespace(
        callback_metrics={"train_loss": torch.tensor(1.0)}, current_epoch=6, is_global_zero=True
    )
    second.on_train_epoch_start(trainer, None)  # type: ignore[arg-type]
    assert capsys.readouterr().err == ""
    assert second.losses[-1] == 1.0
