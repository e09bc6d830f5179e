"""The class of every pixel."""

from typing import Any, ClassVar, Literal

import numpy as np
import torch
from lightning.pytorch.cli import OptimizerCallable
from torch import Tensor, nn
from torch.nn import functional as F
from torchmetrics import MetricCollection
from torchmetrics.classification import MulticlassConfusionMatrix

from project.batches import IGNORED, Batch
from project.errors import UserError
from project.figures import beside, colours, with_mask
from project.optim import Schedule
from project.tasks.classification import balanced
from project.tasks.task import Size, Task


class Segmentation(Task):
    """Cross-entropy over the pixels; mean IoU (intersection over union), and the IoU of each class.

    Where a batch says the pictures' own `size`, logits are stretched to it: what is measured and
    predicted is measured and predicted there. Pixels of the class `IGNORED` count nowhere.

    Args:
        network: Gives one logit per class for every pixel.
        class_names: What the class numbers 0, 1, … mean.
        class_counts: Training pixels of each class; needed for `class_weights`.
        optimizer: Makes an optimizer of parameter groups.
        schedule: How the learning rate changes over the run; None keeps it.
        class_weights: `balanced` lets every class count as much in the loss as any other, however
            few pixels it has; `none` lets every pixel.
        dice: Added to the loss, times this: 1 minus the mean Dice overlap of the classes, which
            small ones weigh as much in as large ones; 0 is none.

    Shapes:
        network: inputs → float [B, C, H, W]; target: int64 [B, H, W], from 0 to C - 1 or IGNORED
    """

    serves: ClassVar[dict[str, str]] = {
        "probabilities": "of each class, in the order of the class names, for every pixel of the "
        "picture: [batch, class, height, width]; they sum to 1 over the classes"
    }

    def __init__(
        self,
        network: nn.Module,
        class_names: list[str],
        class_counts: list[int] | None = None,
        *,
        optimizer: OptimizerCallable = torch.optim.AdamW,
        schedule: Schedule | None = None,
        class_weights: Literal["none", "balanced"] = "none",
        dice: float = 0.0,
    ) -> None:
        if len(class_names) < 2:
            raise UserError(f"Segmentation needs two or more classes, there are {class_names}.")
        if dice < 0:
            raise UserError(f"dice is {dice}; it must be 0 or more.")
        metrics = MetricCollection({"overlap": Overlap(len(class_names))})
        super().__init__(network, metrics, optimizer=optimizer, schedule=schedule)
        self.class_names = list(class_names)
        self.dice = dice
        self.class_weights: Tensor | None
        weights = None if class_weights == "none" else balanced(class_names, class_counts)
        self.register_buffer("class_weights", weights, persistent=False)

    @property
    def best_is(self) -> dict[str, Literal["min", "max"]]:
        return {**super().best_is, "val_mean_iou": "max", "val_pixel_accuracy": "max"}

    @property
    def legend(self) -> dict[str, tuple[int, int, int]]:
        return dict(zip(self.class_names, colours(len(self.class_names)), strict=True))

    def loss_and_predictions(self, batch: Batch) -> tuple[Tensor, Tensor]:
        target = batch["target"]
        logits = _at_own_size(self(**batch["inputs"]), batch)  # [B, C, H, W]
        loss = self._pixel_losses(logits, target).sum() / self.loss_weight(batch)
        if self.dice:
            loss = loss + self.dice * (1 - overlap(logits, target).mean())
        return loss, logits

    def loss_weight(self, batch: Batch) -> Tensor:
        """The pixels that count, each as much as its class weighs."""
        target = batch["target"]
        counts = target != IGNORED
        if self.class_weights is None:
            return counts.sum().clamp(min=1)
        return self.class_weights[target[counts]].sum().clamp(min=1e-6)

    def sample_losses(self, predictions: Tensor, batch: Batch) -> Tensor:
        losses = self._pixel_losses(predictions, batch["target"])  # [B, H, W]
        counts = (batch["target"] != IGNORED).sum(dim=(1, 2)).clamp(min=1)
        return losses.sum(dim=(1, 2)) / counts  # [B]

    def serve(self, outputs: Tensor, seen: Size = None, own: Size = None) -> dict[str, Tensor]:
        logits = outputs.float()
        if own is not None:
            logits = F.interpolate(logits, own, mode="bilinear", antialias=True)
        return {"probabilities": logits.softmax(dim=1)}  # [B, C, H, W]

    def measurable(self, answers: list[dict[str, Tensor]], batch: Batch) -> Tensor:
        shape = batch["target"].shape
        probabilities = torch.zeros(len(answers), len(self.class_names), *shape[1:])
        for row, answer in enumerate(answers):
            _, _, height, width = answer["probabilities"].shape
            probabilities[row, :, :height, :width] = answer["probabilities"][0]
        return probabilities  # beyond a picture's own size the target is ignored

    def decode(self, outputs: Tensor, batch: Batch) -> dict[str, list[Any]]:
        masks = _masks(outputs, batch)
        shares = [np.bincount(m.ravel(), minlength=len(self.class_names)) / m.size for m in masks]
        return {
            "mask": masks,
            **{
                f"share of {name}": [round(float(share[number]), 4) for share in shares]
                for number, name in enumerate(self.class_names)
            },
        }

    def drawn(self, picture: np.ndarray, outputs: Tensor, batch: Batch) -> np.ndarray:
        predicted = with_mask(picture, _masks(outputs, batch)[0], len(self.class_names))
        if "target" not in batch:
            return predicted
        height, width = picture.shape[:2]
        true = batch["target"][0, :height, :width].cpu().numpy()
        return beside(with_mask(picture, true, len(self.class_names)), predicted)

    def reports(self, stage: str) -> dict[str, list[dict[str, Any]]]:
        counts = self.tables.get(f"{stage}_confusion")
        return {} if counts is None else {"classes": per_class(counts, self.class_names)}

    def _pixel_losses(self, logits: Tensor, target: Tensor) -> Tensor:
        # float32: the sum of exponentials overflows in half precision
        return F.cross_entropy(
            logits.float(), target, self.class_weights, ignore_index=IGNORED, reduction="none"
        )


