"""Parameter groups and schedules, by hand-worked values."""

import math

import pytest
import torch
from torch import nn

from project.errors import UserError
from project.models import ResNet
from project.optim import (
    Constant,
    Cosine,
    Linear,
    Part,
    Schedule,
    Scheduler,
    Steps,
    check_same_groups,
    group_names,
    parameter_groups,
)


def test_no_decay_on_biases_and_normalisation() -> None:
    network = ResNet(1, 3, width=4, depths=(1,))
    groups = {group["name"]: group for group in parameter_groups(network)}
    optimizer = torch.optim.AdamW(groups.values(), lr=0.1, weight_decay=0.3)
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.3, 0.0]
    decayed = {id(p) for p in groups["weights"]["params"]}
    for name, parameter in network.named_parameters():
        norm_or_bias = name.endswith("bias") or parameter.ndim == 1
        assert (id(parameter) in decayed) != norm_or_bias, name
    assert sum(len(g["params"]) for g in groups.values()) == len(list(network.parameters()))


def test_frozen_parameters_are_left_out() -> None:
    network = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    network[0].requires_grad_(False)
    assert [len(group["params"]) for group in parameter_groups(network)] == [1, 1]
    network.requires_grad_(False)
    with pytest.raises(UserError, match="No parameter of Sequential is trainable"):
        parameter_groups(network)


def test_a_part_has_its_own_rate_and_the_first_that_names_a_parameter_counts() -> None:
    network = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 1))
    parts = [Part("a", 0.5, {"0.weight"}), Part("b", 0.1, {"0.weight", "0.bias", "1.bias"})]
    groups = parameter_groups(network, parts)
    assert group_names(network, groups) == {
        "weights": ["1.weight", "2.weight"],
        "no_decay": ["2.bias"],
        "a.weights": ["0.weight"],
        "b.no_decay": ["0.bias", "1.bias"],
    }
    assert [group.get("lr_factor") for group in groups] == [None, None, 0.5, 0.1]


def test_groups_of_a_checkpoint_must_be_those_of_the_run() -> None:
    network = nn.Linear(2, 1)
    groups = parameter_groups(network)
    check_same_groups(network, None, groups)  # an old checkpoint does not say
    check_same_groups(network, {"weights": ["weight"], "no_decay": ["bias"]}, groups)
    with pytest.raises(UserError, match=r"1 differ, such as bias, which was in the group 'b\."):
        check_same_groups(network, {"weights": ["weight"], "b.no_decay": ["bias"]}, groups)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (Constant(), [1, 1, 1, 1, 1]),
        (Constant(warmup_fraction=0.5), [1 / 3, 2 / 3, 1, 1, 1]),
        (Linear(), [1, 0.75, 0.5, 0.25, 0]),
        (Linear(final_fraction=0.2), [1, 0.8, 0.6, 0.4, 0.2]),
        (Cosine(), [1, (1 + math.sqrt(0.5)) / 2, 0.5, (1 - math.sqrt(0.5)) / 2, 0]),
        (Cosine(warmup_fraction=0.5, final_fraction=0.5), [1 / 3, 2 / 3, 1, 0.75, 0.5]),
        (Steps(at=[0.5, 0.75], gamma=0.1), [1, 1, 0.1, 0.01, 0.01]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_factors(schedule: Schedule, expected: list[float]) -> None:
    assert [schedule.factor(step, 4) for step in range(5)] == pytest.approx(expected)


def test_past_the_end_the_rate_stays() -> None:
    assert Cosine(final_fraction=0.1).factor(9, 4) == pytest.approx(0.1)


def test_a_share_must_be_a_share() -> None:
    with pytest.raises(UserError, match=r"warmup_fraction is 5"):
        Cosine(warmup_fraction=5)
    with pytest.raises(UserError, match=r"at is \[30\]"):
        Steps(at=[30])


def test_scheduler_starts_with_the_warmed_up_rate() -> None:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.4)
    scheduler = Scheduler(optimizer, Constant(warmup_fraction=0.5))
    assert optimizer.param_groups[0]["lr"] == 0.4  # the total is not known yet
    scheduler.start(total_steps=6, base_lrs=[0.4])
    rates = []
    for _ in range(6):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert rates == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.4, 0.4])


def test_resumed_scheduler_takes_the_new_total_and_rate() -> None:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.4)
    scheduler = Scheduler(optimizer, Linear())
    scheduler.load_state_dict({"last_epoch": 2})
    scheduler.start(total_steps=8, base_lrs=[0.8])
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.8 * 0.75)


@pytest.mark.parametrize("total", [math.inf, -1])
def test_schedule_needs_an_end(total: float) -> None:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.4)
    with pytest.raises(UserError, match=r"trainer\.max_epochs"):
        Scheduler(optimizer, Cosine()).start(total, [0.4])
