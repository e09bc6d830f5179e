"""Which loader settings are fastest on this machine, measured on the real training data.

Every setting loads the same batches, in turns, so that whatever else the machine does is shared
out; the times are those of loading alone, with no model in between.
"""

import itertools
import statistics
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
import yaml

from project.data import DataModule
from project.data.loader import available_cpus
from project.errors import UserError

TURNS = 5
NEARLY = 0.95
"""A setting this near to the fastest is as good: the one with fewer workers is taken."""


@dataclass
class Setting:
    """One way to load.

    Args:
        num_workers: As in `Loader`.
        prefetch_factor: As in `Loader`; without workers it has no meaning.
        cache: The data module's; None where it has none.
        rates: Samples per second, one per turn.
    """

    num_workers: int
    prefetch_factor: int = 2
    cache: str | None = None
    rates: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Samples per second, the median of all turns."""
        return statistics.median(self.rates)

    def values(self) -> dict[str, Any]:
        """The settings as keys below `data.init_args`."""
        loader: dict[str, Any] = {"num_workers": self.num_workers}
        if self.num_workers:
            loader["prefetch_factor"] = self.prefetch_factor
        return {"loader": loader, **({} if self.cache is None else {"cache": self.cache})}

    def options(self) -> str:
        """As they are typed."""
        values = self.values()
        typed = [f"--data.loader.{name} {value}" for name, value in values.pop("loader").items()]
        return " ".join([*typed, *(f"--data.{name} {value}" for name, value in values.items())])


def measure(data: DataModule, seconds: float) -> list[Setting]:
    """Load with every number of workers, then the best of them further ahead and from a cache.

    Args:
        data: The data; it is as before afterwards.
        seconds: About how long each setting is tried, in all turns.

    Raises:
        UserError: There is too little data to tell anything.
    """
    if not seconds > 0:
        raise UserError(f"--seconds is {seconds}; it must be above 0.")
    data.setup("fit")
    cache = getattr(data, "cache", None)
    pilot = _rate(data, Setting(0, cache=cache), 2)  # also brings the files into memory
    per_turn = pilot / data.batch_size * seconds / TURNS
    batches = min(max(4, round(per_turn)), len(data.train_dataloader()))
    if batches < 2:
        raise UserError(
            f"The training split is one batch of {data.batch_size}: there is nothing to measure. "
            "Lower data.batch_size, or keep data.loader.num_workers 0."
        )
    found = [Setting(count, cache=cache) for count in _worker_counts(available_cpus())]
    _take_turns(data, found, batches)
    best = fastest(found).num_workers
    further = [Setting(best, 4, cache)] if best else []
    if cache == "none":
        further += [Setting(count, cache="memory") for count in sorted({0, best})]
    _take_turns(data, further, batches)
    return [*found, *(each for each in further if each.rates)]


def fastest(settings: list[Setting]) -> Setting:
    """The fastest, or one nearly as fast with fewer workers or less loaded ahead."""
    best = max(setting.rate for setting in settings)
    near = [setting for setting in settings if setting.rate >= NEARLY * best]
    return min(near, key=lambda s: (s.num_workers, s.prefetch_factor, s.cache == "memory"))


def table(settings: list[Setting]) -> str:
    """What was measured, one line per setting."""
    best = fastest(settings)
    lines = ["workers  prefetch  cache     samples/s   spread"]
    for each in settings:
        spread = (max(each.rates) - min(each.rates)) / each.rate
        ahead = each.prefetch_factor if each.num_workers else "-"
        lines.append(
            f"{each.num_workers:7}  {ahead:>8}  {each.cache or '-':8}{each.rate:>11,.0f}"
            f"{spread:>8.0%}{'  <- best' if each is best else ''}"
        )
    return "\n".join(lines)


def write_overlay(setting: Setting, data: DataModule, path: Path) -> None:
    """Write a config file to be given as a further `--config`.

    Args:
        setting: What it sets.
        data: Whose settings these are.
        path: The file.
    """
    name = f"{type(data).__module__}.{type(data).__qualname__}"
    config = {"data": {"class_path": name, "init_args": setting.values()}}
    head = f"# Loader settings that were fastest here: {setting.rate:,.0f} samples per second.\n"
    path.write_text(head + yaml.safe_dump(config, sort_keys=False), encoding="utf-8")


def _worker_counts(cpus: int) -> list[int]:
    """0, 1, 2, 4, … and all CPUs: where few are to be had the steps matter, later they do not."""
    doubled = itertools.takewhile(lambda count: count < cpus, (1 << n for n in range(10)))
    return [0, *doubled, cpus]


def _take_turns(data: DataModule, settings: list[Setting], batches: int) -> None:
    by_cache = itertools.groupby(settings, lambda setting: setting.cache)
    for cache, group in by_cache:
        same = list(group)
        try:
            with _cached(data, cache):
                if cache == "memory":
                    _rate(data, same[0], batches)  # fills it
                for _, setting in itertools.product(range(TURNS), same):
                    setting.rates.append(_rate(data, setting, batches))
        except UserError as error:
            if cache != "memory":
                raise
            print(f"cache memory was not tried: {error}")


@contextmanager
def _cached(data: Any, cache: str | None) -> Generator[None]:
    """The data with another cache, for a while."""
    before = getattr(data, "cache", None), data.datasets
    if cache == before[0]:
        yield
        return
    try:
        data.cache, data.datasets = cache, {}
        data.setup("fit")
        yield
    finally:
        data.cache, data.datasets = before


def _rate(data: DataModule, setting: Setting, batches: int) -> float:
    """Samples per second over the first batches of epoch 0, once the workers have begun."""
    before = data.loader
    data.loader = replace(
        before,
        num_workers=setting.num_workers,
        prefetch_factor=setting.prefetch_factor,
        persistent_workers=False,
    )
    threads = torch.get_num_threads()
    try:
        loaded = iter(data.train_dataloader())
        # starting the workers is not measured, which is once in a run, nor what lies ready by then
        ahead = min(1 + setting.num_workers * setting.prefetch_factor, batches // 2)
        list(itertools.islice(loaded, ahead))
        began, samples = time.perf_counter(), 0
        for batch in itertools.islice(loaded, batches - ahead):
            samples += len(batch["index"])
        seconds = time.perf_counter() - began
        loaded.close()
    finally:
        data.loader = before
        torch.set_num_threads(threads)
    return samples / seconds
