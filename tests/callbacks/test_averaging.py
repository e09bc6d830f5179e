"""The average is evaluated and kept; training goes on from the weights."""

from pathlib import Path
from typing import Any

import pytest
import torch

from project.callbacks import Averaging, Checkpoint
from project.checkpoints import read_checkpoint
from project.errors import UserError
from tests.training import Spy, batches, fit, same, task, weights

GIVEN = batches(4, 4, 4, 4)


def of_network(checkpoint: dict[str, Any]) -> dict[str, torch.Tensor]:
    state = checkpoint["state_dict"].items()
    return {n.removeprefix("network."): t for n, t in state if n.startswith("network.")}


def by_hand(states: list[dict[str, torch.Tensor]], decay: float) -> dict[str, torch.Tensor]:
    average = dict(states[0])
    for number, state in enumerate(states[1:]):
        now = min(decay, (1 + number) / (10 + number))
        for name, tensor in state.items():
            moved = now * average[name] + (1 - now) * tensor
            average[name] = moved if tensor.is_floating_point() else tensor
    return average


def test_the_average_is_what_it_says_and_what_is_kept(tmp_path: Path) -> None:
    trained = task()
    states, spy = [weights(trained)], Spy(after=weights)
    fit(trained, GIVEN, tmp_path, Averaging(0.2), spy, checkpoint=Checkpoint(), max_epochs=2)
    expected = by_hand(states + spy.seen, 0.2)
    kept = read_checkpoint(tmp_path / "checkpoints" / "last.ckpt")
    for name, tensor in of_network(kept).items():
        torch.testing.assert_close(tensor, expected[name])
    assert same(kept["ema"]["weights"], spy.seen[-1])
    assert kept["ema"]["updates"] == 8
    assert same(weights(trained), of_network(kept))  # after training, whoever holds it has it


def test_training_is_the_same_with_and_without_it(tmp_path: Path) -> None:
    plain, averaged = Spy(after=weights), Spy(after=weights)
    fit(task(), GIVEN, tmp_path / "plain", plain, max_epochs=2)
    fit(task(), GIVEN, tmp_path / "averaged", Averaging(0.9), averaged, max_epochs=2)
    assert len(plain.seen) == 8
    assert all(same(*pair) for pair in zip(plain.seen, averaged.seen, strict=True))


def test_validation_uses_the_average(tmp_path: Path) -> None:
    class Watching(Averaging):
        def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            self.validated = weights(pl_module)

    watching = Watching(0.5)
    fit(task(), GIVEN, tmp_path, watching, checkpoint=Checkpoint())
    kept = of_network(read_checkpoint(tmp_path / "checkpoints" / "best.ckpt"))
    assert same(watching.validated, kept)


def test_with_accumulation_it_moves_once_per_step(tmp_path: Path) -> None:
    averaging = Averaging(0.5)
    fit(task(), GIVEN, tmp_path, averaging, accumulate_grad_batches=3)
    assert averaging.updates == 2


@pytest.mark.parametrize("options", [{}, {"val_check_interval": 3, "accumulate_grad_batches": 2}])
def test_resumed_it_is_the_same(tmp_path: Path, options: dict[str, int]) -> None:
    whole, parts = task(), task()
    fit(whole, GIVEN, tmp_path / "whole", Averaging(0.9), max_epochs=2, **options)
    for epochs in (1, 2):
        resume, parts = epochs > 1, task()
        fit(
            parts,
            GIVEN,
            tmp_path / "parts",
            Averaging(0.9),
            checkpoint=Checkpoint(),
            max_epochs=epochs,
            resume=resume,
            **options,
        )
    assert same(weights(whole), weights(parts))


def test_a_run_that_goes_on_without_it_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    fit(task(), GIVEN, tmp_path, Averaging(0.9), checkpoint=Checkpoint())
    fit(task(), GIVEN, tmp_path, Averaging(), checkpoint=Checkpoint(), resume=True, max_epochs=2)
    assert "goes on from the average" in capsys.readouterr().out
    assert "ema" not in read_checkpoint(tmp_path / "checkpoints" / "last.ckpt")


@pytest.mark.parametrize("decay", [0, 1, 5])
def test_the_decay_is_a_share(decay: float) -> None:
    with pytest.raises(UserError, match=f"ema.decay is {decay}"):
        Averaging(decay)
