"""Non-maximum suppression of a fixed number of boxes, in operations that every exporter knows."""

import torch
from torch import Tensor

ROUNDS = 16
"""A box that is suppressed suppresses none: how long a chain of such boxes may be."""


def best_boxes(
    boxes: Tensor, scores: Tensor, *, count: int, overlap: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The best boxes of each picture, without those that a better one of their class overlaps.

    The same as torchvision's `batched_nms`, which has as many boxes as there are and so can't be
    exported with a free batch size. Here are always `count`, those left out with a score of 0.

    Args:
        boxes: float [B, A, 4], left, top, right, bottom.
        scores: Of each class: float [B, A, C], from 0 to 1.
        count: Boxes that are given, the best first; fewer if there are fewer candidates.
        overlap: Intersection over union above which two boxes are one object.

    Returns:
        boxes float [B, count, 4], scores float [B, count], labels int64 [B, count]
    """
    num_classes = scores.shape[2]
    best, place = scores.flatten(1).topk(count, dim=1)  # [B, count]
    labels = place % num_classes
    chosen = boxes.gather(1, (place // num_classes)[:, :, None].expand(-1, -1, 4))
    # boxes of different classes are moved apart, so that they don't overlap
    span = chosen.amax(dim=(1, 2), keepdim=True) + 1
    apart = chosen + labels[:, :, None] * span
    overlaps = _overlaps(apart) > overlap  # [B, count, count]
    better = torch.ones_like(overlaps[0]).triu(1)  # the row's box is better than the column's
    rivals = overlaps & better
    kept = torch.ones_like(best, dtype=torch.bool)
    for _ in range(ROUNDS):
        kept = ~(rivals & kept[:, :, None]).any(dim=1)
    return chosen, best * kept, labels


def _overlaps(boxes: Tensor) -> Tensor:
    """Intersection over union of each with each: float [B, N, N]."""
    low = torch.maximum(boxes[:, :, None, :2], boxes[:, None, :, :2])
    high = torch.minimum(boxes[:, :, None, 2:], boxes[:, None, :, 2:])
    both = (high - low).clamp(min=0).prod(dim=3)
    area = (boxes[:, :, 2:] - boxes[:, :, :2]).clamp(min=0).prod(dim=2)
    return both / (area[:, :, None] + area[:, None, :] - both).clamp(min=1e-9)
