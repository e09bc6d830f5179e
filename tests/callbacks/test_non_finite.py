"""What is not finite never reaches the weights, is named, and costs nothing otherwise."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from project.callbacks import Checkpoint, Clipping, HalfPrecision, NonFinite, non_finite
from project.checkpoints import read_checkpoint
from project.errors import UserError
from project.runs import Run
from project.tasks.tracing import first_not_finite
from tests.training import Small, Spy, batches, fit, fp16, same, task, weights


class Boom(nn.Module):
    """Gives an infinity where its input says so."""

    def forward(self, features: Tensor) -> Tensor:
        return features.exp() if features.abs().max() > 50 else features


class Root(nn.Module):
    """Finite, but its slope at 0 is not."""

    def forward(self, features: Tensor) -> Tensor:
        return features + (0 * features).sqrt()


def poisoned(*, at: int, value: float = math.nan, sizes: tuple[int, ...] = (4, 4, 4)) -> list:
    """Batches of which one has a bad second sample."""
    given = batches(*sizes)
    given[at]["inputs"]["features"][1, 0] = value
    return given


def test_bad_data_stop_the_run_with_the_samples_by_name(tmp_path: Path) -> None:
    states = Spy(after=weights)
    trained = task()
    with pytest.raises(UserError) as error:
        fit(trained, poisoned(at=2), tmp_path, NonFinite(), states)
    said = str(error.value)
    assert "epoch 1, step 3: not finite" in said
    assert "First in the data: inputs.features has 1 NaN of 8 values" in said
    assert "Samples at fault: number 9." in said  # the second of the third batch of 4
    assert "loss nan, learning rate 0.1, gradient norm nan, weight norm" in said
    parameters = {n: t for n, t in weights(trained).items() if "running" not in n}
    parameters.pop("norm.num_batches_tracked")
    assert same(parameters, states.seen[-1])  # those after the step before


def test_a_target_is_data_too() -> None:
    given = batches(4)
    given[0]["target"] = torch.tensor([[0.5, 0.5], [math.inf, 0.5], [1, 0], [0, 1]])
    said, samples = first_not_finite(task(), given[0])
    assert said == "the data: target has 1 infinite of 8 values"
    assert samples == [1]


def test_the_first_module_is_named(tmp_path: Path) -> None:
    class Loud(Small):
        def __init__(self) -> None:
            super().__init__(Boom())
            self.norm = nn.Identity()

    given = batches(4, 4)
    given[1]["inputs"]["features"][2] = 1000.0
    said = r"the output of network\.middle \(Boom\): \d+ infinite of 16 values; its inputs are fini"
    with pytest.raises(UserError, match=rf"{said}.*up to \d+.*at fault: number 6\."):
        fit(task(Loud), given, tmp_path, NonFinite())


def test_a_gradient_alone_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a gradient: that of network\.norm\.bias has .* NaN"):
        fit(task(lambda: Small(Root())), batches(4), tmp_path, NonFinite())


def test_weights_that_are_not_finite_are_named(tmp_path: Path) -> None:
    trained = task()
    with torch.no_grad():
        trained.network.head.bias[1] = math.inf
    with pytest.raises(UserError, match=r"the weights: network\.head\.bias has 1 infinite of 2"):
        fit(trained, batches(4), tmp_path, NonFinite())


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_skipped_step_leaves_everything_as_it_was(
    tmp_path: Path, value: float, capsys: pytest.CaptureFixture
) -> None:
    def state(trained: Any) -> dict[str, Tensor]:
        mean = {name: t.clone() for name, t in trained.train_loss.metric_state.items()}
        return {**weights(trained), **mean}

    trained, states = task(), Spy(after=state)
    fit(trained, poisoned(at=1, value=value), tmp_path, NonFinite("skip"), states)
    first, second, third = states.seen
    assert same(first, second)
    assert not same(second, third)
    assert math.isfinite(Run(tmp_path).history[0]["train_loss"])
    said = capsys.readouterr().out
    assert "The step is skipped." in said
    assert "epoch 1: 1 of 3 optimizer steps were skipped, 1 since the run began" in said


def test_of_a_window_the_bad_batch_is_named_and_the_whole_window_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    trained, states = task(), Spy(after=weights)
    given = poisoned(at=2, sizes=(4, 4, 4, 4))
    clipping = Clipping(1.0)
    fit(trained, given, tmp_path, NonFinite("skip"), clipping, states, accumulate_grad_batches=2)
    assert same(states.seen[1], states.seen[3])
    said = capsys.readouterr().out
    assert "Samples at fault: number 9." in said
    assert "1 of 2 optimizer steps were skipped" in said
    assert math.isfinite(Run(tmp_path).history[0]["grad_norm"])


def test_when_nothing_is_left_it_stops(tmp_path: Path) -> None:
    given = [poisoned(at=0, sizes=(4,))[0] for _ in range(3)]
    with pytest.raises(UserError, match=r"3 of 3 optimizer steps were skipped.*Not one was left"):
        fit(task(), given, tmp_path, NonFinite("skip"))


def test_without_it_the_weights_are_lost(tmp_path: Path) -> None:
    trained = task()
    fit(trained, poisoned(at=1), tmp_path, NonFinite("off"), Clipping(1.0))
    assert trained.network.head.weight.isnan().all()


def test_a_checkpoint_is_never_overwritten_by_bad_weights(tmp_path: Path) -> None:
    def spoil(trained: Any) -> None:
        if trained.current_epoch == 1:
            with torch.no_grad():
                trained.network.head.weight[0, 0] = math.nan

    with pytest.raises(UserError) as error:
        fit(
            task(),
            batches(4),
            tmp_path,
            NonFinite(),
            Spy(after=spoil),
            checkpoint=Checkpoint(),
            max_epochs=3,
        )
    last = tmp_path / "checkpoints" / "last.ckpt"
    said = str(error.value)
    assert "network.head.weight has 1 NaN of 8 values, so no checkpoint is written" in said
    assert f"The last good checkpoint is {last}." in said
    kept = read_checkpoint(last)
    assert kept["epoch"] == 0
    assert all(tensor.isfinite().all() for tensor in kept["state_dict"].values())


def test_when_all_is_well_nothing_is_run_twice_and_nothing_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(non_finite, "first_not_finite", None)
    states = []
    for guard in ("off", "stop", "skip"):
        trained = task()
        fit(trained, batches(4, 4), tmp_path / guard, NonFinite(guard))
        states.append(weights(trained))
    assert same(states[0], states[1])
    assert same(states[0], states[2])


def test_an_overflow_of_the_loss_scaler_is_the_scalers_business(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    trained = task()
    trainer = fit(
        trained, batches(*[4] * 20), tmp_path, NonFinite(), HalfPrecision(), plugins=[fp16(2.0**24)]
    )
    said = capsys.readouterr().out
    told = re.search(r"left out (\d+) of 20 optimizer steps, \1 since", said)
    assert told
    scale = trainer.precision_plugin.scaler.get_scale()
    assert scale == 2.0 ** (24 - int(told[1]))
    assert f"its factor is now {scale:g}" in said
    assert all(tensor.isfinite().all() for tensor in weights(trained).values())


def test_a_bad_loss_under_a_loss_scaler_is_not(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"the data: inputs\.features has 1 NaN"):
        fit(task(), poisoned(at=0), tmp_path, NonFinite(), plugins=[fp16()])


@pytest.mark.slow
@pytest.mark.parametrize("rate", ["1e12", "1e38"])
def test_from_the_command_line(
    command: Callable[..., int], latest: Callable[[], Run], capsys: pytest.CaptureFixture, rate: str
) -> None:
    """A rate that destroys everything in the second epoch: the first one's checkpoint is kept."""
    options = ["--config", "configs/digits.yaml", "--model.network.width", "4"]
    options += ["--trainer.limit_train_batches", "4", "--run.test_after_fit", "false"]
    assert command("fit", *options, "--trainer.max_epochs", "1") == 0
    run = latest()
    again = ["fit", "--resume", str(run.path), "--trainer.max_epochs", "3"]
    capsys.readouterr()
    assert command(*again, "--model.optimizer.lr", rate, "--model.schedule", "null") == 2
    said = capsys.readouterr().err
    assert "not finite. First in" in said or "so no checkpoint is written" in said
    assert "digits[" in said or "so no checkpoint" in said
    kept = read_checkpoint(run.checkpoint("last"))
    assert kept["epoch"] in (0, 1)
    assert all(t.isfinite().all() for n, t in kept["state_dict"].items() if "weight" in n)
