"""Splits that are the same on every machine."""

import hashlib
import unicodedata

import numpy as np
from sklearn.model_selection import train_test_split

from project.errors import UserError


def stratified(labels: np.ndarray, fractions: dict[str, float], seed: int) -> dict[str, np.ndarray]:
    """Disjoint row numbers per split, with every class in the same proportion everywhere.

    Args:
        labels: Class of every row [N].
        fractions: Share of each split; together 1.
        seed: The same seed gives the same split.

    Returns:
        Split name → sorted row numbers.

    Raises:
        UserError: The shares do not sum to 1, or a class has too few rows to be in every split.
    """
    if abs(sum(fractions.values()) - 1) > 1e-6:
        raise UserError(f"The shares of the splits must sum to 1, but {fractions} do not.")
    names, counts = np.unique(labels, return_counts=True)
    if counts.min() < len(fractions):
        rare = [str(name) for name in names[counts < len(fractions)]]
        raise UserError(
            f"The classes {rare} have fewer samples than there are splits ({len(fractions)}). Add "
            "samples, or leave these classes out."
        )
    rows, rest, result = np.arange(len(labels)), 1.0, {}
    for split, fraction in list(fractions.items())[:-1]:
        chosen, rows = train_test_split(
            rows, train_size=fraction / rest, stratify=labels[rows], random_state=seed
        )
        result[split] = np.sort(chosen)
        rest -= fraction
    result[list(fractions)[-1]] = np.sort(rows)
    return result


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
    keys = [unicodedata.normalize("NFC", name) for name in names]
    units = [f"group:{g}" if g else f"name:{k}" for g, k in zip(groups or keys, keys, strict=True)]
    if groups is None:
        units = keys
    order, members = np.unique(np.array(units, dtype=np.str_), return_inverse=True)
    sizes = np.bincount(members, minlength=len(order))
    stratum = _majority(members, strata, len(order))
    places = np.array([_place(unit, seed) for unit in order.tolist()], dtype=np.uint64)
    chosen = np.zeros(len(order), dtype=np.int64)
    for each in np.unique(stratum):
        rows = np.flatnonzero(stratum == each)
        rows = rows[np.argsort(places[rows], kind="stable")]
        chosen[rows] = _dealt(sizes[rows], list(fractions.values()))
    return np.array(list(fractions))[chosen[members]]


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
