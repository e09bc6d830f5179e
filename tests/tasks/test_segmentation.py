"""Segmentation: loss, overlap and masks by hand; pixels that are ignored count nowhere."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from project.batches import IGNORED
from project.errors import UserError
from project.tasks import Segmentation
from project.tasks.segmentation import Overlap, ious, overlap

CLASSES = ["ground", "cell"]
X = IGNORED


class Echo(nn.Module):
    """Gives its input back, plus a parameter to train."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, image: Tensor) -> Tensor:
        return image + self.bias


def task(**options: object) -> Segmentation:
    return Segmentation(Echo(), CLASSES, **options)


def batch(logits: Tensor, target: list, size: list[list[int]] | None = None) -> dict:
    made = {"inputs": {"image": logits}, "target": torch.tensor(target),
            "index": torch.arange(len(target))}  # fmt: skip
    return made if size is None else {**made, "size": torch.tensor(size)}


def saying(classes: list, sure: float = 20.0) -> Tensor:
    """Logits float [B, 2, H, W] that say these classes."""
    wanted = nn.functional.one_hot(torch.tensor(classes), 2).movedim(-1, 1)
    return wanted.float() * sure


def test_loss_is_the_mean_over_the_pixels_that_count() -> None:
    logits = torch.zeros(1, 2, 1, 3)
    logits[0, 1, 0, 1] = math.log(3)  # 3/4 that it is a cell
    loss, _ = task().loss_and_predictions(batch(logits, [[[0, 1, X]]]))
    assert loss.item() == pytest.approx((math.log(2) + math.log(4 / 3)) / 2)


def test_a_batch_that_is_ignored_as_a_whole_is_no_number_nowhere() -> None:
    given = batch(torch.zeros(1, 2, 1, 2, requires_grad=True), [[[X, X]]])
    loss, predictions = task(dice=1.0).loss_and_predictions(given)
    loss.backward()
    assert loss.item() == 0
    assert task().sample_losses(predictions, given).tolist() == [0.0]


def test_the_loss_of_a_split_does_not_depend_on_its_batches() -> None:
    torch.manual_seed(0)
    logits, target = torch.randn(3, 2, 2, 2), torch.randint(0, 2, (3, 2, 2))
    target[0, 0] = X
    target[2] = X
    target[2, 0, 0] = 1
    found = []
    for parts in ([3], [1, 2], [1, 1, 1]):
        measured = task()
        for one, other in zip(logits.split(parts), target.split(parts), strict=True):
            given = batch(one, other.tolist())
            loss, _ = measured.loss_and_predictions(given)
            measured.val_loss.update(loss.detach(), measured.loss_weight(given))
        found.append(measured.val_loss.compute().item())
    assert found[1:] == pytest.approx(found[:1] * 2)


def test_balanced_weights_by_hand() -> None:
    measured = task(class_counts=[30, 10], class_weights="balanced")  # weights 2/3 and 2
    loss, _ = measured.loss_and_predictions(batch(torch.zeros(1, 2, 1, 3), [[[0, 1, X]]]))
    assert measured.loss_weight(batch(torch.zeros(1, 2, 1, 3), [[[0, 1, X]]])).item() == (
        pytest.approx(8 / 3)
    )
    assert loss.item() == pytest.approx(math.log(2))


def test_overlap_by_hand_over_uneven_batches() -> None:
    metric = Overlap(2)
    metric.update(saying([[[0, 1, 1, 1]]]), torch.tensor([[[0, 0, 1, X]]]))
    metric.update(
        saying([[[1, 0, 0, 0]], [[0, 0, 1, 1]]]), torch.tensor([[[1, 0, 0, 1]], [[0, X, X, X]]])
    )
    found = metric.compute()
    # ground: 4 right, 1 called cell, 1 cell called so; cell: 2 right
    assert found["confusion"].tolist() == [[4, 1], [1, 2]]
    assert found["mean_iou"].item() == pytest.approx((4 / 6 + 2 / 4) / 2)
    assert found["pixel_accuracy"].item() == pytest.approx(6 / 8)


def test_a_class_that_is_nowhere_does_not_count() -> None:
    counts = torch.tensor([[4, 1, 0], [1, 2, 0], [0, 0, 0]])
    assert ious(counts)[2].isnan()
    metric = Overlap(3)
    metric.update(torch.tensor([[[0, 1]]]), torch.tensor([[[0, 1]]]))
    assert metric.compute()["mean_iou"].item() == 1.0


