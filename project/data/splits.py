"""Splits that are the same on every machine."""

import hashlib
import unicodedata
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from project.data.folders import SPLIT_FOLDERS
from project.errors import UserError, suggestion


@dataclass
class Splits:
    """How samples are divided where the data do not say it.

    Args:
        val_fraction: Share that is validated on; unused where the data have a validation split.
        test_fraction: Share that is tested on; unused where the data have a test split.
        seed: Another number, another division. It is not the run's, so that runs with different
            seeds are measured on the same samples.
        fold: For cross-validation: all that is not tested on is divided into `num_folds` parts, and
            this one, from 0 on, is validated on. The test split is the same with any fold.
        num_folds: Parts of a cross-validation.
    """

    val_fraction: float = 0.15
    test_fraction: float = 0.15
    seed: int = 0
    fold: int | None = None
    num_folds: int = 5

    def __post_init__(self) -> None:
        if min(self.val_fraction, self.test_fraction) <= 0 or (
            self.val_fraction + self.test_fraction >= 1
        ):
            raise UserError(
                f"data.splits has val_fraction {self.val_fraction} and test_fraction "
                f"{self.test_fraction}; each must be above 0, and together below 1, for the rest "
                "is trained on."
            )
        if self.num_folds < 2 or (self.fold is not None and not 0 <= self.fold < self.num_folds):
            raise UserError(
                f"data.splits has fold {self.fold} of num_folds {self.num_folds}; there must be 2 "
                "or more folds, and the fold is one of them, counted from 0."
            )


def divided(
    names: list[str],
    strata: np.ndarray,
    settings: Splits,
    *,
    stated: list[str] | None = None,
    groups: list[str] | None = None,
) -> np.ndarray:
    """A split for every sample: as the data state it, and what they don't state by seed.

    Args:
        names: Of the samples [N], each once.
        strata: What is to be spread evenly, such as the class [N].
        settings: The shares, the seed, the fold.
        stated: Names of splits [N], blank for train or unknown; a split that is stated for any
            sample takes no others.
        groups: What must not be divided between splits [N]; a blank is a group of its own.

    Returns:
        `train`, `val` or `test` [N].
    """
    split = np.array(stated or [""] * len(names), dtype="U5")
    split[split == ""] = "train"
    fractions = {"val": settings.val_fraction, "test": settings.test_fraction}
    wanted = {name: share for name, share in fractions.items() if name not in set(stated or ())}
    rows = np.flatnonzero(split == "train")
    if wanted and len(rows):
        shares = {"train": 1 - sum(wanted.values()), **wanted}
        split[rows] = by_seed(
            [names[row] for row in rows], strata[rows], shares, settings.seed,
            groups=[groups[row] for row in rows] if groups else None,
        )  # fmt: skip
    if settings.fold is not None:
        rows = np.flatnonzero(split != "test")
        folds = _folds(
            [names[row] for row in rows], strata[rows], settings,
            groups=[groups[row] for row in rows] if groups else None,
        )  # fmt: skip
        split[rows] = np.where(folds == settings.fold, "val", "train")
    return split


def stated(cells: list[str], lines: list[int], path: Path) -> list[str]:
    """Splits as a table's column says them.

    Args:
        cells: Of the column.
        lines: Line of the file of each.
        path: The file, for the message.

    Raises:
        UserError: A cell names no split.
    """
    wrong = [n for n, cell in enumerate(cells) if cell.strip().lower() not in SPLIT_FOLDERS]
    if wrong:
        cell, line = cells[wrong[0]], lines[wrong[0]]
        raise UserError(
            f"{path}, line {line}: the split is {cell!r} ({len(wrong)} rows have no known one)."
            + suggestion(cell, SPLIT_FOLDERS)
        )
    return [SPLIT_FOLDERS[cell.strip().lower()] for cell in cells]


def rows_of(split: np.ndarray) -> dict[str, np.ndarray]:
    """The row numbers of each split, from a split per row."""
    return {name: np.flatnonzero(split == name) for name in ("train", "val", "test")}


