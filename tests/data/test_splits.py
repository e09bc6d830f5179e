"""Divisions: stratified, disjoint, the same everywhere, in folds where that is asked for."""

import numpy as np
import pytest

from project.data.splits import Splits, divided, rows_of
from project.errors import UserError

LABELS = np.array([0] * 60 + [1] * 40)
NAMES = [f"sample {number}" for number in range(100)]


def counts(split: np.ndarray) -> dict[str, list[int]]:
    return {name: np.bincount(LABELS[rows]).tolist() for name, rows in rows_of(split).items()}


def test_split_is_stratified_disjoint_and_repeatable() -> None:
    split = divided(NAMES, LABELS, Splits(0.3, 0.2, seed=3))
    assert counts(split) == {"train": [30, 20], "val": [18, 12], "test": [12, 8]}
    assert np.array_equal(split, divided(NAMES, LABELS, Splits(0.3, 0.2, seed=3)))
    assert not np.array_equal(split, divided(NAMES, LABELS, Splits(0.3, 0.2, seed=4)))


def test_what_is_stated_stays_and_the_rest_is_divided() -> None:
    stated = [""] * 80 + ["test"] * 20
    split = divided(NAMES, LABELS, Splits(0.25, 0.5), stated=stated)
    assert (split[80:] == "test").all()
    assert counts(split) == {"train": [45, 15], "val": [15, 5], "test": [0, 20]}


def test_folds_take_turns_and_leave_the_test_split_alone() -> None:
    whole = divided(NAMES, LABELS, Splits(0.3, 0.2))
    splits = [divided(NAMES, LABELS, Splits(0.3, 0.2, fold=k, num_folds=4)) for k in range(4)]
    validated = [rows_of(split)["val"] for split in splits]
    assert sorted(np.concatenate(validated)) == sorted(np.flatnonzero(whole != "test"))
    for split, rows in zip(splits, validated, strict=True):
        assert np.array_equal(split == "test", whole == "test")
        assert np.bincount(LABELS[rows]).tolist() == [12, 8]


def test_a_group_stays_together_in_folds() -> None:
    groups = [f"patient {number // 5}" for number in range(100)]
    for fold in range(3):
        split = divided(NAMES, LABELS, Splits(fold=fold, num_folds=3), groups=groups)
        assert all(len(set(split[start : start + 5])) == 1 for start in range(0, 100, 5))


@pytest.mark.parametrize(("fold", "num_folds"), [(5, 5), (-1, 5), (0, 1)])
def test_a_fold_that_does_not_exist(fold: int, num_folds: int) -> None:
    with pytest.raises(UserError, match=f"fold {fold} of num_folds {num_folds}"):
        Splits(fold=fold, num_folds=num_folds)
