"""Small working projects, one for each kind of data, and a list to plant faults in them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from lightning.pytorch.cli import OptimizerCallable
from torch import Tensor, nn
from torch.utils.data import Dataset

from project.batches import Batch
from project.data import DataModule
from project.data.collate import pad, stack
from project.data.loader import Collate, Loader
from project.tasks import Classification, Regression, Segmentation, Task

CLASSES = ["a", "b", "c", "d"]
SIZES = {"train": 120, "val": 70, "test": 30}


class Samples(Dataset):
    """Inputs and targets held as lists of tensors."""

    def __init__(
        self, inputs: dict[str, list[Tensor]], target: list[Any], augmentation: Any = None
    ) -> None:
        self.inputs = inputs
        self.target = target
        self.augmentation = augmentation
        self.transform: Any = None

    def __len__(self) -> int:
        return len(self.target)

    def __getitem__(self, index: int) -> dict[str, Any]:
        inputs = {name: values[index] for name, values in self.inputs.items()}
        for change in (self.augmentation, self.transform):
            if change is not None:
                inputs["image"] = change(inputs["image"])
        return {"inputs": inputs, "target": self.target[index]}


class Small(DataModule):
    """Data made in a test."""

    def __init__(
        self,
        splits: dict[str, Samples],
        sizes: dict[str, int],
        *,
        batch_size: int = 16,
        collate: Collate = stack,
        loader: Loader | None = None,
    ) -> None:
        super().__init__(batch_size, loader or Loader(num_workers=0))
        self.splits = splits
        self.sizes = sizes
        self.seed = 0
        self.collate = collate  # type: ignore[misc]

    def load(self) -> dict[str, Dataset]:
        return dict(self.splits)


Project = tuple[Task, Small]

adam: OptimizerCallable = partial(torch.optim.AdamW, lr=3e-3)


class Net(nn.Module):
    """Two convolutions, batch normalisation, dropout, a linear head."""

    def __init__(self, num_outputs: int = 4) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Dropout(0.1),
        )  # fmt: skip
        self.head = nn.Linear(64, num_outputs)

    def forward(self, image: Tensor) -> Tensor:
        return self.head(self.body(image))


class Pool(nn.Module):
    """Embeds tokens and takes the mean over those that are real."""

    def __init__(self, num_tokens: int = 12, num_outputs: int = 4) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_tokens, 16)
        self.head = nn.Linear(16, num_outputs)

    def forward(self, tokens: Tensor, padding: Tensor) -> Tensor:
        real = ~padding[..., None]  # [B, T, 1]
        return self.head((self.embedding(tokens) * real).sum(1) / real.sum(1))


class Columns(nn.Module):
    """A small perceptron."""

    def __init__(self, num_features: int = 5, num_outputs: int = 1) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(num_features, 32), nn.ReLU(), nn.Linear(32, num_outputs)
        )

    def forward(self, features: Tensor) -> Tensor:
        return self.layers(features)


class PerPixel(nn.Module):
    """A class for every pixel."""

    def __init__(self, num_outputs: int = 2) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, num_outputs, 1)
        )

    def forward(self, image: Tensor) -> Tensor:
        return self.layers(image)


def drawn(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def shift(image: Tensor) -> Tensor:
    """A harmless augmentation."""
    return image.roll(int(torch.randint(-1, 2, ())), -1)


def images(network: nn.Module | None = None, *, optimizer: OptimizerCallable = adam) -> Project:
    """Four kinds of bright quarter, with noise."""
    splits = {}
    for number, (split, size) in enumerate(SIZES.items()):
        target = torch.arange(size) % 4
        image = 0.4 * torch.randn(size, 1, 8, 8, generator=drawn(number))
        for n, label in enumerate(target.tolist()):
            image[n, 0, 4 * (label // 2) : 4 * (label // 2) + 4, 4 * (label % 2) :][:, :4] += 1.5
        image = (image - 0.375) / 0.8
        splits[split] = Samples(
            {"image": list(image)}, list(target), shift if split == "train" else None
        )
    torch.manual_seed(0)
    task = Classification(network or Net(), CLASSES, optimizer=optimizer)
    return task, Small(splits, {"in_channels": 1, "num_outputs": 4})


def texts(network: nn.Module | None = None) -> Project:
    """The class is the token that occurs most."""
    splits = {}
    for number, (split, size) in enumerate(SIZES.items()):
        generator, target = drawn(10 + number), torch.arange(size) % 4
        tokens = []
        for label in target.tolist():
            length = int(torch.randint(8, 14, (), generator=generator))
            row = torch.randint(2, 12, (length,), generator=generator)
            row[: length // 2 + 1] = 2 + label
            tokens.append(row)
        splits[split] = Samples({"tokens": tokens}, list(target))
    torch.manual_seed(0)
    task = Classification(network or Pool(), CLASSES, optimizer=adam)
    return task, Small(splits, {"num_tokens": 12, "num_outputs": 4}, collate=pad)


def numbers(network: nn.Module | None = None, *, scale: float = 50.0) -> Project:
    """A sum of columns, in units of its own."""
    splits = {}
    for number, (split, size) in enumerate(SIZES.items()):
        features = torch.randn(size, 5, generator=drawn(20 + number))
        target = 300 + scale * features.sum(1, keepdim=True) / 5**0.5
        splits[split] = Samples({"features": list(features)}, list(target))
    torch.manual_seed(0)
    task = Regression(network or Columns(), ["y"], [300.0], [scale], optimizer=adam)
    return task, Small(splits, {"num_features": 5, "num_outputs": 1})


def masks(network: nn.Module | None = None) -> Project:
    """Which pixels are bright."""
    splits = {}
    for number, (split, size) in enumerate(SIZES.items()):
        generator = drawn(30 + number)
        target = torch.zeros(size, 8, 8, dtype=torch.long)
        for mask in target:
            row, column = torch.randint(0, 5, (2,), generator=generator).tolist()
            mask[row : row + 4, column : column + 4] = 1
        image = target[:, None] * 2 - 0.5 + 0.3 * torch.randn(size, 1, 8, 8, generator=generator)
        splits[split] = Samples({"image": list(image)}, list(target))
    torch.manual_seed(0)
    task = Segmentation(network or PerPixel(), ["ground", "thing"], optimizer=adam)
    return task, Small(splits, {"in_channels": 1, "num_outputs": 2})


CLEAN: dict[str, Callable[[], Project]] = {
    "images": images, "texts": texts, "numbers": numbers, "masks": masks,
}  # fmt: skip


class Own(Task):
    """A task of which a test chooses the loss."""

    def __init__(self, network: nn.Module, loss: Callable[[Tensor, Tensor], Tensor]) -> None:
        from torchmetrics import MetricCollection

        super().__init__(network, MetricCollection({}), optimizer=adam, schedule=None)
        self.compared = loss

    def loss_and_predictions(self, batch: Batch) -> tuple[Tensor, Tensor]:
        output = self(**batch["inputs"])
        return self.compared(output, batch["target"]), output

    def decode(self, outputs: Tensor, batch: Batch) -> dict[str, list[Any]]:
        return {}


@dataclass(frozen=True)
class Fault:
    """A mistake, the check that must find it, and the words by which it must be called.

    Args:
        kind: Of mistakes, such as `labels`.
        check: The check's name.
        said: A regular expression.
        plant: Makes a project with the mistake in it.
    """

    kind: str
    check: str
    said: str
    plant: Callable[..., Project]

    @property
    def name(self) -> str:
        return self.plant.__name__


FAULTS: list[Fault] = []


def fault(kind: str, check: str, said: str) -> Callable[[Callable[..., Project]], Any]:
    """Put a mistake on the list."""

    def add(plant: Callable[..., Project]) -> Callable[..., Project]:
        FAULTS.append(Fault(kind, check, said, plant))
        return plant

    return add
