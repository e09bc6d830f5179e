"""Detection: what is found, measured, and given back, by hand."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from project.errors import UserError
from project.models import FCOS, UNet
from project.tasks import Detection
from project.tasks.detection import Precision, listed, mistakes
from project.trainer import Trainer

CLASSES = ["cell", "dot"]


def boxes(*rows: list[float], labels: list[int], scores: list[float] | None = None) -> dict:
    found = {"boxes": torch.tensor(rows).reshape(-1, 4), "labels": torch.tensor(labels).long()}
    return found if scores is None else {**found, "scores": torch.tensor(scores)}


class Told(nn.Module):
    """A detector that finds what it is told to."""

    def __init__(self, *found: dict) -> None:
        super().__init__()
        self.found = list(found)
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        return {"mean": image.mean((1, 2, 3)) * self.weight}

    def loss(self, outputs: dict[str, Tensor], target: list) -> Tensor:
        return outputs["mean"].mean()

    def boxes(self, outputs: dict[str, Tensor], size: tuple[int, int]) -> list[dict]:
        return self.found


def batch(target: list[dict], size: list[list[int]] | None = None) -> dict[str, Any]:
    count = len(target)
    made = {"inputs": {"image": torch.ones(count, 3, 10, 10)}, "target": target,
            "index": torch.arange(5, 5 + count)}  # fmt: skip
    return made if size is None else {**made, "size": torch.tensor(size)}


RIGHT = boxes([1.0, 1.0, 5.0, 5.0], labels=[1])


def test_predictions_are_in_the_pictures_own_pixels() -> None:
    found = boxes([1.0, 1.0, 5.0, 5.0], [0.0, 0.0, 9.0, 9.0], labels=[1, 0], scores=[0.9, 0.3])
    task = Detection(Told(found, boxes(labels=[], scores=[])), CLASSES, min_score=0.4)
    given = batch([RIGHT, RIGHT], [[20, 40], [10, 10]])
    rows = task.decode(task(**given["inputs"]), given)
    # 40 wide, 20 high, seen as 10 x 10; the second box scores too low, the second picture has none
    assert rows == {"index": [5], "label": ["dot"], "xmin": [4.0], "ymin": [2.0], "xmax": [20.0],
                    "ymax": [10.0], "score": [pytest.approx(0.9)]}  # fmt: skip
    true = task.decode_target(given)
    assert (true["index"], true["label"], true["xmax"]) == ([5, 6], ["dot", "dot"], [20.0, 5.0])


def test_mistakes_by_hand() -> None:
    true = boxes([0.0, 0, 10, 10], [20.0, 0, 30, 10], labels=[0, 1])
    assert mistakes(true, true) == 0
    assert mistakes(boxes(labels=[]), true) == 2
    assert mistakes(true, boxes(labels=[])) == 2
    # the first is found (IoU 0.8) and found again, the second is of another class
    found = boxes([0.0, 0, 8, 10], [0.0, 0, 10, 10], [20.0, 0, 30, 10], labels=[0, 0, 0])
    assert mistakes(found, true) == 3


def test_sample_losses_count_what_is_wrong_above_the_score() -> None:
    found = [boxes([1.0, 1, 5, 5], labels=[1], scores=[0.9]),
             boxes([1.0, 1, 5, 5], labels=[1], scores=[0.1])]  # fmt: skip
    task = Detection(Told(*found), CLASSES)
    assert task.sample_losses(found, batch([RIGHT, RIGHT])).tolist() == [0.0, 1.0]


def test_average_precision_by_hand_over_uneven_batches() -> None:
    true = boxes([0.0, 0, 10, 10], labels=[0])
    metric = Precision()
    # best first: right, wrong, right; a third is missed; on one picture nothing is, nor is found
    metric.update(
        [boxes([0.0, 0, 10, 10], labels=[0], scores=[0.9]),
         boxes([50.0, 50, 60, 60], labels=[0], scores=[0.8])], [true, true]
    )  # fmt: skip
    metric.update([boxes([0.0, 0, 10, 10], labels=[0], scores=[0.7])], [true])
    metric.update([boxes(labels=[], scores=[])], [boxes(labels=[])])
    found = metric.compute()
    # recall 1/3 at precision 1, recall 2/3 at precision 2/3: at 34 and 33 of 101 recalls
    expected = (34 * 1 + 33 * 2 / 3) / 101
    assert found["map_50"].item() == pytest.approx(expected, abs=1e-6)
    assert found["map"].item() == pytest.approx(expected, abs=1e-6)  # the hits are exact


def test_reports_name_the_classes() -> None:
    task = Detection(Told(), CLASSES)
    task.tables = {"test_per_class": torch.tensor([[1.0], [0.5]])}
    rows = task.reports("test")["classes"]
    assert rows == [{"class": "cell", "average_precision": None},
                    {"class": "dot", "average_precision": 0.5}]  # fmt: skip


def test_what_is_logged_and_can_be_monitored() -> None:
    task = Detection(Told(boxes([1.0, 1, 5, 5], labels=[1], scores=[0.9])), CLASSES)
    trainer = Trainer(accelerator="cpu", logger=False, enable_progress_bar=False)
    loader = DataLoader([batch([RIGHT])], batch_size=None)
    trainer.validate(task, loader, verbose=False)
    logged = {name: value.item() for name, value in trainer.callback_metrics.items()}
    assert logged == {"val_loss": 1.0, "val_map": pytest.approx(1), "val_map_50": pytest.approx(1)}
    assert task.best_is["val_map_50"] == task.best_is["val_map"] == "max"


def test_true_left_predicted_right() -> None:
    task = Detection(Told(boxes(labels=[], scores=[])), CLASSES)
    given = batch([RIGHT])
    picture = np.zeros((10, 10, 3), np.uint8)
    drawn = task.drawn(picture, task(**given["inputs"]), given)
    assert drawn.shape == (10, 22, 3)
    assert tuple(drawn[1, 1]) == task.legend["dot"]
    assert not drawn[:, 12:].any()


def test_a_network_that_finds_no_boxes_is_refused() -> None:
    with pytest.raises(UserError, match=r"--model\.network FCOS, and was given UNet"):
        Detection(UNet(3, 2, width=4, depth=1), CLASSES)


def detector() -> FCOS:
    torch.manual_seed(0)
    return FCOS(3, 2, width=8, strides=(8, 16), pyramid=16, num_convs=1)


def test_images_without_any_box_train() -> None:
    network = detector()
    outputs = network(torch.randn(2, 3, 32, 32))
    loss = network.loss(outputs, [boxes(labels=[]), boxes(labels=[])])
    loss.backward()
    assert loss.isfinite()
    assert all(p.grad.isfinite().all() for p in network.parameters() if p.grad is not None)


def test_boxes_of_outputs_by_hand() -> None:
    network = detector()
    # 32 x 24 pixels: 4 x 3 positions every 8 pixels, and 2 x 2 every 16
    outputs = network(torch.zeros(1, 3, 24, 32))
    assert outputs["positions"][0, [0, 1, 4, 12]].tolist() == [
        [-4.0, -4.0, 4.0, 4.0], [4.0, -4.0, 12.0, 4.0], [-4.0, 4.0, 4.0, 12.0],
        [-8.0, -8.0, 8.0, 8.0],
    ]  # fmt: skip
    outputs["cls_logits"] = torch.full((1, 16, 2), -20.0)
    outputs["bbox_ctrness"] = torch.full((1, 16, 1), 20.0)
    outputs["bbox_regression"] = torch.ones(1, 16, 4)
    outputs["cls_logits"][0, 5, 1] = 20.0  # at (8, 8)
    outputs["bbox_regression"][0, 5] = torch.tensor([0.5, 0.25, 1.0, 2.0])  # in strides
    outputs["cls_logits"][0, 6, 1] = 1.0  # at (16, 8), nearly the same box, less sure
    outputs["bbox_regression"][0, 6] = torch.tensor([1.5, 0.25, 0.0, 2.0])
    outputs["cls_logits"][0, 15, 0] = 2.0  # at (16, 16), of the coarse level and another class
    found = network.boxes(outputs, (24, 32))[0]
    torch.testing.assert_close(
        found["boxes"], torch.tensor([[4.0, 6.0, 16.0, 24.0], [0.0, 0.0, 32.0, 24.0]])
    )
    assert found["labels"].tolist() == [1, 0]
    assert found["scores"][0] > 0.99
    assert found["scores"][1] == pytest.approx(torch.tensor(2.0).sigmoid().sqrt().item(), abs=1e-4)
    candidates, scores = network.candidates(outputs)
    assert candidates[0, 5].tolist() == [4.0, 6.0, 16.0, 24.0]
    assert scores[0, 15, 0].item() == pytest.approx(found["scores"][1].item())


def test_the_same_in_training_and_evaluation() -> None:
    network = detector()
    shapes = [
        {name: each.shape for name, each in network.train(mode)(torch.randn(2, 3, 32, 32)).items()}
        for mode in (True, False)
    ]
    assert shapes[0] == shapes[1]


def test_an_object_is_listed_once_as_the_class_it_most_likely_is() -> None:
    found = {
        "boxes": torch.tensor([[0, 0, 10, 10], [0, 0, 10, 9], [20, 0, 30, 10.0]]),
        "scores": torch.tensor([0.9, 0.8, 0.3]),
        "labels": torch.tensor([2, 0, 1]),
    }
    assert listed(found, 0.2)["labels"].tolist() == [2, 1]
    assert listed(found, 0.5)["labels"].tolist() == [2]
