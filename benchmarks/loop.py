"""Seconds per step: `fit` with all house callbacks on, beside the same training written by hand.

    python benchmarks/loop.py

All train the same network on the same images in memory with the same optimizer: a loop written by
hand with torch's `DataLoader`; this project's command line, as a user runs it at a terminal, with
progress bar, checkpoint, history, guard against NaN and TensorBoard; Lightning's own Trainer with
all of that switched off; and with its usual settings (progress bar, TensorBoard, checkpoint, loss
and accuracy logged at every step). They take turns, so that whatever else the machine does falls on
all of them. A turn is one epoch, timed from the start of one step to the start of a later one: data
loading is in it, validation and the writing of checkpoints are not. The median of the turns is
shown, of the clock and of the time the processor worked for this process.

Writes `benchmarks/results/loop.json` and `.md`.
"""

import argparse
import contextlib
import io
import json
import logging
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning as L
import torch
import yaml
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset
from torchmetrics.classification import MulticlassAccuracy

from project.cli import main as command
from project.data import DataModule, Loader
from project.models import Backbone

RESULTS = Path(__file__).parent / "results"
BATCH = 64
SETTINGS = {  # network, image's size, steps before the clock starts, steps that are timed
    "ResNet-18, 32 px, batch 64": ("loop.ResNet18", 32, 2, 12),
    "MLP of 2 layers, 8 px, batch 64": ("loop.MLP", 8, 50, 400),
}


class ResNet18(Backbone):
    """torchvision's, as it is."""

    def __init__(self, in_channels: int, num_outputs: int) -> None:
        super().__init__(in_channels, num_outputs, name="resnet18")


class MLP(nn.Sequential):
    """So small that the loop around it is all that takes time."""

    def __init__(self, in_channels: int, num_outputs: int) -> None:
        pixels = in_channels * 8 * 8
        layers = nn.Linear(pixels, 64), nn.ReLU(), nn.Linear(64, num_outputs)
        super().__init__(nn.Flatten(), *layers)

    def forward(self, image: Tensor) -> Tensor:
        return super().forward(image)


class Images(Dataset):
    """Random images in memory, as samples of this project."""

    def __init__(self, size: int, count: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.images = torch.randn(count, 3, size, size, generator=generator)
        self.target = torch.randint(10, (count,), generator=generator)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"inputs": {"image": self.images[index]}, "target": self.target[index]}


class Memory(DataModule):
    """The same images in this project's terms."""

    def __init__(self, size: int, count: int) -> None:
        super().__init__(BATCH, Loader(num_workers=0))
        self.size, self.count = size, count
        self.class_names = [str(number) for number in range(10)]
        self.sizes = {"in_channels": 3, "num_outputs": 10}

    def load(self) -> dict[str, Dataset]:
        return {
            "train": Images(self.size, self.count),
            "val": Images(self.size, BATCH),
            "test": Images(self.size, BATCH),
        }


class Clock(L.Callback):
    """Seconds per step between two steps, of the clock and of the processor."""

    latest = (0.0, 0.0)

    def __init__(self, first: int, steps: int) -> None:
        self.marks = {first, first + steps}
        self.steps = steps
        self.begun = (0.0, 0.0)

    def on_train_batch_start(
        self, trainer: L.Trainer, module: Any, batch: Any, number: int
    ) -> None:
        if number in self.marks:
            now = (time.perf_counter(), time.process_time())
            spent = (now[0] - self.begun[0], now[1] - self.begun[1])
            Clock.latest = (spent[0] / self.steps, spent[1] / self.steps)
            self.begun = now


