"""What PyTorch really does where articles say something else; the best documentation there is."""

import pytest
import torch
from torch import nn


def test_a_mix_of_devices_fails_in_the_forward_pass() -> None:
    """Nothing is moved by itself; the meta device stands for an accelerator."""
    layer, sample = nn.Linear(2, 2, device="meta"), torch.zeros(1, 2)
    with pytest.raises((RuntimeError, NotImplementedError)):
        layer(sample)


def test_only_a_tensor_without_dimensions_may_stay_on_the_cpu() -> None:
    elsewhere = torch.zeros(3, device="meta")
    assert (elsewhere * torch.tensor(2.0)).device.type == "meta"
    with pytest.raises(RuntimeError, match="device"):
        elsewhere * torch.ones(3)


def test_a_leaf_changed_in_place_raises_at_once() -> None:
    weight = torch.zeros(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        weight += 1
    with torch.no_grad():  # as an optimizer does it
        weight += 1
    assert weight.tolist() == [1, 1]


def test_a_tensor_that_autograd_needs_raises_in_the_backward_pass() -> None:
    hidden = torch.ones(2, requires_grad=True).exp()
    total = hidden.sum()
    hidden.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()


def test_a_view_needs_contiguous_memory_and_permute_breaks_it() -> None:
    image = torch.arange(6).reshape(1, 2, 3).permute(0, 2, 1)  # [1, 3, 2]
    assert not image.is_contiguous()
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        image.view(6)
    assert image.reshape(6).tolist() == image.contiguous().view(6).tolist() == [0, 3, 1, 4, 2, 5]


def test_float16_overflows_where_bfloat16_and_float32_do_not() -> None:
    value = torch.tensor(12.0)
    assert value.half().exp().isinf()
    assert value.bfloat16().exp().isfinite()
    assert value.exp().isfinite()


def test_no_grad_saves_the_graph_and_eval_does_not() -> None:
    layer = nn.Linear(2, 2).eval()
    sample = torch.zeros(1, 2)
    assert layer(sample).requires_grad
    with torch.no_grad():
        assert not layer(sample).requires_grad
