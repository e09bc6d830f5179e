"""What a checkpoint costs: `python benchmarks/checkpointing.py`.

1. The time of one save, synced to the disk and renamed, against a bare `torch.save` of the same
   content to the same disk, and against one with an fsync. Interleaved; median and range.
2. The share of a run that the default checkpointing takes: the time spent in saves during
   `fit --config configs/digits.yaml`.

Writes `benchmarks/results/checkpointing.json` and `.md`.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torchvision.models import resnet18

from project.checkpoints import AtomicCheckpointIO
from project.cli import main as command
from project.trainer import Trainer

RESULTS = Path(__file__).parent / "results"


def contents() -> dict[str, dict]:
    """A checkpoint of a small and of a middle-sized network, with Adam's moments."""
    found = {}
    for name, network in {"1 MB": torch.nn.Linear(300, 300), "134 MB": resnet18()}.items():
        optimizer = torch.optim.Adam(network.parameters())
        for parameter in network.parameters():
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        found[name] = {"state_dict": network.state_dict(), "optimizer": optimizer.state_dict()}
    return found


def bare(content: dict, path: Path) -> None:
    """`torch.save`, as most scripts do it."""
    torch.save(content, path)


def synced(content: dict, path: Path) -> None:
    """The same, made sure to be on the disk."""
    with path.open("wb") as file:
        torch.save(content, file)
        file.flush()
        os.fsync(file.fileno())


def ours(content: dict, path: Path) -> None:
    """Whole or not at all."""
    AtomicCheckpointIO().save_checkpoint(content, path)


def seconds(save: Callable[[dict, Path], None], content: dict, path: Path) -> float:
    """Duration of one save."""
    begin = time.perf_counter()
    save(content, path)
    return time.perf_counter() - begin


def time_saves(rounds: int) -> list[dict]:
    """Median seconds per way of saving, measured in turns."""
    rows = []
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        for size, content in contents().items():
            times: dict[str, list[float]] = {"bare": [], "synced": [], "ours": []}
            for _ in range(rounds):
                for save in (bare, synced, ours):
                    path = Path(folder) / f"{save.__name__}.ckpt"
                    times[save.__name__].append(seconds(save, content, path))
            medians = {name: statistics.median(values) for name, values in times.items()}
            rows.append(
                {
                    "size": size,
                    "rounds": rounds,
                    "milliseconds": {k: round(1e3 * v, 2) for k, v in medians.items()},
                    "range": {
                        k: [round(1e3 * min(v), 2), round(1e3 * max(v), 2)]
                        for k, v in times.items()
                    },
                    "ours / bare": round(medians["ours"] / medians["bare"], 2),
                    "ours / synced": round(medians["ours"] / medians["synced"], 2),
                }
            )
    return rows


def share_of_a_run() -> dict[str, float]:
    """Time in saves, as a share of the training of the first example."""
    spent: list[float] = []
    save, fit = Trainer.save_checkpoint, Trainer.fit

    def timed_save(self: Trainer, *arguments: object) -> None:
        begin = time.perf_counter()
        save(self, *arguments)
        spent.append(time.perf_counter() - begin)

    whole: list[float] = []

    def timed_fit(self: Trainer, *arguments: object, **options: object) -> None:
        begin = time.perf_counter()
        fit(self, *arguments, **options)
        whole.append(time.perf_counter() - begin)

    Trainer.save_checkpoint, Trainer.fit = timed_save, timed_fit
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        options = ["--run.root", folder, "--run.test_after_fit", "false"]
        command(["fit", "--config", "configs/digits.yaml", *options])
    Trainer.save_checkpoint, Trainer.fit = save, fit
    return {
        "saves": len(spent),
        "milliseconds per save": round(1e3 * statistics.median(spent), 1),
        "share of the run": round(sum(spent) / whole[0], 4),
    }


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=11)
    rounds = parser.parse_args().rounds
    sys.argv = sys.argv[:1]
    result = {"saves": time_saves(rounds), "run": share_of_a_run()}
    lines = [
        "| size | `torch.save` | and fsync | ours | ours / `torch.save` | ours / and fsync |",
        "|---|---|---|---|---|---|",
    ]
    for row in result["saves"]:
        cells = [f"{row['milliseconds'][k]} ms" for k in ("bare", "synced", "ours")]
        ratios = [str(row["ours / bare"]), str(row["ours / synced"])]
        lines.append(f"| {' | '.join([row['size'], *cells, *ratios])} |")
    run = result["run"]
    lines += [
        "",
        f"`fit --config configs/digits.yaml`: {run['saves']} saves of "
        f"{run['milliseconds per save']} ms, {run['share of the run']:.1%} of the training time.",
    ]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "checkpointing.json").write_text(json.dumps(result, indent=2) + "\n")
    (RESULTS / "checkpointing.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
