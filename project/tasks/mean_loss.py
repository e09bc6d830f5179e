"""The mean of a loss over many batches, kept on the device."""

from torch import Tensor
from torchmetrics.aggregation import MeanMetric


class MeanLoss(MeanMetric):
    """The mean of batches' losses, each by its weight; not a number as soon as one is not.

    torchmetrics' own looks for NaN at every update, for which the device has to wait twice a step
    (and without that look, `nan_strategy="disable"`, it forgets the weights).
    """

    def update(self, value: float | Tensor, weight: float | Tensor | None = None) -> None:
        """Add a batch.

        Args:
            value: Its mean loss.
            weight: What that is the mean of, such as its number of samples; None counts as 1.
        """
        weight = 1.0 if weight is None else weight
        self.mean_value += value * weight
        self.weight += weight
