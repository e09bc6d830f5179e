"""The exportable suppression chooses as torchvision's does."""

import pytest
import torch
from torchvision.ops import batched_nms

from project.models.suppression import best_boxes


@pytest.mark.parametrize("seed", range(5))
def test_as_torchvision_chooses(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    corner = torch.rand(2, 200, 2, generator=generator) * 80
    boxes = torch.cat([corner, corner + 5 + torch.rand(2, 200, 2, generator=generator) * 20], dim=2)
    scores = torch.rand(2, 200, 3, generator=generator)
    found = best_boxes(boxes, scores, count=150, overlap=0.5)
    for row, (chosen, kept, labels) in enumerate(zip(*found, strict=True)):
        best, place = scores[row].flatten().topk(150)
        candidates = boxes[row][place // 3]
        expected = batched_nms(candidates, best, place % 3, 0.5)
        assert torch.equal(kept.nonzero().flatten(), expected.sort().values)
        assert torch.equal(chosen, candidates)
        assert torch.equal(labels, place % 3)


def test_by_hand() -> None:
    boxes = torch.tensor([[[0, 0, 10, 10], [1, 0, 11, 10], [0, 0, 10, 10.0]]])
    scores = torch.tensor([[[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]]])
    _, kept, labels = best_boxes(boxes, scores, count=3, overlap=0.5)
    assert labels.tolist() == [[0, 0, 1]]
    assert kept.tolist() == [[pytest.approx(0.9), 0, pytest.approx(0.7)]]  # IoU 9/11 of one class
