"""Torchvision's networks, made to fit."""

import pytest
import torch
from torch import nn

from project.errors import UserError
from project.models import Backbone, ResNet


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small", "efficientnet_b0", "vit_b_32"])
@pytest.mark.parametrize("in_channels", [1, 3])
def test_first_and_last_layer_fit(name: str, in_channels: int) -> None:
    if name == "vit_b_32" and in_channels == 3:
        pytest.skip("one large transformer is enough")
    network = Backbone(in_channels, 7, name=name).eval()
    with torch.no_grad():
        assert network(torch.zeros(2, in_channels, 224, 224)).shape == (2, 7)
    linear = [m for m in network.modules() if isinstance(m, nn.Linear)][-1]
    assert torch.count_nonzero(linear.bias) == 0


def test_unknown_name_suggests_one() -> None:
    with pytest.raises(UserError, match=r"'resnet81'.*Did you mean 'resnet18'"):
        Backbone(3, 2, name="resnet81")


def test_pretrained_weights_want_colour() -> None:
    with pytest.raises(UserError, match="3 channels; these have 1"):
        Backbone(1, 2, name="resnet18", pretrained=True)


@pytest.mark.parametrize(
    "wrong", [{"width": 0}, {"depths": ()}, {"depths": (1, 0)}, {"dropout": 1.0}]
)
def test_resnet_refuses_nonsense(wrong: dict) -> None:
    with pytest.raises(UserError, match=next(iter(wrong))):
        ResNet(1, 2, **wrong)


def test_resnet_shape_arithmetic() -> None:
    network = ResNet(1, 3, width=8, depths=(1, 2, 1))
    assert [block.residual[0].stride[0] for block in network.blocks] == [1, 2, 1, 2]
    assert network.head[-1].in_features == 32
    assert network.eval()(torch.zeros(1, 1, 1, 1)).shape == (1, 3)