def test_dice_by_hand() -> None:
    target = torch.tensor([[[0, 1, X]]])
    assert overlap(saying([[[0, 1, 0]]], 50.0), target).tolist() == pytest.approx([1, 1])
    # each probability 1/2: both (1/2 + 1)*... 2 * 1/2 + 1 over 1 + 1 + 1
    half = (2 * 0.5 + 1) / (1 + 1 + 1)
    assert overlap(torch.zeros(1, 2, 1, 3), target).tolist() == pytest.approx([half, half])
    loss, _ = task(dice=2.0).loss_and_predictions(batch(torch.zeros(1, 2, 1, 3), target.tolist()))
    assert loss.item() == pytest.approx(math.log(2) + 2 * (1 - half))


def test_measured_and_predicted_at_the_pictures_own_size() -> None:
    logits = saying([[[0, 1], [0, 1]], [[1, 1], [0, 0]]])
    target = torch.full((2, 4, 6), X)
    target[0] = torch.tensor([0, 0, 0, 1, 1, 1])
    target[1, :2, :2] = torch.tensor([[1, 1], [0, 0]])
    given = batch(logits, target.tolist(), [[4, 6], [2, 2]])
    measured = task()
    _, predictions = measured.loss_and_predictions(given)
    assert predictions.shape == (2, 2, 4, 6)
    metric = Overlap(2)
    metric.update(predictions, given["target"])
    assert metric.compute()["mean_iou"].item() == 1.0
    assert metric.compute()["confusion"].sum().item() == 4 * 6 + 2 * 2
    rows = measured.decode(measured(**given["inputs"]), given)
    assert [mask.shape for mask in rows["mask"]] == [(4, 6), (2, 2)]
    assert rows["mask"][0].tolist() == [[0, 0, 0, 1, 1, 1]] * 4
    assert rows["mask"][1].dtype == np.uint8
    assert rows["share of cell"] == [0.5, 0.5]


def test_a_picture_of_the_networks_size_is_left_as_it_is() -> None:
    logits = torch.randn(1, 2, 3, 3)
    _, predictions = task().loss_and_predictions(batch(logits, [[[0] * 3] * 3], [[3, 3]]))
    assert torch.equal(predictions, logits)


def test_sample_losses_leave_out_what_is_ignored() -> None:
    logits = torch.zeros(2, 2, 1, 2)
    losses = task().sample_losses(logits, batch(logits, [[[0, X]], [[1, 0]]]))
    assert losses.tolist() == pytest.approx([math.log(2)] * 2)


def test_reports_name_the_classes() -> None:
    measured = task()
    measured.tables = {"test_confusion": torch.tensor([[4, 1], [1, 2]])}
    rows = measured.reports("test")["classes"]
    assert [row["class"] for row in rows] == CLASSES
    assert rows[0]["iou"] == pytest.approx(4 / 6)
    assert rows[1] == {"class": "cell", "pixels": 3, "iou": 0.5, "precision": pytest.approx(2 / 3),
                       "recall": pytest.approx(2 / 3)}  # fmt: skip


def test_what_can_be_monitored() -> None:
    best = task().best_is
    assert best["val_mean_iou"] == best["val_pixel_accuracy"] == "max"


def test_half_precision_logits_do_not_overflow() -> None:
    logits = torch.tensor([[[[12.0]], [[-12.0]]]]).half()
    loss, _ = task().loss_and_predictions(batch(logits, [[[1]]]))
    assert loss.item() == pytest.approx(24.0)


def test_true_left_predicted_right() -> None:
    measured = task()
    logits = saying([[[1, 1], [1, 1]]])
    given = batch(logits, [[[0, 0], [0, X]]])
    drawn = measured.drawn(np.zeros((2, 2, 3), np.uint8), logits, given)
    half = {name: tuple(int(c * 0.5) for c in rgb) for name, rgb in measured.legend.items()}
    assert drawn.shape == (2, 6, 3)
    assert tuple(drawn[0, 0]) == half["ground"]
    assert tuple(drawn[1, 1]) == (0, 0, 0)
    assert tuple(drawn[0, 4]) == half["cell"]


def test_one_class_is_refused() -> None:
    with pytest.raises(UserError, match=r"two or more classes, there are \['cell'\]"):
        Segmentation(Echo(), ["cell"])
