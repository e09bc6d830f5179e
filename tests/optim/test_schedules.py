"""Schedules, by hand-worked values and against torch's own."""

import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from project.errors import UserError
from project.optim import Constant, Cosine, Linear, OneCycle, Plateau, Schedule, Steps
from project.optim.plateau import Watched


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (Constant(), [1, 1, 1, 1, 1]),
        (Constant(warmup_fraction=0.5), [1 / 3, 2 / 3, 1, 1, 1]),
        (Linear(), [1, 0.75, 0.5, 0.25, 0]),
        (Linear(final_fraction=0.2), [1, 0.8, 0.6, 0.4, 0.2]),
        (Cosine(), [1, (1 + math.sqrt(0.5)) / 2, 0.5, (1 - math.sqrt(0.5)) / 2, 0]),
        (Cosine(warmup_fraction=0.5, final_fraction=0.5), [1 / 3, 2 / 3, 1, 0.75, 0.5]),
        (OneCycle(warmup_fraction=0.5, start_fraction=0.2), [0.2, 0.6, 1, 0.5, 0]),
        (Steps(at=[0.5, 0.75], gamma=0.1), [1, 1, 0.1, 0.01, 0.01]),
        (Steps(at_epochs=[1, 3], gamma=0.5), [1, 0.5, 0.5, 0.25, 0.25]),
        (Plateau(warmup_fraction=0.5), [1 / 3, 2 / 3, 1, 1, 1]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_factors(schedule: Schedule, expected: list[float]) -> None:
    assert [schedule.factor(step, 4) for step in range(5)] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (Linear(per="epoch"), [1, 1, 0.5, 0.5]),
        (Cosine(per="epoch"), [1, 1, 0.5, 0.5]),
        (Steps(at=[0.25], per="epoch"), [1, 1, 0.1, 0.1]),
        (Steps(at_epochs=[1]), [1, 1, 0.1, 0.1]),
        (OneCycle(warmup_fraction=0.25, start_fraction=0.04, per="epoch"), [0.04, 1, 0.75, 0.75]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_per_epoch_the_factor_is_held(schedule: Schedule, expected: list[float]) -> None:
    assert [schedule.factor(step, 4, 2) for step in range(4)] == pytest.approx(expected)


def of_torch(make: Any, steps: int) -> list[float]:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler, rates = make(optimizer), []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


@pytest.mark.parametrize(
    ("schedule", "make"),
    [
        (Cosine(per="epoch"), lambda o: lr_scheduler.CosineAnnealingLR(o, 6)),
        (Steps(at_epochs=[2, 5]), lambda o: lr_scheduler.MultiStepLR(o, [2, 5])),
        (Steps(at_epochs=[2, 4], gamma=0.5), lambda o: lr_scheduler.StepLR(o, 2, 0.5)),
    ],
)
def test_by_epoch_as_torch_has_it(schedule: Schedule, make: Any) -> None:
    ours = [schedule.factor(epoch * 3, 18, 3) for epoch in range(6)]
    assert ours == pytest.approx(of_torch(make, 6))


def test_one_cycle_reaches_its_peak_whatever_the_length() -> None:
    for total in (10, 37, 1000):
        factors = [OneCycle().factor(step, total) for step in range(total)]
        peak = factors.index(max(factors))
        assert factors[peak] == 1
        assert peak == round(0.3 * total)
        assert factors[0] == pytest.approx(0.04)
        assert factors == sorted(factors[:peak]) + sorted(factors[peak:], reverse=True)


def test_past_the_end_the_rate_stays() -> None:
    assert Cosine(final_fraction=0.1).factor(9, 4) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Cosine(warmup_fraction=5), r"warmup_fraction is 5; .* 0 to below 1"),
        (lambda: Linear(final_fraction=-1), r"final_fraction is -1; .* 0 to 1"),
        (lambda: OneCycle(start_fraction=2), r"start_fraction is 2"),
        (lambda: Plateau(gamma=1), r"gamma is 1"),
        (lambda: Plateau(patience=-1), r"patience is -1"),
        (lambda: Steps(at=[30]), r"at is \[30\]; .* at_epochs"),
        (lambda: Steps(at_epochs=[0]), r"at_epochs is \[0\]"),
        (lambda: Steps(), r"at=None and at_epochs=None; give one"),
        (lambda: Steps([0.5], at_epochs=[3]), r"at=\[0.5\] and at_epochs=\[3\]"),
    ],
)
def test_a_setting_that_can_not_be_is_named(make: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()


@pytest.mark.parametrize("best_is", ["min", "max"])
def test_a_plateau_falls_when_torchs_does(best_is: Any) -> None:
    values = [1.0, 0.5, 0.49999, 0.6, 0.7, 0.3, math.nan, 0.31, 0.32, 0.4, 0.29, 0.5, 0.9, 1.1, 1.2]
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = lr_scheduler.ReduceLROnPlateau(optimizer, best_is, factor=0.5, patience=2)
    plateau, watched = Plateau(gamma=0.5, patience=2), Watched()
    for value in values:
        theirs.step(value)
        watched = plateau.after(watched, value, best_is)
        assert plateau.lowered(watched) == optimizer.param_groups[0]["lr"]
    assert watched.drops >= 2


def test_a_plateau_has_a_floor() -> None:
    assert Plateau(gamma=0.1, final_fraction=0.05).lowered(Watched(drops=9)) == 0.05


def test_torchs_own_schedules_climb_back_or_crash_past_their_end() -> None:
    """Why a schedule of ours knows how long the run was planned."""
    cosine = of_torch(lambda o: lr_scheduler.CosineAnnealingLR(o, 4), 8)
    assert cosine[4] == pytest.approx(0)
    assert cosine[7] == pytest.approx(0.854, abs=1e-3)
    with pytest.raises(ValueError, match="Tried to step 5 times"):
        of_torch(lambda o: lr_scheduler.OneCycleLR(o, 1.0, total_steps=4), 8)
