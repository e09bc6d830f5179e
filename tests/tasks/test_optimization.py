"""Schedules within a training: real steps counted, validations seen once, a high rate warned of."""

import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from project.callbacks import Checkpoint
from project.errors import UserError
from project.optim import Cosine, Linear, OneCycle, Plateau, Steps
from project.runs import Run
from tests.training import Small, Spy, batches, fit, task

GIVEN = batches(4, 4, 4, 4, 4)


def rates(schedule: Any, folder: Path, **options: Any) -> list[float]:
    def rate(trained: Any) -> float:
        return trained.optimizers().param_groups[0]["lr"]

    spy = Spy(before_step=rate)
    fit(task(schedule=schedule), GIVEN, folder, spy, **options)
    return spy.seen


def test_the_total_is_that_of_optimizer_steps(tmp_path: Path) -> None:
    found = rates(Linear(), tmp_path, max_epochs=2, accumulate_grad_batches=2)
    assert found == pytest.approx([0.1 * (1 - step / 6) for step in range(6)])
    limited = rates(Linear(), tmp_path, max_epochs=2, limit_train_batches=2)
    assert limited == pytest.approx([0.1, 0.075, 0.05, 0.025])
    by_steps = rates(Linear(), tmp_path, max_steps=5, max_epochs=-1)
    assert by_steps == pytest.approx([0.1, 0.08, 0.06, 0.04, 0.02])


def test_one_cycle_reaches_its_peak(tmp_path: Path) -> None:
    assert max(rates(OneCycle(), tmp_path, max_epochs=3)) == pytest.approx(0.1)


def test_by_epoch_also_with_accumulation(tmp_path: Path) -> None:
    expected = [0.1] * 3 + [0.01] * 3
    found = rates(Steps(at_epochs=[1]), tmp_path, max_epochs=2, accumulate_grad_batches=2)
    assert found == pytest.approx(expected)
    held = rates(Cosine(per="epoch"), tmp_path, max_epochs=2, accumulate_grad_batches=2)
    assert held == pytest.approx([0.1] * 3 + [0.05] * 3)


class Never(Plateau):
    """Counts what it is shown, and finds nothing better."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.shown = 0

    def after(self, watched: Any, value: float, best_is: Any) -> Any:
        self.shown += 1
        return super().after(watched, 1.0, best_is)


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"max_epochs": 4}, 4),
        ({"max_epochs": 4, "check_val_every_n_epoch": 2}, 2),
        ({"max_epochs": 2, "val_check_interval": 2}, 4),
        ({"max_epochs": 2, "num_sanity_val_steps": 1}, 2),
        ({"max_epochs": 2, "val_check_interval": 2, "accumulate_grad_batches": 3}, 4),
    ],
)
def test_a_plateau_sees_each_validation_once(
    tmp_path: Path, options: dict[str, int], shown: int
) -> None:
    schedule = Never(patience=0, gamma=0.5)
    rates(schedule, tmp_path, **options)
    assert schedule.shown == shown


def test_a_plateau_is_told_on_screen_and_in_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    rates(Never(patience=0, gamma=0.1), tmp_path, max_epochs=3)
    assert [row["lr"] for row in Run(tmp_path).history] == pytest.approx([0.1, 0.1, 0.01])
    said = capsys.readouterr().out
    assert "val_loss has not become better than 1.0, 1 times in a row: learning rate 0.1" in said


@pytest.mark.parametrize(
    ("schedule", "options", "message"),
    [
        (Plateau("val_acuracy"), {}, r"val_acuracy.*Did you mean 'val_accuracy'"),
        (Plateau(), {"limit_val_batches": 0}, "this run validates nothing"),
    ],
)
def test_a_plateau_with_nothing_to_see_is_refused_before_training(
    tmp_path: Path, schedule: Plateau, options: dict[str, int], message: str
) -> None:
    trained = Spy(after=lambda t: None)
    with pytest.raises(UserError, match=message):
        fit(task(schedule=schedule), GIVEN, tmp_path, trained, **options)
    assert trained.seen == []


def test_a_finished_run_made_longer(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    for epochs in (2, 4):
        fit(
            task(schedule=Cosine()),
            GIVEN,
            tmp_path,
            checkpoint=Checkpoint(),
            max_epochs=epochs,
            resume=epochs > 2,
        )
    logged = [row["lr"] for row in Run(tmp_path).history]
    assert 0 < logged[3] <= logged[2] <= logged[1] < logged[0]
    assert "planned with 10 optimizer steps and now has 20" in capsys.readouterr().out


def test_evaluation_and_prediction_build_no_graph(tmp_path: Path) -> None:
    built = []

    class Watched(Small):
        def forward(self, features: Tensor) -> Tensor:
            outputs = super().forward(features)
            built.append((self.training, outputs.requires_grad))
            return outputs

    trainer = fit(task(Watched), GIVEN, tmp_path)
    trainer.predict(trainer.lightning_module, DataLoader(GIVEN, batch_size=None))
    assert set(built) == {(True, True), (False, False)}
    assert built.count((False, False)) == 1 + len(GIVEN)


@pytest.mark.parametrize(
    ("optimizer", "lr", "warns"),
    [("AdamW", 1e-2, True), ("Adam", 0.1, True), ("AdamW", 9e-3, False), ("SGD", 0.1, False)],
)
def test_a_rate_that_adam_seldom_bears_is_warned_of(optimizer: str, lr: float, warns: bool) -> None:
    trained = task(optimizer=lambda groups: getattr(torch.optim, optimizer)(groups, lr=lr))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        trained.configure_optimizers()
    told = [str(each.message) for each in said]
    assert any(re.search(rf"lr is {lr:g}, which is high for {optimizer}", t) for t in told) == warns
