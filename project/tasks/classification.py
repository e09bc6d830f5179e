"""One class out of several."""

from typing import Any, ClassVar

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
from project.tasks.task import Task


class Classification(Task):
    """Cross-entropy on logits; accuracy, mean accuracy and F1 over the classes, confusion matrix.

    Args:
        network: Gives one logit per class.
        class_names: What the class numbers 0, 1, … mean.
        optimizer: Makes an optimizer of parameter groups.
        schedule: How the learning rate changes over the run; None keeps it.
        label_smoothing: Share of the target spread evenly over all classes, 0 to below 1.

    Shapes:
        network: inputs → float [B, C]; target: int64 [B], from 0 to C - 1.
    """

    serves: ClassVar[dict[str, str]] = {
        "probabilities": "of each class, in the order of the class names; each row sums to 1"
    }

    def __init__(
        self,
        network: nn.Module,
        class_names: list[str],
        *,
        optimizer: OptimizerCallable = torch.optim.AdamW,
        schedule: Schedule | None = None,
        label_smoothing: float = 0.0,
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

    def loss_and_predictions(self, batch: Batch) -> tuple[Tensor, Tensor]:
        logits = self(**batch["inputs"])  # [B, C]
        # float32: the sum of exponentials overflows in half precision
        loss = F.cross_entropy(
            logits.float(), batch["target"], label_smoothing=self.label_smoothing
        )
        return loss, logits

    def serve(self, outputs: Tensor) -> dict[str, Tensor]:
        return {"probabilities": outputs.float().softmax(dim=1)}  # [B, C]

    def decode(self, outputs: Tensor) -> dict[str, list[Any]]:
        probability, number = self.serve(outputs)["probabilities"].max(dim=1)  # [B], [B]
        return {
            "prediction": [self.class_names[n] for n in number.tolist()],
            "probability": probability.tolist(),
        }

    def figures(self, stage: str) -> dict[str, Figure]:
        counts = self.tables.get(f"{stage}_confusion")
        if counts is None:
            return {}
        return {"confusion_matrix": confusion_matrix(counts.tolist(), self.class_names)}
