"""All runs, one line each."""

from typing import Any

from project.compare.layout import aligned, cut, number, typed
from project.compare.summary import PLACES, Summary

WIDTH = 140  # columns at most


def by_experiment(found: list[Summary]) -> list[list[Summary]]:
    """The runs of each experiment in the order given; the experiment with the newest run last."""
    groups: dict[str, list[Summary]] = {}
    for run in found:
        groups.setdefault(run.run.experiment, []).append(run)
    newest = {
        name: max(str(run.environment.get("started", "")) for run in group)
        for name, group in groups.items()
    }
    return [groups[name] for name in sorted(groups, key=newest.__getitem__)]


def differing(group: list[Summary]) -> list[str]:
    """The settings for which the runs that have them have different values."""
    values: dict[str, set[str]] = {}
    for run in group:
        for key, value in run.settings.items():
            values.setdefault(key, set()).add(repr(value))
    hidden = (*PLACES, "seed_everything")  # the seed has a column
    return [key for key, different in values.items() if len(different) > 1 and key not in hidden]


def lines(group: list[Summary]) -> list[dict[str, Any]]:
    """Each run of an experiment in short, as plain values, with the settings that differ."""
    keys = differing(group)
    return [{**run.line(), "settings": {k: run.settings.get(k) for k in keys}} for run in group]


def table(group: list[Summary]) -> str:
    """One line for each run of an experiment, cut off where it is too long.

    The settings that differ come last; by short names, where the full ones find no room.
    """
    best, best_cells = _metric([(run.monitor, *run.best) for run in group])
    test, test_cells = _metric([(run.test_metric, run.test.get(run.test_metric)) for run in group])
    columns = {
        "run": [cut(run.run.name, 48) for run in group],
        "started UTC": [f"{run.started:%m-%d %H:%M}" if run.started else "" for run in group],
        "state": [run.state for run in group],
        "s": [number(run.fit.get("seconds")) for run in group],
        "best": best_cells,
        "test": test_cells,
        "commit": [run.commit for run in group],
        "seed": [typed(run.environment.get("seed", "")) for run in group],
        "notes": [", ".join(run.notes) for run in group],
    }
    columns = {header: cells for header, cells in columns.items() if any(cells)}
    rows = _widest(group, columns)
    title = f"{group[0].run.experiment}: best {best} @epoch, {test or 'not tested'}"
    return "\n".join(cut(line, WIDTH) for line in (title, *rows))


def _widest(group: list[Summary], columns: dict[str, list[str]]) -> list[str]:
    keys = differing(group)
    all_keys = {key for run in group for key in run.settings}
    text: list[str] = []
    for names in (keys, [_shortest(key, all_keys) for key in keys]):
        settings = [_setting_cells(group, key, name) for key, name in zip(keys, names, strict=True)]
        rows = zip(*columns.values(), *settings, strict=True)
        text = aligned([[*columns, *[""] * len(keys)], *map(list, rows)])
        if max(map(len, text)) <= WIDTH:
            break
    return text


def _metric(values: list[tuple[Any, ...]]) -> tuple[str, list[str]]:
    """The name that all (metric, value, epoch) share, and their cells, which have it else.

    The epoch is counted from 1 here, as the progress does.
    """
    names = {name for name, value, *_ in values if value is not None}
    cells = []
    for name, value, *epoch in values:
        parts = [name] if len(names) > 1 else []
        parts += [number(value), *(f"@{e + 1}" for e in epoch if e is not None)]
        cells.append(" ".join(parts) if value is not None else "")
    return ", ".join(sorted(names)), cells


def _setting_cells(group: list[Summary], key: str, name: str) -> list[str]:
    return [
        f"{name}={cut(typed(run.settings[key]), 32)}" if key in run.settings else ""
        for run in group
    ]


def _shortest(key: str, keys: set[str]) -> str:
    """The end of a dotted key that no other key ends in."""
    parts = key.split(".")
    for start in range(len(parts) - 1, 0, -1):
        end = ".".join(parts[start:])
        if sum(other == end or other.endswith(f".{end}") for other in keys) == 1:
            return end
    return key
