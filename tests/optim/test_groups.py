"""Which parameter is in which group."""

import pytest
import torch
from torch import nn

from project.errors import UserError
from project.models import ResNet
from project.optim import Part, check_same_groups, group_names, parameter_groups


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
