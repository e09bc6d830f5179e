"""What differs in length: tokens, sequences, and where they are padded."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from project.batches import VARIABLE
from project.data.sequence_preprocessing import SequencePreprocessing
from project.data.tokens import PADDING, UNKNOWN, WORDS, Tokenizer, Unit
from project.errors import UserError
from project.export.inputs.input import Input


class Tokens(Input):
    """Numbers of words or characters; the vocabulary travels in the contract.

    Shapes:
        int64 [B, T] → the same
    """

    dynamic = ("batch", "length")

    def __init__(self, description: dict[str, Any]) -> None:
        super().__init__(description)
        if "tokenizer" not in description:
            raise UserError(
                "The checkpoint does not say how its texts became numbers. Let the data module's "
                "description() give `tokenizer`, the numbers of each token, and train again."
            )
        self.tokenizer = Tokenizer(**description["tokenizer"])

    def example(self) -> Tensor:
        return self.together(self.random(3))

    def random(self, count: int) -> list[Tensor]:
        return [torch.arange(5 + n % 3) % self.tokenizer.num_tokens + UNKNOWN for n in range(count)]

    def sample(self, inputs: dict[str, Tensor]) -> Tensor:
        return inputs["tokens"]

    def together(self, samples: list[Tensor]) -> Tensor:
        return pad_sequence(samples, batch_first=True, padding_value=PADDING)

    def contract(self) -> dict[str, Any]:
        unit: Unit = self.tokenizer.unit
        return {
            "dtype": "int64",
            "shape": ["batch", "length"],
            "dynamic": list(self.dynamic),
            "meaning": f"number of each {unit}; {UNKNOWN} if it is unknown, {PADDING} if padded",
            "tokenizer": {
                **self.tokenizer.description(),
                "words": WORDS,
                "steps": [
                    *(["make all letters small"] if self.tokenizer.lowercase else []),
                    "Unicode NFC; one blank for several, none around",
                    "split by the regular expression `words`" if unit == "word" else "split",
                    "number 2 for the first of the vocabulary, 3 for the second, …",
                    f"keep the first {self.tokenizer.max_length}; [{UNKNOWN}] for an empty text",
                ],
            },
        }


class Sequence(Input):
    """Numbers at each step, as they were measured → normalised.

    Shapes:
        float [B, T, F] → float [B, T, F]
    """

    dynamic = ("batch", "length")

    def __init__(self, description: dict[str, Any]) -> None:
        super().__init__(description)
        numbers = description.get("preprocessing")
        if not isinstance(numbers, dict) or set(numbers) != {"mean", "std"}:
            raise UserError(
                f"The checkpoint says of its preprocessing {numbers!r}; mean and std of each "
                "channel are needed to export it. Let the data module's description() give them, "
                "the scaling of each channel, and train again."
            )
        self.preprocessing = SequencePreprocessing(**numbers)
        self.num_channels = len(numbers["mean"])
        self.sound = description.get("sound")

    def forward(self, given: Tensor) -> Tensor:
        return self.preprocessing(given)

    def example(self) -> Tensor:
        return self.together(self.random(3))

    def random(self, count: int) -> list[Tensor]:
        generator = torch.Generator().manual_seed(0)
        lengths = [5 + n % 3 for n in range(count)]
        return [torch.randn(n, self.num_channels, generator=generator) for n in lengths]

    def sample(self, inputs: dict[str, Tensor]) -> Tensor:
        return inputs["sequence"]

    def together(self, samples: list[Tensor]) -> Tensor:
        return pad_sequence(samples, batch_first=True)

    def contract(self) -> dict[str, Any]:
        return {
            "dtype": "float32",
            "shape": ["batch", "length", self.num_channels],
            "dynamic": list(self.dynamic),
            "meaning": "the numbers of each step as they were measured; anything where padded",
            "preprocessing": {
                "where": "inside the model: give it the numbers as they are",
                "steps": ["subtract the mean and divide by the std of each channel"],
                **self.preprocessing.description(),
            },
            **({"sound": self.sound} if self.sound else {}),
        }


class Padding(Input):
    """Where tokens or a sequence are padded.

    Shapes:
        bool [B, T] → the same
    """

    dynamic = ("batch", "length")

    def example(self) -> Tensor:
        return self.together(self.random(3))

    def random(self, count: int) -> list[Tensor]:
        return [torch.zeros(5 + n % 3, dtype=torch.bool) for n in range(count)]

    def sample(self, inputs: dict[str, Tensor]) -> Tensor:
        length = next(len(inputs[name]) for name in VARIABLE if name in inputs)
        return torch.zeros(length, dtype=torch.bool)

    def together(self, samples: list[Tensor]) -> Tensor:
        return pad_sequence(samples, batch_first=True, padding_value=True)

    def contract(self) -> dict[str, Any]:
        return {
            "dtype": "bool",
            "shape": ["batch", "length"],
            "dynamic": list(self.dynamic),
            "meaning": "true where a shorter sample is padded, never for a whole one",
        }
