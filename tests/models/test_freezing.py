"""What is trained when, and what torch itself does with BatchNorm."""

import pytest
import torch
from torch import nn

from project.errors import UserError
from project.models import ResNet
from project.models.freezing import (
    batch_norms,
    begun,
    matching,
    part_names,
    plan,
    replace_batch_norms,
)


def network() -> ResNet:
    torch.manual_seed(0)
    return ResNet(1, 3, width=4, depths=(1, 1))


class TestBatchNormOfTorch:
    """The facts behind the policies, as they are and not as they are often told."""

    def test_statistics_move_without_gradients(self) -> None:
        norm = nn.BatchNorm1d(2).requires_grad_(False)
        with torch.no_grad():
            norm(torch.randn(8, 2) + 5)
        assert norm.num_batches_tracked == 1
        assert norm.running_mean.mean() > 0.3

    def test_only_eval_mode_stops_them_and_train_undoes_it(self) -> None:
        body = nn.Sequential(nn.BatchNorm1d(2))
        body[0].eval()
        body(torch.randn(8, 2))
        assert body[0].num_batches_tracked == 0
        body.train()  # what a loop does at the start of an epoch
        body(torch.randn(8, 2))
        assert body[0].num_batches_tracked == 1

    def test_a_batch_of_another_kind_changes_the_output_in_training_mode_only(self) -> None:
        norm, sample = nn.BatchNorm1d(1), torch.tensor([[1.0]])
        outputs = {}
        for mode in (True, False):
            norm.train(mode)
            mates = [torch.full((3, 1), value) for value in (0.0, 9.0)]
            outputs[mode] = [norm(torch.cat([sample, mate]))[0].item() for mate in mates]
        assert outputs[True][0] != pytest.approx(outputs[True][1], abs=0.1)
        assert outputs[False][0] == outputs[False][1]


def test_a_pattern_means_everything_below() -> None:
    names = part_names(network())
    assert matching(names, ["stem"], "x") == {n for n in names if n.split(".")[0] == "stem"}
    assert matching(names, ["blocks.1*"], "x") == {n for n in names if n.startswith("blocks.1")}
    assert matching(names, ["*.residual.1"], "x") >= {
        "blocks.0.residual.1",
        "blocks.1.residual.1.weight",
    }
    assert matching(names, ["head.3.bias"], "x") == {"head.3.bias"}
    assert matching(names, [], "x") == set()


def test_a_pattern_that_matches_nothing_lists_the_names() -> None:
    with pytest.raises(UserError, match=r"freezing\.freeze has 'stm'.*Did you mean 'stem'.*head"):
        matching(part_names(network()), ["head", "stm"], "freezing.freeze")


def test_unfreezing_must_be_of_something_frozen() -> None:
    with pytest.raises(UserError, match=r"freezing\.unfreeze has 'head'.*stem"):
        plan(network(), ["stem"], {1: ["head"]})


def test_plan_by_epoch() -> None:
    model = network()
    planned = plan(model, ["stem", "blocks"], {3: ["blocks"], 1: ["blocks.1"]})
    starts = {name: planned.parameters.get(name, 0) for name, _ in model.named_parameters()}
    for name, start in starts.items():
        expected = {"stem": None, "head": 0}.get(name.split(".")[0], 3)
        assert start == (1 if name.startswith("blocks.1") else expected), name
    assert planned.modules["blocks"] == 3
    assert planned.modules["blocks.1.residual.0"] == 1
    assert not {"head", ""} & set(planned.modules)


def test_norms_that_stay_fixed_and_norms_that_are_free() -> None:
    model = network()
    norms = batch_norms(model, matching(part_names(model), ["blocks.0"], "x"))
    assert norms == ["blocks.0.residual.1", "blocks.0.residual.4"]
    fixed = plan(model, ["blocks.0"], {2: ["blocks.0"]}, fixed=norms)
    free = plan(model, ["blocks.0"], {2: ["blocks.0"]}, free=norms)
    for name in norms:
        assert fixed.modules[name] is None
        assert fixed.parameters[f"{name}.weight"] == 2  # scale and shift are unfrozen with the rest
        assert free.modules[name] == free.parameters[f"{name}.weight"] == 0


def test_a_norm_whose_scale_alone_is_frozen_counts() -> None:
    assert batch_norms(network(), {"stem.1.weight"}) == ["stem.1"]


def test_begun() -> None:
    assert [begun(start, 1) for start in (0, 1, 2, None)] == [True, True, False, False]


def test_batch_norm_replaced_by_group_norm_in_place_and_counted() -> None:
    model = network()
    nn.init.constant_(model.stem[1].weight, 3.0)
    names = batch_norms(model, part_names(model))
    assert len(names) == 6
    assert replace_batch_norms(model, names) == names
    assert not [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    assert isinstance(model.stem[1], nn.GroupNorm)
    assert torch.equal(model.stem[1].weight, torch.full((4,), 3.0))
    assert not [name for name, _ in model.named_buffers()]
    assert replace_batch_norms(model, names) == []  # done already
    assert model(torch.randn(1, 1, 8, 8)).shape == (1, 3)  # a batch of one trains


@pytest.mark.parametrize(("channels", "groups"), [(64, 32), (24, 24), (50, 25), (7, 7), (37, 1)])
def test_groups_divide_the_channels(channels: int, groups: int) -> None:
    model = nn.Sequential(nn.BatchNorm2d(channels, affine=False))
    replace_batch_norms(model, ["0"])
    assert model[0].num_groups == groups
    assert model[0].weight is None


def test_an_activation_inside_the_norm_stays() -> None:
    class NormAct(nn.BatchNorm2d):
        def __init__(self) -> None:
            super().__init__(4)
            self.act = nn.ReLU()

    model = nn.Sequential(NormAct())
    replace_batch_norms(model, ["0"])
    assert model(torch.randn(2, 4, 3, 3)).min() == 0
