"""Initialisation keeps the variance through depth."""

import pytest
import torch
from torch import nn

from project.models.initialization import initialize


@pytest.mark.parametrize("depth", [10, 50])
def test_variance_survives_relu_convolutions(depth: int) -> None:
    torch.manual_seed(0)
    stack = nn.Sequential(
        *(m for _ in range(depth) for m in (nn.Conv2d(64, 64, 3, padding=1), nn.ReLU()))
    )
    initialize(stack)
    image = torch.randn(4, 64, 16, 16)
    with torch.no_grad():
        share = stack(image).square().mean() / image.square().mean()
    assert 0.05 < share < 20


def test_torch_default_does_not() -> None:
    # the reason for doing it ourselves: the default shrinks the signal at every layer
    torch.manual_seed(0)
    stack = nn.Sequential(
        *(m for _ in range(50) for m in (nn.Conv2d(64, 64, 3, padding=1), nn.ReLU()))
    )
    image = torch.randn(4, 64, 16, 16)
    with torch.no_grad():
        outputs = stack(image)
    between_samples = (outputs[0] - outputs[1]).square().mean().sqrt()
    assert between_samples < 1e-3  # of inputs that differ by 1.4: nothing of them is left


def test_by_layer() -> None:
    torch.manual_seed(0)
    conv, linear, norm = nn.Conv2d(16, 32, 3), nn.Linear(100, 50), nn.BatchNorm2d(4)
    nn.init.constant_(norm.weight, 3.0)
    initialize(nn.Sequential(conv, linear, norm))
    assert conv.weight.std().item() == pytest.approx((2 / (32 * 9)) ** 0.5, rel=0.05)
    assert linear.weight.abs().max().item() <= (6 / 150) ** 0.5
    assert linear.weight.std().item() == pytest.approx((2 / 150) ** 0.5, rel=0.05)
    assert torch.equal(norm.weight, torch.ones(4))
    for layer in (conv, linear, norm):
        assert torch.count_nonzero(layer.bias) == 0
