"""Pooling over lengths, against a loop over the samples."""

import torch

from project.models.pooling import masked, mean_and_max


def test_pooling_is_that_of_each_sample_alone() -> None:
    torch.manual_seed(0)
    features, lengths = torch.randn(4, 6, 3) - 5, [6, 1, 3, 2]  # below 0: padding is no maximum
    padding = torch.arange(6) >= torch.tensor(lengths)[:, None]
    alone = [
        torch.cat([f[:n].mean(0), f[:n].amax(0)]) for f, n in zip(features, lengths, strict=True)
    ]
    torch.testing.assert_close(mean_and_max(features, padding), torch.stack(alone))


def test_nonsense_under_padding_is_not_seen() -> None:
    features = torch.tensor([[[1.0], [float("nan")], [float("inf")]]])
    padding = torch.tensor([[False, True, True]])
    assert masked(features, padding).tolist() == [[[1.0], [0.0], [0.0]]]
    assert mean_and_max(features, padding).tolist() == [[1.0, 1.0]]


def test_no_gradient_flows_into_padding() -> None:
    features = torch.randn(1, 3, 2, requires_grad=True)
    padding = torch.tensor([[False, False, True]])
    mean_and_max(features, padding).sum().backward()
    assert features.grad is not None
    assert features.grad[0, 2].tolist() == [0.0, 0.0]
    assert features.grad[0, :2].abs().min() > 0
