"""Any number of classes at once."""

from typing import Any, ClassVar, Literal

import torch
from lightning.pytorch.cli import OptimizerCallable
from torch import Tensor, nn
from torch.nn import functional as F
from torchmetrics import MetricCollection
from torchmetrics.classification import (
    MultilabelAveragePrecision,
    MultilabelConfusionMatrix,
    MultilabelExactMatch,
    MultilabelF1Score,
)

from project.batches import Batch
from project.errors import UserError
from project.optim import Schedule
from project.tasks.classification import scores
from project.tasks.task import Size, Task

THRESHOLD = 0.5
"""A label is predicted if its probability is above that."""


class MultiLabel(Task):
    """A yes or no for each class, by binary cross-entropy; F1, exact match, mean average precision.

    Args:
        network: Gives one logit per class.
        class_names: What the class numbers 0, 1, … mean.
        class_counts: Training samples that have each class; needed for `class_weights`.
        num_samples: Training samples; needed for `class_weights`.
        optimizer: Makes an optimizer of parameter groups.
        schedule: How the learning rate changes over the run; None keeps it.
        class_weights: `balanced` lets the samples that have a class count as much in its loss as
            those that don't, however few they are; `none` lets every sample count the same.

    Shapes:
        network: inputs → float [B, C]; target: int64 [B, C], 1 for the classes a sample has, else 0
    """

    serves: ClassVar[dict[str, str]] = {
        "label_probabilities": "of each class by itself, in the order of the class names"
    }

    # one more argument than elsewhere: three come from the data
    def __init__(
        self,
        network: nn.Module,
        class_names: list[str],
        class_counts: list[int] | None = None,
        num_samples: int | None = None,
        *,
        optimizer: OptimizerCallable = torch.optim.AdamW,
        schedule: Schedule | None = None,
        class_weights: Literal["none", "balanced"] = "none",
    ) -> None:
        count = len(class_names)
        metrics = MetricCollection(
            {
                "f1_macro": MultilabelF1Score(count, THRESHOLD, average="macro"),
                "f1_micro": MultilabelF1Score(count, THRESHOLD, average="micro"),
                "exact_match": MultilabelExactMatch(count, THRESHOLD),
                "map": MultilabelAveragePrecision(count, average="macro"),
                "confusion": MultilabelConfusionMatrix(count, THRESHOLD),
            }
        )
        super().__init__(network, metrics, optimizer=optimizer, schedule=schedule)
        self.class_names = list(class_names)
        self.positive_weights: Tensor | None
        balanced = class_weights == "balanced"
        weights = positive_weights(class_names, class_counts, num_samples) if balanced else None
        self.register_buffer("positive_weights", weights, persistent=False)

    def loss_and_predictions(self, batch: Batch) -> tuple[Tensor, Tensor]:
        logits = self(**batch["inputs"]).float()  # [B, C]
        target = batch["target"]
        if target.shape != logits.shape:
            raise UserError(
                f"MultiLabel takes a 0 or 1 for each of {logits.shape[1]} classes, the data give a "
                f"target of shape {tuple(target.shape)}. Say what stands between several labels, "
                "--data.columns.separator '|', or choose --model project.tasks.Classification."
            )
        loss = F.binary_cross_entropy_with_logits(
            logits, target.float(), pos_weight=self.positive_weights
        )
        # not the logits: the metrics take those of a batch for probabilities if all are in 0 to 1
        return loss, logits.sigmoid()

    def sample_losses(self, predictions: Tensor, batch: Batch) -> Tensor:
        target = batch["target"].float()
        return F.binary_cross_entropy(predictions, target, reduction="none").mean(1)  # [B]

    def serve(self, outputs: Tensor, seen: Size = None, own: Size = None) -> dict[str, Tensor]:
        return {"label_probabilities": outputs.float().sigmoid()}  # [B, C]

    def decode(self, outputs: Tensor, batch: Batch) -> dict[str, list[Any]]:
        probabilities = self.serve(outputs)["label_probabilities"]
        return {
            "prediction": self._labels(probabilities > THRESHOLD),
            **dict(zip(self._columns(), probabilities.T.tolist(), strict=True)),
        }

    def decode_target(self, batch: Batch) -> dict[str, list[Any]]:
        return {"target": self._labels(batch["target"] > 0)}

    def reports(self, stage: str) -> dict[str, list[dict[str, Any]]]:
        counts = self.tables.get(f"{stage}_confusion")  # [C, 2, 2]: true by row
        if counts is None:
            return {}
        right, true, predicted = counts[:, 1, 1], counts[:, 1].sum(1), counts[:, :, 1].sum(1)
        return {"classes": scores(self.class_names, right, true, predicted)}

    def _labels(self, has: Tensor) -> list[str]:
        names = self.class_names
        return ["|".join(n for n, yes in zip(names, row, strict=True) if yes) for row in has]

    def _columns(self) -> list[str]:
        return [f"probability_{name}" for name in self.class_names]


def positive_weights(
    class_names: list[str], class_counts: list[int] | None, num_samples: int | None
) -> Tensor:
    """For each class, the samples without it by those with it [C].

    Raises:
        UserError: The counts are unknown, or a class has no sample or all.
    """
    counts = class_counts or []
    if not counts or num_samples is None or min(counts) < 1 or max(counts) >= num_samples:
        raise UserError(
            f"class_weights is 'balanced', which needs training samples with and without each "
            f"class; of {num_samples} there are {dict(zip(class_names, counts, strict=False))}. "
            "Add samples, leave the class out, or set class_weights none."
        )
    with_it = torch.tensor(counts, dtype=torch.float32)
    return (num_samples - with_it) / with_it