def by_hand(network: nn.Module, loader: DataLoader, clock: Clock) -> None:
    """Zero, forward, loss, backward, step."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    network.train()
    for number, batch in enumerate(loader):
        clock.on_train_batch_start(None, None, None, number)  # ty: ignore[invalid-argument-type]
        optimizer.zero_grad()
        loss = F.cross_entropy(network(**batch["inputs"]), batch["target"])
        loss.backward()
        optimizer.step()


class Stock(L.LightningModule):
    """A module as most tutorials write it."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.accuracy = MulticlassAccuracy(10)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        logits = self.network(**batch["inputs"])
        loss = F.cross_entropy(logits, batch["target"])
        self.accuracy(logits, batch["target"])
        self.log("train_loss", loss, on_step=True, on_epoch=True, prog_bar=True)
        self.log("train_accuracy", self.accuracy, on_step=True, on_epoch=True, prog_bar=True)
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        logits = self.network(**batch["inputs"])
        self.log("val_loss", F.cross_entropy(logits, batch["target"]), prog_bar=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


class Bare(Stock):
    """The least that Lightning's Trainer can be asked to do."""

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        return F.cross_entropy(self.network(**batch["inputs"]), batch["target"])


class Terminal(io.StringIO):
    """What a progress bar takes for a terminal."""

    def isatty(self) -> bool:
        """As a terminal answers."""
        return True


def contestants(name: str, folder: Path) -> dict[str, Callable[[], None]]:
    """What trains one epoch, by name; each leaves its times in the clock."""
    class_path, size, warm_up, steps = SETTINGS[name]
    count = (warm_up + steps + 1) * BATCH
    make: Any = {"loop.ResNet18": ResNet18, "loop.MLP": MLP}[class_path]

    def network() -> nn.Module:
        torch.manual_seed(0)
        return make(in_channels=3, num_outputs=10)

    def loader() -> DataLoader:
        return DataLoader(Images(size, count), batch_size=BATCH, shuffle=True)

    def hand() -> None:
        by_hand(network(), loader(), Clock(warm_up, steps))

    def template() -> None:
        clock = {"class_path": "loop.Clock", "init_args": {"first": warm_up, "steps": steps}}
        config = {
            "model": {
                "class_path": "Classification",
                "init_args": {"network": {"class_path": class_path}},
            },
            "data": {"class_path": "loop.Memory", "init_args": {"size": size, "count": count}},
            "trainer": {"max_epochs": 1, "callbacks": [clock]},
            "run": {"root": str(folder), "test_after_fit": False},
        }
        path = folder / "loop.yaml"
        path.write_text(yaml.safe_dump(config))
        assert command(["fit", "--config", str(path)]) == 0

    def bare() -> None:
        fit(
            Bare(network()),
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
        )

    def stock() -> None:
        fit(Stock(network()))

    def fit(module: L.LightningModule, **options: Any) -> None:
        clock = Clock(warm_up, steps)
        trainer = L.Trainer(
            max_epochs=1,
            callbacks=[clock],
            default_root_dir=folder,
            enable_model_summary=False,
            **options,
        )
        trainer.fit(module, loader(), DataLoader(Images(size, BATCH), batch_size=BATCH))

    return {
        "by hand": hand,
        "this project": template,
        "Lightning, bare": bare,
        "Lightning, usual settings": stock,
    }


def measured(name: str, turns: int) -> dict[str, dict[str, Any]]:
    """By contestant: the times of all turns, and what they say."""
    import loop  # the command line finds the classes there; this file itself runs as __main__

    times: dict[str, list[tuple[float, float]]] = {}
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    screen = Terminal()
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.redirect_stderr(screen),
        contextlib.redirect_stdout(screen),
    ):
        for _ in range(turns):
            for contestant, run in loop.contestants(name, Path(folder)).items():
                run()
                times.setdefault(contestant, []).append(loop.Clock.latest)
    return {contestant: summary(of_it, times["by hand"]) for contestant, of_it in times.items()}


def summary(times: list[tuple[float, float]], base: list[tuple[float, float]]) -> dict[str, Any]:
    """Medians, range, and the ratio to the loop by hand: of the medians, and turn by turn."""
    clock, processor = ([pair[kind] for pair in times] for kind in (0, 1))
    base_clock, base_processor = ([pair[kind] for pair in base] for kind in (0, 1))
    by_turn = [a / b for a, b in zip(clock, base_clock, strict=True)]
    return {
        "milliseconds": round(1e3 * statistics.median(clock), 3),
        "range": [round(1e3 * min(clock), 3), round(1e3 * max(clock), 3)],
        "ratio": round(statistics.median(clock) / statistics.median(base_clock), 3),
        "ratio_by_turn": [round(min(by_turn), 3), round(max(by_turn), 3)],
        "ratio_of_processor_time": round(
            statistics.median(processor) / statistics.median(base_processor), 3
        ),
    }


def table(results: dict[str, dict[str, dict[str, Any]]]) -> str:
    """As Markdown."""
    lines = [
        "| network | loop | ms per step (median) | smallest–largest | against by hand "
        "| turn by turn | processor time against by hand |",
        "|---|---|---|---|---|---|---|",
    ]
    for network, by_name in results.items():
        lines += [
            f"| {network} | {name} | {n['milliseconds']} | {n['range'][0]}–{n['range'][1]} | "
            f"{n['ratio']}× | {n['ratio_by_turn'][0]}–{n['ratio_by_turn'][1]}× | "
            f"{n['ratio_of_processor_time']}× |"
            for name, n in by_name.items()
        ]
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write the results beside this file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=7, help="how often all are measured")
    parser.add_argument("--only", help="the first letters of the network to measure")
    parser.add_argument("--output", default=str(RESULTS), help="where the results are written")
    arguments = parser.parse_args()
    sys.argv = sys.argv[:1]
    torch.set_num_threads(1)  # a second one is often busy with something else
    names = [name for name in SETTINGS if name.startswith(arguments.only or "")]
    results = {name: measured(name, arguments.turns) for name in names}
    versions = {"torch": torch.__version__, "lightning": L.__version__}
    record = {"cpus": os.cpu_count(), "machine": platform.machine(), **versions, **results}
    output = Path(arguments.output)
    output.mkdir(parents=True, exist_ok=True)
    (output / "loop.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    (output / "loop.md").write_text(table(results) + "\n", encoding="utf-8")
    print(table(results))


if __name__ == "__main__":
    main()
