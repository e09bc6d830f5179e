"""Which sequences there are and what each is: of files, of .ts files, or of the example."""

import hashlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from torch import Tensor

from project.data.columns import Columns
from project.data.coverage import coverage, divided_by_class
from project.data.curves import curves
from project.data.folders import located, text_array
from project.data.index import Index, index
from project.data.labels import classes
from project.data.loader import available_cpus
from project.data.sequence_files import SEQUENCES, Recording, read_sequence
from project.data.sounds import Sound
from project.data.splits import Splits
from project.data.ts_files import read_ts
from project.errors import UserError
from project.findings import Finding

ADVICE = "Mend them, or leave them out: --data.on_bad skip."


@dataclass
class Contents:
    """What the sequences of an index are.

    Args:
        values: float [T, F] each; None where one can't be used.
        rate: Samples per second of sounds; 0 for what are none.
        findings: Why some can't be used.
    """

    values: list[Tensor | None]
    rate: int = 0
    findings: list[Finding] = field(default_factory=list)


def example() -> tuple[Index, Contents]:
    """Generated curves, by their kind."""
    values, kinds = curves()
    names = [f"curves[{row}]" for row in range(len(values))]
    what = f"no --data.root or table: the example, {len(values):,} generated curves"
    stated = [""] * len(names)
    found = _labelled(Path(), names, kinds, stated, Columns(), Splits(), [Finding("note", what)])
    return found, Contents(list(values))


def of_series(tables: dict[str, Path], columns: Columns, splits: Splits) -> tuple[Index, Contents]:
    """The sequences of .ts files, by the split they are for.

    Raises:
        UserError: A file can't be read, or its sequences have other channels than the first's.
    """
    values: list[Tensor] = []
    names, labels, stated = [], [], []
    for split, path in tables.items():
        series = read_ts(path)
        values += series.values
        labels += series.labels
        names += [f"{path.name}:{line}" for line in series.lines]
        stated += ["" if split == "train" else split] * len(series.lines)
    widths = [value.shape[1] for value in values]
    if odd := [name for name, width in zip(names, widths, strict=True) if width != widths[0]]:
        raise UserError(
            f"{names[0]} has {widths[0]} channels, {odd[0]} ({len(odd)} in all) another number."
        )
    root = tables["train"].parent
    return _labelled(root, names, labels, stated, columns, splits, []), Contents(list(values))


def of_files(root: str | None, table: Path | None, columns: Columns, splits: Splits) -> Index:
    """The files of a folder, labelled by a table or by their folders; none is opened."""
    folder = located(root, "data.root") if root else None
    if folder is None:
        assert table is not None  # one of the two is given
        folder = table.parent
    return index(folder, table, columns, splits, kind=SEQUENCES)


def read_files(found: Index, sound: Sound) -> Contents:
    """Open all files; those that can't be read or differ from the others are named."""
    recordings, problems = read_all(found.root, found.names.tolist(), sound)
    odd = {
        "sequences with another number of channels": lambda each: each.values.shape[1],
        "sounds with another number of samples per second": lambda each: each.rate,
    }
    findings = left_out("sequences that can't be read", problems)
    for title, measure in odd.items():
        measured = [None if each is None else measure(each) for each in recordings]
        usual = Counter(value for value in measured if value is not None).most_common(1)
        differ = [row for row, value in enumerate(measured) if value not in (None, usual[0][0])]
        items = [(str(found.names[row]), f"{measured[row]}, not {usual[0][0]}") for row in differ]
        findings += left_out(title, items)
        for row in differ:
            recordings[row] = None
    repeated, rows = _copies(found, recordings)
    for row in rows:
        recordings[row] = None
    rates = [each.rate for each in recordings if each is not None]
    values = [None if each is None else each.values for each in recordings]
    return Contents(values, rates[0] if rates else 0, [*findings, *repeated])


def read_all(
    root: Path, names: list[str], sound: Sound
) -> tuple[list[Recording | None], list[tuple[str, str]]]:
    """Recordings in order, None for one that can't be read; and which these are, and why."""

    def read(name: str) -> Recording | str:
        try:
            return read_sequence(root / name, sound)
        except ValueError as error:
            return str(error)

    with ThreadPoolExecutor(available_cpus()) as pool:
        found = list(pool.map(read, names))
    problems = [(n, each) for n, each in zip(names, found, strict=True) if isinstance(each, str)]
    return [None if isinstance(each, str) else each for each in found], problems


def left_out(title: str, items: list[tuple[str, str]]) -> list[Finding]:
    """An error about files, over once they are left out; none if there are no such files."""
    return [Finding("error", title, items, ADVICE, skippable=True)] if items else []


def _copies(found: Index, recordings: list[Recording | None]) -> tuple[list[Finding], list[int]]:
    """Equal sequences in several splits; all but those of the last split are left out."""
    rows_of: dict[bytes, list[int]] = {}
    for row, each in enumerate(recordings):
        if each is not None:
            digest = hashlib.blake2b(each.values.numpy().tobytes(), digest_size=16).digest()
            rows_of.setdefault(digest, []).append(row)
    leaks = []
    for rows in rows_of.values():
        last = max((str(found.split[row]) for row in rows), key=("train", "val", "test").index)
        leaks += [row for row in rows if found.split[row] != last]
    items = [(str(found.names[row]), str(found.split[row])) for row in leaks]
    return left_out("equal sequences in several splits", items), leaks


def _labelled(
    root: Path,
    names: list[str],
    labels: list[str],
    stated: list[str],
    columns: Columns,
    splits: Splits,
    findings: list[Finding],
) -> Index:
    found = classes(labels, unlabelled=columns.unlabelled, merge_similar=columns.merge_similar)
    if not found.labelled.all():
        blank = [names[row] for row in np.flatnonzero(~found.labelled)]
        raise UserError(f"{len(blank)} sequences have no class, such as {blank[0]}. Give them one.")
    split, more = divided_by_class(
        names, found.target, found.names, splits, what="sequence", stated=stated, groups=None
    )
    more += coverage(names, found.target, split, found.names, what="sequence")
    return Index(
        root, text_array(names), found.target, split, found.names, found.mapping,
        [*findings, *found.findings, *more],
    )  # fmt: skip