def by_seed(
    names: list[str],
    strata: np.ndarray,
    fractions: dict[str, float],
    seed: int,
    *,
    groups: list[str] | None = None,
) -> np.ndarray:
    """A split for every sample, in the same proportion in every stratum.

    A function of the seed and the set of names alone: neither the order of the files nor the
    machine matters. Every split but the first gets at least one unit of a stratum that has as many
    units as there are splits; a smaller stratum goes to the first split as a whole.

    Args:
        names: Of the samples [N], each once; relative ones are the same on every machine.
        strata: What is to be spread evenly, such as the class [N].
        fractions: Share of each split; together 1. The first one takes what is left over.
        seed: The same seed gives the same split.
        groups: What must not be divided between splits [N]; a blank is a group of its own. A group
            counts for the stratum that most of its samples have.

    Returns:
        Names of splits [N].
    """
    members, stratum, sizes, places = _units(names, strata, seed, groups)
    chosen = np.zeros(len(sizes), dtype=np.int64)
    for each in np.unique(stratum):
        rows = np.flatnonzero(stratum == each)
        rows = rows[np.argsort(places[rows], kind="stable")]
        chosen[rows] = _dealt(sizes[rows], list(fractions.values()))
    return np.array(list(fractions))[chosen[members]]


def _folds(
    names: list[str], strata: np.ndarray, settings: Splits, *, groups: list[str] | None
) -> np.ndarray:
    """The fold of every sample: the units of a stratum are dealt out one after another."""
    members, stratum, _, places = _units(names, strata, settings.seed, groups)
    order = np.lexsort((places, stratum))
    folds = np.empty(len(order), dtype=np.int64)
    folds[order] = np.arange(len(order)) % settings.num_folds
    return folds[members]


def _units(
    names: list[str], strata: np.ndarray, seed: int, groups: list[str] | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What is not divided: the unit of each sample, and each unit's stratum, size and place."""
    keys = [unicodedata.normalize("NFC", name) for name in names]
    units = [f"group:{g}" if g else f"name:{k}" for g, k in zip(groups or keys, keys, strict=True)]
    if groups is None:
        units = keys
    order, members = np.unique(np.array(units, dtype=np.str_), return_inverse=True)
    sizes = np.bincount(members, minlength=len(order))
    stratum = _majority(members, strata, len(order))
    places = np.array([_place(unit, seed) for unit in order.tolist()], dtype=np.uint64)
    return members, stratum, sizes, places


def _place(unit: str, seed: int) -> int:
    """Where a unit stands in the random order; the same in every process and on every machine."""
    digest = hashlib.blake2b(f"{seed}/{unit}".encode(), digest_size=8)
    return int.from_bytes(digest.digest(), "big")


def _majority(members: np.ndarray, strata: np.ndarray, count: int) -> np.ndarray:
    """The stratum most samples of each unit have, the lowest of several."""
    values, numbers = np.unique(strata, return_inverse=True)
    pairs, sizes = np.unique(np.stack([members, numbers]), axis=1, return_counts=True)
    best = np.zeros(count, dtype=np.int64)
    largest = np.zeros(count, dtype=np.int64)
    for unit, number, size in zip(*pairs.tolist(), sizes.tolist(), strict=True):
        if size > largest[unit]:
            best[unit], largest[unit] = number, size
    return values[best]


def _dealt(sizes: np.ndarray, fractions: list[float]) -> list[int]:
    """The number of the split for each unit: always the one that lacks most samples."""
    if len(sizes) < len(fractions):
        return [0] * len(sizes)
    total = int(sizes.sum())
    lacking = [0.0, *(max(1.0, round(total * share)) for share in fractions[1:])]
    lacking[0] = total - sum(lacking[1:])
    chosen: list[int] = []
    counts = [0] * len(fractions)
    for position, size in enumerate(sizes.tolist()):
        empty = [n for n, count in enumerate(counts) if not count]
        must = empty if len(sizes) - position <= len(empty) else range(len(fractions))
        split = max(must, key=lambda n: lacking[n])
        lacking[split] -= size
        counts[split] += 1
        chosen.append(split)
    return chosen


def joined(groups: list[str], keys: list[str]) -> list[str]:
    """Groups of what shares a group or a key, directly or through others.

    Args:
        groups: Stated ones [N]; a blank is none.
        keys: What must not be divided either, such as equal texts [N].
    """
    parent: dict[str, str] = {}

    def root(unit: str) -> str:
        while parent.setdefault(unit, unit) != unit:
            parent[unit] = parent[parent[unit]]  # halves the way for the next
            unit = parent[unit]
        return unit

    for group, key in zip(groups, keys, strict=True):
        first, second = sorted(
            (root(f"group:{group}" if group else f"key:{key}"), root(f"key:{key}"))
        )
        parent[second] = first  # the first in the alphabet: the order of the rows does not matter
    return [root(f"key:{key}") for key in keys]
