"""A schedule on an optimizer: started, resumed, and in a run that was made longer."""

import math
from typing import Any

import pytest
import torch
from torch import nn

from project.errors import UserError
from project.optim import Constant, Cosine, Linear, OneCycle, Plateau, Schedule, Scheduler, Steps


def make(schedule: Schedule, lr: float = 1.0) -> Scheduler:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=lr)
    return Scheduler(optimizer, schedule)


def rate(scheduler: Scheduler) -> float:
    return scheduler.optimizer.param_groups[0]["lr"]


def run(scheduler: Scheduler, steps: int) -> list[float]:
    rates = []
    for _ in range(steps):
        rates.append(rate(scheduler))
        scheduler.optimizer.step()
        scheduler.step()
    return rates


def resumed(before: Scheduler, schedule: Schedule) -> Scheduler:
    after = make(schedule)
    after.load_state_dict(before.state_dict())
    return after


def test_scheduler_starts_with_the_warmed_up_rate() -> None:
    scheduler = make(Constant(warmup_fraction=0.5), lr=0.4)
    assert rate(scheduler) == 0.4  # the total is not known yet
    scheduler.start(total_steps=6, base_lrs=[0.4])
    assert run(scheduler, 6) == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.4, 0.4])


def test_resumed_scheduler_takes_the_new_rate() -> None:
    scheduler = make(Linear(), lr=0.4)
    scheduler.load_state_dict({"last_epoch": 2})  # all that an older version wrote
    scheduler.start(total_steps=8, base_lrs=[0.8])
    assert rate(scheduler) == pytest.approx(0.8 * 0.75)


@pytest.mark.parametrize("total", [math.inf, -1])
@pytest.mark.parametrize("schedule", [Cosine(), Steps([0.5]), Plateau(warmup_fraction=0.1)])
def test_schedule_needs_an_end(total: float, schedule: Schedule) -> None:
    with pytest.raises(UserError, match=r"trainer\.max_epochs"):
        make(schedule).start(total, [0.4])


@pytest.mark.parametrize("schedule", [Constant(), Plateau(), Steps(at_epochs=[1])])
def test_some_schedules_need_none(schedule: Schedule) -> None:
    scheduler = make(schedule)
    scheduler.start(math.inf, [0.5], steps_per_epoch=2)
    later = 0.05 if isinstance(schedule, Steps) else 0.5
    assert run(scheduler, 3) == pytest.approx([0.5, 0.5, later])


@pytest.mark.parametrize("schedule", [Cosine(per="epoch"), Steps(at_epochs=[3])])
def test_epochs_need_a_length(schedule: Schedule) -> None:
    with pytest.raises(UserError, match="an epoch of this data has no known length"):
        make(schedule).start(100, [0.4], steps_per_epoch=math.inf)


@pytest.mark.parametrize(
    "schedule",
    [
        Cosine(),
        Cosine(warmup_fraction=0.25, final_fraction=0.1),
        Cosine(per="epoch"),
        Linear(final_fraction=0.2),
        OneCycle(),
        Steps([0.5, 0.75]),
        Steps(at_epochs=[1, 3]),
        Constant(warmup_fraction=0.25),
    ],
    ids=lambda s: f"{type(s).__name__} {vars(s)}",
)
@pytest.mark.parametrize("done", [4, 6, 8])
def test_a_run_made_longer_does_not_climb_back_and_never_stands_still(
    schedule: Schedule, done: int
) -> None:
    planned = make(schedule)
    planned.start(8, [1.0], 2)
    before = run(planned, done)
    longer = resumed(planned, schedule)
    longer.start(16, [1.0], 2)
    after = run(longer, 16 - done)
    assert max(after) <= before[-1]
    assert min(after) > 0
    assert after == sorted(after, reverse=True)


