"""What batches of similar lengths save, and what a loop over the samples of a batch would cost.

    python benchmarks/padding.py                       on surnames, which a package ships
    python benchmarks/padding.py --table texts.csv     on texts of your own as well

First, one epoch of training a `TokenCNN` with `data.loader.bucket_batches` 100 and 0 (random),
by turns. Second, mean and maximum over the steps of each sample of a batch, by a mask and by a loop
over the samples, as many write it, forward and backward, by turns. Shown are medians, of the clock
and of the time that the processor worked for this process.

Writes `benchmarks/results/padding.json` and `.md`.
"""

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from project.data import Columns, DataModule, Loader, Texts, Vocabulary
from project.data.bucketing import padded_share
from project.models import TokenCNN
from project.models.pooling import mean_and_max

RESULTS = Path(__file__).parent / "results"
POOLED = {"64 x up to 32": (64, 32), "256 x up to 128": (256, 128)}  # samples, longest
WIDTH = 128


def module(table: str | None, bucket_batches: int) -> DataModule:
    """The data as `fit` makes them."""
    torch.manual_seed(0)
    data = Texts(
        table,
        vocabulary=Vocabulary(unit="word" if table else "character"),
        columns=Columns(),
        on_bad="skip",
        loader=Loader(num_workers=0, bucket_batches=bucket_batches),
    )
    data.setup("fit")
    return data


def epoch(data: DataModule) -> Callable[[], None]:
    """One epoch of training, another one at each call."""
    network = TokenCNN(data.sizes["num_tokens"], data.sizes["num_outputs"])
    optimizer = torch.optim.AdamW(network.parameters())
    loader = data.train_dataloader()

    def train() -> None:
        for batch in loader:
            optimizer.zero_grad()
            F.cross_entropy(network(**batch["inputs"]), batch["target"]).backward()
            optimizer.step()
        loader.batch_sampler.set_epoch(loader.batch_sampler.epoch + 1)

    return train


def looped(features: Tensor, padding: Tensor) -> Tensor:
    """As `mean_and_max`, sample by sample."""
    rows = []
    for row, padded in zip(features, padding, strict=True):
        real = row[~padded]
        rows.append(torch.cat([real.mean(0), real.amax(0)]))
    return torch.stack(rows)


def pooling(pool: Callable[[Tensor, Tensor], Tensor], count: int, longest: int) -> Callable:
    """Forward and backward of a batch whose lengths are spread evenly."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(count, longest, WIDTH, generator=generator, requires_grad=True)
    lengths = torch.randint(1, longest + 1, (count, 1), generator=generator)
    padding = torch.arange(longest) >= lengths
    return lambda: pool(features, padding).sum().backward()


def compared(contestants: dict[str, Callable[[], None]], turns: int) -> dict[str, dict]:
    """Median milliseconds of each, after a turn that is not counted."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    for turn in range(turns + 1):
        for name, run in contestants.items():
            began = time.perf_counter(), time.process_time()
            run()
            spent = time.perf_counter() - began[0], time.process_time() - began[1]
            if turn:
                found[name].append(spent)
    return {
        name: {
            "clock_ms": round(1000 * statistics.median(clock for clock, _ in spent), 2),
            "processor_ms": round(1000 * statistics.median(cpu for _, cpu in spent), 2),
        }
        for name, spent in found.items()
    }


def measured(tables: dict[str, str | None], turns: int) -> dict[str, dict[str, dict]]:
    """All comparisons, by what is compared."""
    results = {}
    for name, table in tables.items():
        sets = {"random order": module(table, 0), "bucketed": module(table, 100)}
        timed = compared({order: epoch(data) for order, data in sets.items()}, turns)
        for order, data in sets.items():
            batches = data.train_dataloader().batch_sampler.batches(0)
            lengths = data.lengths("train")
            timed[order]["padding_share"] = round(padded_share(lengths, batches), 4)
        results[f"one epoch on {name}"] = timed
    for name, size in POOLED.items():
        ways = {"loop over samples": pooling(looped, *size), "mask": pooling(mean_and_max, *size)}
        results[f"pooling {name} steps"] = compared(ways, 10 * turns)
    return results


def table_of(results: dict[str, dict[str, dict]]) -> str:
    """As Markdown."""
    lines = [
        "| what | how | padding | ms (clock) | ms (processor) | against the first |",
        "|---|---|---|---|---|---|",
    ]
    for what, ways in results.items():
        base = next(iter(ways.values()))["processor_ms"]
        for how, n in ways.items():
            share = f"{n['padding_share']:.1%}" if "padding_share" in n else ""
            lines.append(
                f"| {what} | {how} | {share} | {n['clock_ms']} | {n['processor_ms']} | "
                f"{n['processor_ms'] / base:.2f}× |"
            )
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write the results beside this file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--table", help="texts of your own, with columns text and label or the like"
    )
    parser.add_argument("--turns", type=int, default=3, help="how often all are measured")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    tables: dict[str, str | None] = {"surnames": None}
    if arguments.table:
        tables["/".join(Path(arguments.table).parts[-2:])] = arguments.table
    results = measured(tables, arguments.turns)
    record = {"cpus": os.cpu_count(), "machine": platform.machine(), "torch": torch.__version__}
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps({**record, "results": results}, indent=1)
    (RESULTS / "padding.json").write_text(text + "\n", encoding="utf-8")
    (RESULTS / "padding.md").write_text(table_of(results) + "\n", encoding="utf-8")
    print(table_of(results))


if __name__ == "__main__":
    main()
