"""What is the same for all inputs of a served model."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

BATCH_SIZES = (1, 2, 7, 32)
"""Of the batches that are tried: none of them is the example's."""

NUMBERS = [range(end - size, end) for size, end in zip(BATCH_SIZES, (1, 3, 10, 32), strict=True)]
"""Of the samples in each of these batches; each input takes the same."""


class Input(nn.Module):
    """One input of a served model: what is the same for all kinds.

    Args:
        description: The data module's, out of the checkpoint.

    Raises:
        UserError: The checkpoint does not say how this input was prepared.
    """

    dynamic: ClassVar[tuple[str, ...]] = ("batch",)
    """Names of the free dimensions, from the first on."""

    def __init__(self, description: dict[str, Any]) -> None:
        super().__init__()

    def forward(self, given: Tensor) -> Tensor:
        return given

    def example(self) -> Tensor:
        """A batch to export with; a size of 1, or two equal ones, would be taken for constants."""
        raise NotImplementedError

    def random(self, count: int) -> list[Tensor]:
        """Made-up samples, for want of real ones."""
        raise NotImplementedError

    def sample(self, inputs: dict[str, Tensor]) -> Tensor:
        """Of a sample without preprocessing, as a user would give it."""
        raise NotImplementedError

    def batches(self, samples: list[Tensor]) -> list[Tensor]:
        """Batches of `BATCH_SIZES`; those of all inputs are made of the same samples."""
        return [self.together([samples[n % len(samples)] for n in each]) for each in NUMBERS]

    def together(self, samples: list[Tensor]) -> Tensor:
        """A batch of samples."""
        return torch.stack(samples)

    def contract(self) -> dict[str, Any]:
        """What whoever calls the model must know of this input."""
        raise NotImplementedError
