"""The norm before clipping is logged, and the optimizer sees the clipped gradients."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from project.callbacks import Clipping
from project.errors import UserError
from project.runs import Run
from tests.training import Spy, batches, fit, fp16, gradient, task, weights


def test_norm_before_and_after(tmp_path: Path) -> None:
    given = batches(4, 4, 4)
    before, after = (
        Spy(lambda t: float(gradient(t).norm())),
        Spy(lambda t: float(gradient(t).norm())),
    )
    fit(task(), given, tmp_path, before, Clipping(max_norm=0.1), after)
    assert all(norm > 0.1 for norm in before.seen)
    assert after.seen == pytest.approx([0.1] * 3, rel=1e-4)
    (row,) = Run(tmp_path).history
    assert row["grad_norm"] == pytest.approx(sum(before.seen) / 3)
    assert row["grad_norm_max"] == pytest.approx(max(before.seen))


def test_a_small_gradient_is_left_alone_and_infinity_only_measures(tmp_path: Path) -> None:
    plain = task()
    fit(plain, batches(4, 4), tmp_path / "plain")
    measured = task()
    fit(measured, batches(4, 4), tmp_path / "measured", Clipping(math.inf))
    assert "grad_norm" not in Run(tmp_path / "plain").history[0]
    assert Run(tmp_path / "measured").history[0]["grad_norm"] > 0
    for name, tensor in weights(plain).items():
        torch.testing.assert_close(tensor, weights(measured)[name])


@pytest.mark.parametrize("scale", [1.0, 2.0**12])
def test_the_loss_scalers_factor_is_taken_out_first(tmp_path: Path, scale: float) -> None:
    whole, clipped = Spy(lambda t: float(gradient(t).norm())), Spy(gradient)
    fit(task(), batches(8), tmp_path / "whole", whole)
    half = fit(task(), batches(8), tmp_path, Clipping(0.1), clipped, plugins=[fp16(scale)])
    assert half.precision_plugin.scaler.get_scale() == scale  # no step was left out
    assert float(clipped.seen[0].norm()) == pytest.approx(0.1, rel=1e-2)
    assert Run(tmp_path).history[0]["grad_norm"] == pytest.approx(whole.seen[0], rel=1e-2)


def test_clipping_scaled_gradients_would_be_another_thing() -> None:
    """The order matters: with a factor of 1024, clipping first leaves next to nothing."""

    def clipped(unscale_first: bool) -> Tensor:
        weight = nn.Parameter(torch.tensor([3.0, 4.0]))
        optimizer = torch.optim.SGD([weight], lr=0.0)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        scaler.scale((weight**2).sum() / 2).backward()
        if unscale_first:
            scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_([weight], 1.0)
        if not unscale_first:
            scaler.unscale_(optimizer)
        assert weight.grad is not None
        return weight.grad

    torch.testing.assert_close(clipped(True), torch.tensor([0.6, 0.8]), rtol=1e-4, atol=0)
    torch.testing.assert_close(clipped(False), torch.tensor([0.6, 0.8]) / 1024, rtol=1e-3, atol=0)


def test_two_clippings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"max_norm is 1\.0 and trainer\.gradient_clip_val is 0\.5"):
        fit(task(), batches(4), tmp_path, Clipping(1.0), gradient_clip_val=0.5)


@pytest.mark.parametrize("max_norm", [0, -1.0, math.nan])
def test_the_norm_must_be_above_zero(max_norm: float) -> None:
    with pytest.raises(UserError, match=f"clipping.max_norm is {max_norm}"):
        Clipping(max_norm)


def test_a_fused_optimizer_can_not_be_clipped_under_a_scaler(tmp_path: Path) -> None:
    fused = task(optimizer=lambda groups: torch.optim.SGD(groups, lr=0.1, fused=True))
    with pytest.raises(UserError, match="a fused SGD"):
        fit(fused, batches(4), tmp_path, Clipping(1.0), plugins=[fp16()])


@pytest.mark.slow
def test_nothing_is_read_from_the_device_at_every_step(
    command: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all habits on; each `item` would make an accelerator wait."""
    calls = []
    item = Tensor.item
    monkeypatch.setattr(Tensor, "item", lambda tensor: (calls.append(1), item(tensor))[1])

    def count(steps: int) -> int:
        calls.clear()
        options = ["--data.batch_size", "8", "--trainer.max_epochs", "1"]
        options += ["--clipping.max_norm", "1"]
        options += ["--ema.decay", "0.9", "--trainer.limit_train_batches", str(steps)]
        # Adam reads its own counters, and augmentation draws its numbers
        options += ["--model.optimizer", "torch.optim.SGD", "--data.augmentation", "none"]
        options += ["--model.network.width", "4", "--run.test_after_fit", "false"]
        assert command("fit", "--config", "configs/digits.yaml", *options) == 0
        return len(calls)

    few = count(20)
    assert count(120) - few < 10
