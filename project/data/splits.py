"""Splits that are the same on every machine."""

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
