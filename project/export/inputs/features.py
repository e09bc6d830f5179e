"""Rows of tables."""

from typing import Any

import torch
from torch import Tensor

from project.data.table_preprocessing import TablePreprocessing
from project.errors import UserError
from project.export.inputs.input import Input


class Features(Input):
    """A row of a table: numbers, and the numbers of its categories → the network's features.

    Shapes:
        float [B, columns] → float [B, F]
    """

    def __init__(self, description: dict[str, Any]) -> None:
        super().__init__(description)
        if "features" not in description:
            raise UserError(
                "The checkpoint does not say how its rows were prepared. Let the data module's "
                "description() give `features`, the scaling of each column, and train again."
            )
        self.preprocessing = TablePreprocessing(**description["features"])

    def forward(self, given: Tensor) -> Tensor:
        return self.preprocessing(given)

    def example(self) -> Tensor:
        return self.together(self.random(3))

    def random(self, count: int) -> list[Tensor]:
        columns = self.preprocessing.columns
        row = torch.tensor([0.0 if "values" in c else c["median"] for c in columns])
        return [row * (1 + n / count) for n in range(count)]

    def sample(self, inputs: dict[str, Tensor]) -> Tensor:
        return inputs["features"]

    def contract(self) -> dict[str, Any]:
        return {
            "dtype": "float32",
            "shape": ["batch", len(self.preprocessing.columns)],
            "dynamic": list(self.dynamic),
            "meaning": "a row: of a category the number of its value, counted from 0; NaN where a "
            "number is missing or a value unknown",
            "columns": self.preprocessing.columns,
            "preprocessing": {
                "where": "inside the model: give it the numbers as they are",
                "steps": [
                    "median for a missing number, and whether it was missing",
                    "subtract the mean, divide by the std, cut off; how far through each bin",
                    "a feature for each value of a category",
                ],
            },
        }
