"""Which objects are on a picture, and where."""

from typing import Any, ClassVar, Literal, cast

import numpy as np
import torch
from lightning.pytorch.cli import OptimizerCallable
from torch import Tensor, nn
from torchmetrics import MetricCollection
from torchmetrics.detection import MeanAveragePrecision
from torchvision.ops import box_iou, nms

from project.batches import Batch
from project.errors import UserError
from project.figures import beside, colours, with_boxes
from project.models import FCOS
from project.models.suppression import best_boxes
from project.optim import Schedule
from project.tasks.task import Size, Task

Found = list[dict[str, Tensor]]
"""For each picture `boxes`, float [N, 4], and `labels`, int64 [N]; what is predicted has `scores`
as well, float [N], the best first."""


class Detection(Task):
    """The loss of the network, torchvision's; average precision, as COCO has it.

    Logged are `map`, the mean over the classes and over overlaps from 0.5 to 0.95, and `map_50`,
    that at an overlap of 0.5 alone.

    Args:
        network: A detector with `loss` and `boxes`, such as `FCOS`.
        class_names: What the class numbers 0, 1, … mean.
        optimizer: Makes an optimizer of parameter groups.
        schedule: How the learning rate changes over the run; None keeps it.
        min_score: Boxes of a lower score, from 0 to 1, are neither listed nor drawn, nor are those
            in the place of a better one of another class; average precision is of all of them.

    Shapes:
        network: inputs → a dictionary, for its own `loss` and `boxes`
        target: for each picture `boxes`, float [N, 4], in its pixels as the network sees it, and
            `labels`, int64 [N], from 0 to C - 1; N may be 0
    """

    serves: ClassVar[dict[str, str]] = {
        "boxes": "left, top, right and bottom of each, in pixels of the picture: [batch, box, 4]",
        "scores": "of each, from 0 to 1, the best first; 0 where a better box of the same class "
        "overlaps it: [batch, box]. Keep what is above a threshold, such as min_score",
        "labels": "of each the number of its class: [batch, box]",
    }

    def __init__(
        self,
        network: nn.Module,
        class_names: list[str],
        *,
        optimizer: OptimizerCallable = torch.optim.AdamW,
        schedule: Schedule | None = None,
        min_score: float = 0.4,
    ) -> None:
        if not all(callable(getattr(network, name, None)) for name in ("loss", "boxes")):
            raise UserError(
                f"Detection needs a network that finds boxes, --model.network FCOS, and was given "
                f"{type(network).__name__}."
            )
        if not 0 <= min_score < 1:
            raise UserError(f"min_score is {min_score}; it must be from 0 to below 1.")
        metrics = MetricCollection({"map": Precision()})
        super().__init__(network, metrics, optimizer=optimizer, schedule=schedule)
        self.class_names = list(class_names)
        self.min_score = min_score
        self.same_place = SAME_PLACE  # a served model lists boxes by it too

    @property
    def detector(self) -> FCOS:
        return cast(FCOS, self.network)

    @property
    def best_is(self) -> dict[str, Literal["min", "max"]]:
        return {**super().best_is, "val_map_50": "max"}

    @property
    def legend(self) -> dict[str, tuple[int, int, int]]:
        return dict(zip(self.class_names, colours(len(self.class_names)), strict=True))

    def loss_and_predictions(self, batch: Batch) -> tuple[Tensor, Found]:
        outputs = self(**batch["inputs"])
        loss = self.detector.loss(outputs, batch["target"])
        # choosing boxes takes time, and in training nobody asks for them
        return loss, [] if self.training else self._found(outputs, batch)

    def sample_losses(self, predictions: Found, batch: Batch) -> Tensor:
        """How many boxes are wrong: objects that are missed, and boxes where there is none."""
        kept = [listed(each, self.min_score) for each in predictions]
        wrong = [mistakes(f, true) for f, true in zip(kept, batch["target"], strict=True)]
        return torch.tensor(wrong, dtype=torch.float32, device=self.device)  # [B]

    def serve(
        self, outputs: dict[str, Tensor], seen: Size = None, own: Size = None
    ) -> dict[str, Tensor]:
        boxes, scores = self.detector.candidates(outputs)
        boxes, scores, labels = best_boxes(
            boxes, scores, count=min(SERVED, scores[0].numel()), overlap=self.detector.nms_thresh
        )
        if seen is not None:
            x, y = boxes[..., 0::2].clamp(0, seen[1]), boxes[..., 1::2].clamp(0, seen[0])
            if own is not None:
                x, y = x * (own[1] / seen[1]), y * (own[0] / seen[0])
            boxes = torch.stack([x[..., 0], y[..., 0], x[..., 1], y[..., 1]], dim=-1)
        return {"boxes": boxes, "scores": scores, "labels": labels}

    def measurable(self, answers: list[dict[str, Tensor]], batch: Batch) -> Found:
        found = [{name: values[0] for name, values in answer.items()} for answer in answers]
        seen = batch["inputs"]["image"].shape[-2:]
        for row, each in enumerate(found):
            y, x = (a / b for a, b in zip(seen, batch["size"][row].tolist(), strict=True))
            each["boxes"] = each["boxes"] * torch.tensor([x, y, x, y])
        return [_above(each, 1e-6) for each in found]

    def decode(self, outputs: dict[str, Tensor], batch: Batch) -> dict[str, list[Any]]:
        found = [listed(each, self.min_score) for each in self._found(outputs, batch)]
        return self._rows(found, batch)

    def decode_target(self, batch: Batch) -> dict[str, list[Any]]:
        return self._rows(batch["target"], batch)

    def drawn(self, picture: np.ndarray, outputs: dict[str, Tensor], batch: Batch) -> np.ndarray:
        names = self.class_names
        found = listed(self._found(outputs, batch)[0], self.min_score)
        predicted = with_boxes(picture, *_on_picture(found, batch, 0), len(names))
        if "target" not in batch:
            return predicted
        true = with_boxes(picture, *_on_picture(batch["target"][0], batch, 0), len(names))
        return beside(true, predicted)

    def reports(self, stage: str) -> dict[str, list[dict[str, Any]]]:
        table = self.tables.get(f"{stage}_per_class")
        if table is None:
            return {}
        of_class = dict(zip(table[0].int().tolist(), table[1].tolist(), strict=True))
        return {
            "classes": [
                {"class": name, "average_precision": of_class.get(number)}
                for number, name in enumerate(self.class_names)
            ]
        }

    def _found(self, outputs: dict[str, Tensor], batch: Batch) -> Found:
        height, width = batch["inputs"]["image"].shape[-2:]
        return self.detector.boxes(outputs, (height, width))

    def _rows(self, found: Found, batch: Batch) -> dict[str, list[Any]]:
        """A row for each box, in the picture's own pixels."""
        columns: dict[str, list[Any]] = {name: [] for name in ("index", "label", *CORNERS)}
        scored = "scores" in (found[0] if found else {})
        if scored:
            columns["score"] = []
        for row, each in enumerate(found):
            boxes, labels = _on_picture(each, batch, row)
            columns["index"] += [int(batch["index"][row])] * len(labels)
            columns["label"] += [self.class_names[number] for number in labels.tolist()]
            for name, values in zip(CORNERS, boxes.T.tolist(), strict=True):
                columns[name] += [round(value, 1) for value in values]
            if scored:
                columns["score"] += [round(score, 4) for score in each["scores"].tolist()]
        return columns


