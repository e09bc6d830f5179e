"""Memory of loader workers at a million samples: an index in an array against one in a list.

    python benchmarks/memory.py

Touching a Python object writes its reference count, which copies the page it lies on into every
forked worker; an array's elements have none. Both data sets give out the length of a path only, so
that nothing else takes memory. Read from /proc: USS, what a worker has for itself, and PSS, with
its share of what it has in common with others. Linux only.
"""

import argparse
import json
import multiprocessing
from pathlib import Path

import numpy as np
from torch.utils.data import DataLoader, Dataset

from project.data.cache import Pixels

RESULTS = Path(__file__).parent / "results"


class InList(Dataset):
    """Paths and labels as most tutorials hold them."""

    def __init__(self, count: int) -> None:
        self.samples = [(path_of(number), number % 10) for number in range(count)]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> int:
        path, label = self.samples[index]
        return len(path) + label


class InArrays(Dataset):
    """The same as this project holds them."""

    def __init__(self, count: int) -> None:
        width = len(path_of(count))
        paths = np.fromiter((path_of(number).encode() for number in range(count)), f"S{width}")
        self.pixels = Pixels(paths)
        self.labels = np.arange(count) % 10

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int) -> int:
        return len(str(self.pixels.path(index))) + int(self.labels[index])


def path_of(number: int) -> str:
    """A path as long as they usually are."""
    return f"/data/photos/2026/collection/class_{number % 10:03d}/photograph_{number:09d}.jpg"


def memory(pid: int) -> tuple[float, float]:
    """USS and PSS of a process in MB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()[1:]
    kb = {name: int(rest.split()[0]) for name, rest in (line.split(":") for line in lines)}
    return (kb["Private_Clean"] + kb["Private_Dirty"]) / 1e3, kb["Pss"] / 1e3


def measured(dataset: Dataset, workers: int) -> dict[str, float]:
    """Mean over the workers at the start of an epoch and at its end."""
    loader = DataLoader(
        dataset, batch_size=1000, num_workers=workers, shuffle=True,
        multiprocessing_context="fork",
    )  # fmt: skip
    batches = iter(loader)
    next(batches)
    before = [memory(child.pid) for child in multiprocessing.active_children()]
    for position, _ in enumerate(batches):
        if position == len(loader) - 3 * workers:  # while the workers are still there
            after = [memory(child.pid) for child in multiprocessing.active_children()]
    means = {}
    for when, values in {"start": before, "end": after}.items():
        for name, column in zip(("uss", "pss"), zip(*values, strict=True), strict=True):
            means[f"{name}_mb_{when}"] = round(sum(column) / len(column), 1)
    means["uss_mb_grown"] = round(means["uss_mb_end"] - means["uss_mb_start"], 1)
    return means


def main() -> None:
    """Measure, print, and write the results beside this file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10**6, help="samples")
    parser.add_argument("--workers", type=int, default=2, help="worker processes")
    parser.add_argument("--output", default=str(RESULTS), help="where the results are written")
    arguments = parser.parse_args()
    found = {}
    for name, kind in {"list of tuples": InList, "arrays (ours)": InArrays}.items():
        found[name] = measured(kind(arguments.rows), arguments.workers)
    columns = list(found["arrays (ours)"])
    lines = [
        f"{arguments.rows:,} rows, {arguments.workers} forked workers, MB per worker, one epoch:",
        "",
        f"| index | {' | '.join(column.replace('_', ' ') for column in columns)} |",
        "|---" * (len(columns) + 1) + "|",
        *(
            f"| {n} | {' | '.join(str(v) for v in values.values())} |"
            for n, values in found.items()
        ),
    ]
    print("\n".join(lines))
    output = Path(arguments.output)
    output.mkdir(parents=True, exist_ok=True)
    record = {"rows": arguments.rows, "workers": arguments.workers, "index": found}
    (output / "memory.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    (output / "memory.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