def test_an_unfinished_run_made_longer_waits_for_the_longer_schedule() -> None:
    planned = make(Linear())
    planned.start(8, [1.0])
    run(planned, 4)  # ends at 5/8
    longer = resumed(planned, Linear())
    told = longer.start(16, [2.0])
    assert "planned with 8 optimizer steps and now has 16" in str(told)
    assert "stays at or below 1.25 until Linear falls below that" in str(told)
    # the longer one passes 5/8 at step 6 of 16
    expected = [5 / 8, 5 / 8, 5 / 8, 9 / 16, 8 / 16]
    assert run(longer, 5) == pytest.approx([2 * factor for factor in expected])


def test_a_schedule_that_ended_at_nothing_says_which_setting_to_give() -> None:
    planned = make(Cosine())
    planned.start(100, [1.0])
    last = run(planned, 100)[-1]
    longer = resumed(planned, Cosine())
    told = str(longer.start(200, [1.0]))
    assert "--model.schedule.final_fraction 0.1" in told
    assert "hardly anything will change" in told
    assert run(longer, 3) == pytest.approx([last] * 3)
    given = resumed(planned, Cosine(final_fraction=0.1))
    assert str(given.start(200, [1.0])).endswith("its learning rate goes on at or below 0.1")
    assert run(given, 3) == pytest.approx([0.1] * 3, rel=1e-2)


def test_the_setting_counts_also_when_the_run_is_made_longer_again() -> None:
    first = make(Cosine())
    first.start(10, [1.0])
    run(first, 10)
    second = resumed(first, Cosine())
    second.start(20, [1.0])
    run(second, 10)
    third = resumed(second, Cosine(final_fraction=0.5))
    third.start(30, [1.0])
    assert run(third, 1) == pytest.approx([0.5], rel=2e-2)


def test_made_longer_within_the_warm_up_it_goes_on_warming_up() -> None:
    planned = make(Cosine(warmup_fraction=0.5))
    planned.start(8, [1.0])
    before = run(planned, 2)
    longer = resumed(planned, Cosine(warmup_fraction=0.5))
    assert longer.start(16, [1.0]) is None
    after = run(longer, 14)
    assert max(before) < max(after) == 1


@pytest.mark.parametrize("schedule", [Cosine(), OneCycle(), Plateau(patience=0, gamma=0.5)])
@pytest.mark.parametrize("done", [1, 3, 7])
def test_resumed_anywhere_the_rates_are_the_same(schedule: Any, done: int) -> None:
    def go_on(scheduler: Scheduler, steps: range) -> list[float]:
        rates = []
        for step in steps:
            rates += run(scheduler, 1)
            if step % 2:  # a validation, never better
                scheduler.see(1.0, "min")
        return rates

    whole = make(schedule)
    whole.start(8, [1.0], 2)
    expected = go_on(whole, range(8))
    first = make(schedule)
    first.start(8, [1.0], 2)
    rates = go_on(first, range(done))
    second = resumed(first, schedule)
    assert second.start(8, [1.0], 2) is None
    assert rates + go_on(second, range(done, 8)) == expected
    assert second.state_dict() == whole.state_dict()


def test_a_plateau_acts_at_once_also_while_warming_up() -> None:
    scheduler = make(Plateau(patience=1, gamma=0.5, warmup_fraction=0.5))
    scheduler.start(4, [1.0])
    assert run(scheduler, 1) == pytest.approx([1 / 3])
    assert [scheduler.see(2.0, "min") for _ in range(2)] == [None, None]
    assert "not become better than 2.0, 2 times in a row" in str(scheduler.see(2.0, "min"))
    assert run(scheduler, 3) == pytest.approx([2 / 3 / 2, 0.5, 0.5])


@pytest.mark.parametrize("monitor", ["val_los", "train_loss"])
def test_a_plateau_without_its_metric_is_refused_with_the_names(monitor: str) -> None:
    logged = {"train_loss": "min", "val_loss": "min", "val_f1": "max"}
    with pytest.raises(UserError, match=rf"{monitor}.*no validation.*Allowed: val_f1, val_loss"):
        Plateau(monitor).check(logged, 3)


def test_a_plateau_without_a_validation_is_refused() -> None:
    with pytest.raises(UserError, match="this run validates nothing"):
        Plateau().check({"val_loss": "min"}, 0)
