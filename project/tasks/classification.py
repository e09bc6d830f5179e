"""One class out of several."""

from typing import Any, ClassVar, Literal

import torch
from lightning.pytorch.cli import OptimizerCallable
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn import functional as F
from torchmetrics import MetricCollection
from torchmetrics.classification import (
    MulticlassAccuracy,
    MulticlassConfusionMatrix,
    MulticlassF1Score,
)

from project.batches import Batch
from project.errors import UserError
from project.figures import confusion_matrix
from project.optim import Schedule
from project.tasks.task import Size, Task


class Classification(Task):
    """Cross-entropy on logits; accuracy, mean accuracy and F1 over the classes, confusion matrix.

    Args:
        network: Gives one logit per class.
        class_names: What the class numbers 0, 1, … mean.
        class_counts: Training samples of each class; needed for `class_weights`.
        optimizer: Makes an optimizer of parameter groups.
        schedule: How the learning rate changes over the run; None keeps it.
        label_smoothing: Share of the target spread evenly over all classes, 0 to below 1.
        class_weights: `balanced` lets every class count as much in the loss as any other, however
            rare it is; `none` lets every sample.

    Shapes:
        network: inputs → float [B, C]; target: int64 [B], from 0 to C - 1.
    """

    in_float32: ClassVar[str] = "cross-entropy"
    serves: ClassVar[dict[str, str]] = {
        "probabilities": "of each class, in the order of the class names; each row sums to 1"
    }

    def __init__(
        self,
        network: nn.Module,
        class_names: list[str],
        class_counts: list[int] | None = None,
        *,
        optimizer: OptimizerCallable = torch.optim.AdamW,
        schedule: Schedule | None = None,
        label_smoothing: float = 0.0,
        class_weights: Literal["none", "balanced"] = "none",
    ) -> None:
        num_classes = len(class_names)
        if num_classes < 2:
            raise UserError(f"Classification needs two or more classes, there are {class_names}.")
        if not 0 <= label_smoothing < 1:
            raise UserError(f"label_smoothing is {label_smoothing}; allowed is 0 to below 1.")
        metrics = MetricCollection(
            {
                "accuracy": MulticlassAccuracy(num_classes, average="micro"),
                "accuracy_macro": MulticlassAccuracy(num_classes, average="macro"),
                "f1_macro": MulticlassF1Score(num_classes, average="macro"),
                "confusion": MulticlassConfusionMatrix(num_classes),
            }
        )
        super().__init__(network, metrics, optimizer=optimizer, schedule=schedule)
        self.class_names = list(class_names)
        self.label_smoothing = label_smoothing
        self.class_weights: Tensor | None
        weights = None if class_weights == "none" else balanced(class_names, class_counts)
        self.register_buffer("class_weights", weights, persistent=False)

    def loss_and_predictions(self, batch: Batch) -> tuple[Tensor, Tensor]:
        logits = self(**batch["inputs"])  # [B, C]
        if batch["target"].ndim != 1:
            raise UserError(
                "Classification takes one class per sample, the data give several each (target of "
                f"shape {tuple(batch['target'].shape)}). Choose --model project.tasks.MultiLabel."
            )
        # float32: the sum of exponentials overflows in half precision
        loss = F.cross_entropy(
            logits.float(),
            batch["target"],
            self.class_weights,
            label_smoothing=self.label_smoothing,
        )
        return loss, logits

    def loss_weight(self, batch: Batch) -> Tensor | int:
        if self.class_weights is None:
            return super().loss_weight(batch)
        return self.class_weights[batch["target"]].sum()

    def sample_losses(self, predictions: Tensor, batch: Batch) -> Tensor:
        return F.cross_entropy(predictions.float(), batch["target"], reduction="none")  # [B]

    def serve(self, outputs: Tensor, seen: Size = None, own: Size = None) -> dict[str, Tensor]:
        return {"probabilities": outputs.float().softmax(dim=1)}  # [B, C]

    def decode(self, outputs: Tensor, batch: Batch) -> dict[str, list[Any]]:
        probability, number = self.serve(outputs)["probabilities"].max(dim=1)  # [B], [B]
        return {
            "prediction": [self.class_names[n] for n in number.tolist()],
            "probability": probability.tolist(),
        }

    def decode_target(self, batch: Batch) -> dict[str, list[Any]]:
        return {"target": [self.class_names[n] for n in batch["target"].tolist()]}

    def figures(self, stage: str) -> dict[str, Figure]:
        counts = self.tables.get(f"{stage}_confusion")
        if counts is None:
            return {}
        return {"confusion_matrix": confusion_matrix(counts.tolist(), self.class_names)}

    def reports(self, stage: str) -> dict[str, list[dict[str, Any]]]:
        counts = self.tables.get(f"{stage}_confusion")
        return {} if counts is None else {"classes": per_class(counts, self.class_names)}


def balanced(class_names: list[str], class_counts: list[int] | None) -> Tensor:
    """Weights [C] that make the classes count alike, and the mean sample as much as without.

    Raises:
        UserError: The counts are unknown, or a class has no sample.
    """
    if class_counts is None or min(class_counts) < 1:
        raise UserError(
            f"class_weights is 'balanced', which needs training samples of every class; the data "
            f"give {dict(zip(class_names, class_counts or [], strict=False))}. Add samples, leave "
            "the class out, or set class_weights none."
        )
    counts = torch.tensor(class_counts, dtype=torch.float32)
    return counts.sum() / (len(counts) * counts)


def per_class(counts: Tensor, class_names: list[str]) -> list[dict[str, Any]]:
    """Precision, recall and F1 of each class; blank where nothing was predicted or there.

    Args:
        counts: True class by row, predicted class by column: int64 [C, C].
        class_names: In the order of the rows.
    """
    return scores(class_names, counts.diag(), counts.sum(1), counts.sum(0))


def scores(
    class_names: list[str], right: Tensor, true: Tensor, predicted: Tensor
) -> list[dict[str, Any]]:
    """A row per class; blank where nothing was predicted or there.

    Args:
        class_names: In the order of the counts.
        right: Samples of each class that were predicted as such [C].
        true: Samples of each class [C].
        predicted: Samples that were predicted as of each class [C].
    """
    rows = zip(class_names, right.tolist(), true.tolist(), predicted.tolist(), strict=True)
    return [
        {
            "class": name,
            "samples": of_class,
            "precision": hits / called if called else None,
            "recall": hits / of_class if of_class else None,
            "f1": 2 * hits / (of_class + called) if of_class + called else None,
        }
        for name, hits, of_class, called in rows
    ]
