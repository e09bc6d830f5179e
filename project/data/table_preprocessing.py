"""One preprocessing of a table's rows for training, evaluation and export.

It is a module, so that it can stand in front of the network in an exported graph.
"""

from typing import Any

import torch
from torch import Tensor, nn

from project.errors import UserError

LIMIT = 5.0
"""Numbers are cut off so many standard deviations from their mean."""


class TablePreprocessing(nn.Module):
    """A row of floats → normalised features, none missing.

    Of a number come: (x - mean) / std, cut off at `LIMIT`; for each of its bins how far x is
    through it, -1 before and 1 behind (a piecewise linear encoding); and, where some were missing
    in training, whether it is. A missing number is taken to be the median. A category becomes one
    feature for each of its values, all of them 0 for an unknown one.

    Args:
        columns: In the order of the row. A number has `name`, `median`, `mean`, `std`, `edges` of
            its bins in ascending order (none, or two and more) and `missing`, whether it has that
            feature; a category has `name` and `values`: of what a row holds the number for.

    Shapes:
        float [..., columns], NaN for a missing number or an unknown category → float32 [..., F]

    Source: Gorishniy et al., "On Embeddings for Numerical Features in Tabular Deep Learning", 2022
        (arXiv:2203.05556), section 3.2, for the encoding.
    """

    def __init__(self, columns: list[dict[str, Any]]) -> None:
        super().__init__()
        if not columns:
            raise UserError("A table without a column of numbers or categories has no features.")
        self.columns = columns
        numbers = [(n, c) for n, c in enumerate(columns) if "values" not in c]
        bins = [
            (position, low, high)
            for position, (_, column) in enumerate(numbers)
            for low, high in zip(column["edges"][:-1], column["edges"][1:], strict=True)
        ]
        values = [
            (n, v) for n, c in enumerate(columns) if "values" in c for v in range(len(c["values"]))
        ]
        flags = [position for position, (_, column) in enumerate(numbers) if column["missing"]]
        self.num_features = len(numbers) + len(bins) + len(flags) + len(values)
        # not kept in the state: they are in the description, as the order of the columns is
        self.number = self._indexes("number", [n for n, _ in numbers])  # [N], of columns
        self.median = self._floats("median", [column["median"] for _, column in numbers])  # [N]
        self.mean = self._floats("mean", [column["mean"] for _, column in numbers])  # [N]
        self.std = self._floats("std", [column["std"] for _, column in numbers])  # [N]
        self.binned = self._indexes("binned", [n for n, _, _ in bins])  # of numbers
        self.low = self._floats("low", [low for _, low, _ in bins])
        self.width = self._floats("width", [high - low for _, low, high in bins])
        self.flagged = self._indexes("flagged", flags)  # of numbers
        self.category = self._indexes("category", [n for n, _ in values])  # of columns
        self.value = self._floats("value", [v for _, v in values])

    def _indexes(self, name: str, values: list[int]) -> Tensor:
        self.register_buffer(name, torch.tensor(values, dtype=torch.int64), persistent=False)
        return self.get_buffer(name)

    def _floats(self, name: str, values: list[float]) -> Tensor:
        self.register_buffer(name, torch.tensor(values, dtype=torch.float32), persistent=False)
        return self.get_buffer(name)

    def forward(self, row: Tensor) -> Tensor:
        numbers = row.index_select(-1, self.number)  # [..., N]
        missing = numbers.isnan()
        numbers = torch.where(missing, self.median, numbers)
        scaled = ((numbers - self.mean) / self.std).clamp(-LIMIT, LIMIT)
        through = (numbers.index_select(-1, self.binned) - self.low) / self.width
        flags = missing.index_select(-1, self.flagged)
        ones = row.index_select(-1, self.category) == self.value  # NaN equals nothing
        parts = [scaled, through.clamp(0, 1) * 2 - 1, flags.to(scaled.dtype), ones.to(scaled.dtype)]
        return torch.cat(parts, dim=-1)  # [..., F]

    def description(self) -> dict[str, Any]:
        """The constructor's arguments as plain values, for the checkpoint and the export."""
        return {"columns": self.columns}