class Overlap(MulticlassConfusionMatrix):
    """Mean IoU and pixel accuracy, and the counts they are of, over all pixels of a split."""

    def __init__(self, num_classes: int) -> None:
        super().__init__(num_classes, ignore_index=IGNORED)

    def compute(  # ty: ignore[incompatible-method-override]
        self,
    ) -> dict[str, Tensor]:
        counts = super().compute()  # int64 [C, C], true class by row
        each = ious(counts)
        return {
            "mean_iou": each[~each.isnan()].mean(),
            "pixel_accuracy": counts.diag().sum() / counts.sum(),
            "confusion": counts,
        }


def ious(counts: Tensor) -> Tensor:
    """Intersection over union of each class, NaN where it is neither there nor predicted.

    Args:
        counts: Pixels of true class by row, predicted class by column: int64 [C, C].
    """
    both = counts.diag()
    return both / (counts.sum(0) + counts.sum(1) - both)


def per_class(counts: Tensor, class_names: list[str]) -> list[dict[str, Any]]:
    """IoU, precision and recall of each class; blank where nothing was predicted or there.

    Args:
        counts: Pixels of true class by row, predicted class by column: int64 [C, C].
        class_names: In the order of the rows.
    """
    right, true, predicted = counts.diag(), counts.sum(1), counts.sum(0)
    rows = zip(class_names, right.tolist(), true.tolist(), predicted.tolist(), strict=True)
    return [
        {
            "class": name,
            "pixels": of_class,
            "iou": hits / (of_class + called - hits) if of_class + called else None,
            "precision": hits / called if called else None,
            "recall": hits / of_class if of_class else None,
        }
        for name, hits, of_class, called in rows
    ]


def overlap(logits: Tensor, target: Tensor) -> Tensor:
    """Dice overlap of probabilities and target, of each class over the whole batch: [C].

    Args:
        logits: float [B, C, H, W].
        target: int64 [B, H, W]; pixels that are IGNORED are left out.

    Source: Milletari et al., "V-Net", 2016 (arXiv:1606.04797).
    """
    counts = (target != IGNORED)[:, None]  # [B, 1, H, W]
    probabilities = logits.float().softmax(dim=1) * counts
    true = F.one_hot(target.where(target != IGNORED, 0), logits.shape[1])  # [B, H, W, C]
    true = true.movedim(-1, 1) * counts
    both = (probabilities * true).sum(dim=(0, 2, 3))
    either = probabilities.sum(dim=(0, 2, 3)) + true.sum(dim=(0, 2, 3))
    return (2 * both + 1) / (either + 1)  # a class that is not there counts as found


def _at_own_size(logits: Tensor, batch: Batch) -> Tensor:
    """Logits stretched to each picture's own size, smaller ones with a border, as its target has.

    The border is ignored there, so that what stands in it here is of no importance.
    """
    if "size" not in batch:
        return logits
    sizes = batch["size"].tolist()
    if all(size == list(logits.shape[-2:]) for size in sizes):
        return logits
    height, width = (max(size[side] for size in sizes) for side in (0, 1))
    stretched = logits.new_zeros(*logits.shape[:2], height, width)
    for row, (tall, wide) in enumerate(sizes):
        own = F.interpolate(logits[row : row + 1], (tall, wide), mode="bilinear", antialias=True)
        stretched[row, :, :tall, :wide] = own[0]
    return stretched


def _masks(outputs: Tensor, batch: Batch) -> list[np.ndarray]:
    """The likeliest class of every pixel, in each picture's own size: uint8 [H, W]."""
    masks = _at_own_size(outputs, batch).argmax(dim=1).to(torch.uint8).cpu()
    sizes = batch["size"].tolist() if "size" in batch else [masks.shape[-2:]] * len(masks)
    return [mask[:tall, :wide].numpy() for mask, (tall, wide) in zip(masks, sizes, strict=True)]