SAME_PLACE = 0.7
"""Boxes that overlap by more (IoU) are around the same object, whatever their classes are."""

SERVED = 100
"""Boxes that an exported model answers for each picture."""

CORNERS = ("xmin", "ymin", "xmax", "ymax")


class Precision(MeanAveragePrecision):
    """Of what torchmetrics computes, what is looked at."""

    def __init__(self) -> None:
        super().__init__(backend="faster_coco_eval", class_metrics=True)
        self.warn_on_many_detections = False

    def compute(self) -> dict[str, Tensor]:
        found = super().compute()
        return {
            "map": found["map"],
            "map_50": found["map_50"],
            # [2, K], so that it is a table even of one class
            "per_class": torch.stack(
                [found["classes"].flatten(), found["map_per_class"].flatten()]
            ),
        }


def mistakes(found: dict[str, Tensor], true: dict[str, Tensor]) -> int:
    """Objects without a box and boxes without an object, of the same class and an IoU of 0.5.

    Args:
        found: `boxes` and `labels`, the best first.
        true: The same of what is there.
    """
    overlaps = box_iou(found["boxes"].float(), true["boxes"])  # [found, true]
    overlaps = (overlaps * (found["labels"][:, None] == true["labels"])).cpu()
    hits = 0
    for row in overlaps:
        if len(row) and row.max() >= 0.5:
            overlaps[:, row.argmax()] = 0  # each object is found once
            hits += 1
    return len(found["labels"]) + len(true["labels"]) - 2 * hits


def listed(found: dict[str, Tensor], score: float) -> dict[str, Tensor]:
    """Boxes above a score, each object as the class it most likely is."""
    sure = _above(found, score)
    kept = nms(sure["boxes"].float(), sure["scores"].float(), SAME_PLACE)
    return {name: values[kept] for name, values in sure.items()}


def _above(found: dict[str, Tensor], score: float) -> dict[str, Tensor]:
    kept = found["scores"] >= score
    return {name: values[kept] for name, values in found.items()}


def _on_picture(found: dict[str, Tensor], batch: Batch, row: int) -> tuple[np.ndarray, np.ndarray]:
    """Boxes in the pixels of the picture's own size, float [N, 4], and their class numbers."""
    seen = batch["inputs"]["image"].shape[-2:]
    own = batch["size"][row].tolist() if "size" in batch else seen
    y, x = (after / before for before, after in zip(seen, own, strict=True))
    boxes = found["boxes"].float().cpu().numpy() * np.array([x, y, x, y], np.float32)
    return boxes, found["labels"].cpu().numpy()
