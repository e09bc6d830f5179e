"""Feature maps at several scales, of our own and of libraries."""

from pathlib import Path

import pytest
import torch

from project.errors import UserError
from project.models.stages import Stages

OPTIONS = {"name": None, "weights": None, "width": 8, "strides": (4, 8, 16)}


def stages(**options: object) -> Stages:
    torch.manual_seed(0)
    return Stages(3, **{**OPTIONS, **options})


@pytest.mark.parametrize("name", [None, "resnet18", "timm/resnet18"])
def test_each_map_has_its_stride_and_channels(name: str | None) -> None:
    if name and name.startswith("timm/"):
        pytest.importorskip("timm")
    network = stages(name=name).eval()
    maps = network(torch.zeros(2, 3, 50, 65))  # rounded up where a stride does not go round
    for each, stride, channels in zip(maps, network.strides, network.channels, strict=True):
        assert each.shape == (2, channels, -(-50 // stride), -(-65 // stride))
    assert network.training is False


def test_pretrained_weights_are_taken_and_said(tmp_path: Path) -> None:
    given = stages(name="resnet18", strides=(8, 32))
    path = tmp_path / "weights.pt"
    torch.save(given.maps.state_dict(), path)
    torch.manual_seed(1)
    network = Stages(3, **{**OPTIONS, "name": "resnet18", "strides": (8, 32),
                           "weights": str(path)})  # fmt: skip
    image = torch.randn(1, 3, 64, 64)
    for one, other in zip(given.eval()(image), network.eval()(image), strict=True):
        assert torch.equal(one, other)
    assert "matched 120 of 120 tensors" in network.loaded
    assert network.expects["mean"] == [0.485, 0.456, 0.406]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "resnet18", "strides": (2, 4)}, r"strides are \[2, 4\]; resnet18 has maps of"),
        ({"name": "vgg11"}, r"name is 'vgg11'; as stages serve timm/ .* the ResNets"),
        ({"weights": "file.pt"}, r"weights is 'file.pt', and name is null"),
        ({"strides": (3, 6)}, r"strides are \[3, 6\]; they are powers of 2"),
        ({"strides": (16, 8)}, r"strides are \[16, 8\]; they are powers of 2 from the finest on"),
    ],
)
def test_what_can_not_be(options: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        stages(**options)
