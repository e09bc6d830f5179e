"""From labels and splits as people give them to class numbers, disjoint splits and findings."""

import unicodedata
from pathlib import Path

import numpy as np
import pytest

from project.data.columns import Columns
from project.data.index import Index, index
from project.data.labels import classes
from project.data.splits import Splits, by_seed
from project.errors import UserError
from tests.data.photos import flat_folder

HEADER = "file,label"
CLASSES = ["cat", "dog", "owl"]


def numbered(labels: list[str], **options: object) -> dict[str, int]:
    return classes(labels, **{"unlabelled": [], "merge_similar": False, **options}).mapping


@pytest.mark.parametrize(
    ("labels", "mapping"),
    [
        (["dog", "cat", "dog"], {"cat": 0, "dog": 1}),
        (["10", "9", "1"], {"1": 0, "9": 1, "10": 2}),  # as numbers, not as text
        (["1", "2", "40", "-1"], {"-1": 0, "1": 1, "2": 2, "40": 3}),
        (["2.0", "1.0", ""], {"1.0": 0, "2.0": 1}),
        (["001", "002"], {"001": 0, "002": 1}),
        (["NA", "None", "True", "nan"], {"NA": 0, "None": 1, "True": 2, "nan": 3}),
        (["a", "  ", "", "b"], {"a": 0, "b": 1}),
        ([" kurze  Hosen ", "b"], {"b": 0, " kurze  Hosen ": 1}),
        (["靴", "брюки", "robe d'été"], {"robe d'été": 0, "брюки": 1, "靴": 2}),
    ],
)
def test_classes_are_numbered_by_their_order(labels: list[str], mapping: dict[str, int]) -> None:
    assert numbered(labels) == mapping
    assert numbered(labels[::-1]) == mapping


def test_blank_labels_are_none_and_so_are_stated_ones() -> None:
    found = classes(["a", "?", " ", "b", "a"], unlabelled=["?"], merge_similar=False)
    assert found.names == ["a", "b"]
    assert found.target.tolist() == [0, -1, -1, 1, 0]


def test_two_forms_of_the_same_letters_are_one_class() -> None:
    forms = [unicodedata.normalize(form, "été") for form in ("NFC", "NFD")]
    found = classes([*forms, "b"], unlabelled=[], merge_similar=False)
    assert found.target.tolist() == [1, 1, 0]
    assert found.findings == []


def test_similar_labels_are_an_error_or_one_class() -> None:
    labels = ["dress", "dress", "Dress", "dress ", "hat"]
    (error,) = classes(labels, unlabelled=[], merge_similar=False).findings
    assert error.severity == "error"
    assert not error.skippable
    assert error.items == [("'Dress' = 'dress' = 'dress '", "1, 2, 1")]
    merged = classes(labels, unlabelled=[], merge_similar=True)
    assert merged.names == ["dress", "hat"]  # as most write it
    assert merged.target.tolist() == [0, 0, 0, 0, 1]
    assert merged.findings == []


@pytest.mark.parametrize(
    ("labels", "severity", "title"),
    [
        (["1", "2", "3"], "note", "labels are numbers counted from 1"),
        (["1", "2", "9"], "note", "labels are numbers with gaps"),
        (["0", "1", "255"], "warning", "number that often means 'no label'"),
        (["a", "unknown"], "warning", "label that often means 'no label'"),
        (["a|b", "b|c", "a"], "warning", "label that looks like several labels"),
    ],
)
def test_what_is_said_of_labels(labels: list[str], severity: str, title: str) -> None:
    findings = classes(labels, unlabelled=[], merge_similar=False).findings
    assert [f.title.startswith(title) for f in findings if f.severity == severity] == [True]


@pytest.mark.parametrize("labels", [["0", "1", "2"], ["a", "b"]])
def test_nothing_is_said_of_good_labels(labels: list[str]) -> None:
    assert classes(labels, unlabelled=[], merge_similar=False).findings == []


def test_one_class_is_refused() -> None:
    with pytest.raises(UserError, match="one class, 'a'"):
        numbered(["a", "a", ""])
    with pytest.raises(UserError, match="no labels"):
        numbered(["", ""])


STRATA = [(0, 100), (100, 140), (140, 150)]
FRACTIONS = {"train": 0.7, "val": 0.15, "test": 0.15}


def split_of(names: list[str], strata: list[int], **options: object) -> dict[str, str]:
    found = by_seed(names, np.array(strata), FRACTIONS, **{"seed": 0, **options})
    return dict(zip(names, found.tolist(), strict=True))


def test_split_by_seed_is_stratified_and_blind_to_order() -> None:
    names = [f"{n:03}.jpg" for n in range(150)]
    strata = [0] * 100 + [1] * 40 + [2] * 10
    split = split_of(names, strata)
    counts = {
        name: [sum(split[n] == name for n in names[start:end]) for start, end in STRATA]
        for name in FRACTIONS
    }
    assert counts == {"train": [70, 28, 6], "val": [15, 6, 2], "test": [15, 6, 2]}
    order = np.random.default_rng(0).permutation(150)
    assert split_of([names[n] for n in order], [strata[n] for n in order]) == split
    assert split_of(names, strata, seed=1) != split


def test_split_by_seed_is_the_same_on_every_machine() -> None:
    """Written down once; if it changes, everybody's splits change with it."""
    split = split_of([f"{n}.jpg" for n in range(10)], [0] * 10)
    assert [n for n in range(10) if split[f"{n}.jpg"] != "train"] == EXPECTED
    decomposed = {unicodedata.normalize("NFD", n) for n in ("é.jpg",)}
    assert (
        split_of([*decomposed, "a", "b"], [0] * 3).popitem()
        == split_of(["é.jpg", "a", "b"], [0] * 3).popitem()
    )


EXPECTED = [1, 3, 5, 6]


@pytest.mark.parametrize(("count", "expected"), [(3, {1}), (4, {1, 2}), (2, {0, 2}), (1, {0, 1})])
def test_small_classes_are_in_every_split_or_in_train_alone(count: int, expected: set[int]) -> None:
    split = list(split_of([str(n) for n in range(count)], [0] * count).values())
    assert {split.count(name) for name in FRACTIONS} == expected
    if count < 3:
        assert set(split) == {"train"}


def test_groups_stay_together() -> None:
    names = [f"{n}.jpg" for n in range(120)]
    groups = [f"patient {n // 6}" for n in range(120)]
    split = split_of(names, [n // 60 for n in range(120)], groups=groups)
    of_group = [
        {split[n] for n, g in zip(names, groups, strict=True) if g == each} for each in groups
    ]
    assert all(len(splits) == 1 for splits in of_group)
    # of 10 groups in each stratum, all of 6 images: 7, 2 and 1
    assert {name: list(split.values()).count(name) for name in FRACTIONS} == {
        "train": 84, "val": 24, "test": 12,
    }  # fmt: skip
    blank = split_of(names, [0] * 120, groups=[""] * 120)
    assert set(blank.values()) == set(FRACTIONS)  # a blank is no group


def of_table(root: Path, lines: list[str], header: str = HEADER, **columns: object) -> Index:
    table = root.parent / "labels.csv"
    table.write_text("\n".join([header, *lines]), encoding="utf-8")
    return index(root, table, Columns(**columns), Splits())


def said(found: Index, severity: str) -> dict[str, list[tuple[str, str]]]:
    return {f.title: f.items for f in found.findings if f.severity == severity}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    flat_folder(tmp_path / "photos")
    return tmp_path / "photos"


@pytest.fixture
def lines(root: Path) -> list[str]:
    return sorted(f"{path.name},{path.name.partition('_')[0]}" for path in root.iterdir())


def test_a_clean_table(root: Path, lines: list[str]) -> None:
    found = of_table(root, lines)
    assert found.class_names == CLASSES
    assert said(found, "error") == {}
    assert found.counts() == {
        "train": dict.fromkeys(CLASSES, 2),
        "val": dict.fromkeys(CLASSES, 1),
        "test": dict.fromkeys(CLASSES, 1),
    }
    assert [found.class_names[n] for n in found.target] == [
        name.partition("_")[0] for name in found.names.tolist()
    ]


def test_order_of_rows_is_of_no_importance(root: Path, lines: list[str]) -> None:
    first, second = of_table(root, lines), of_table(root, lines[::-1])
    assert dict(zip(first.names, first.split, strict=True)) == dict(
        zip(second.names, second.split, strict=True)
    )
    assert first.mapping == second.mapping


def test_arrays_hold_no_objects(root: Path, lines: list[str]) -> None:
    found = of_table(root, lines)
    assert {array.dtype.kind for array in (found.names, found.split)} == {"U"}
    assert found.target.dtype == np.int64


def test_the_four_lists(root: Path, lines: list[str]) -> None:
    """B033: missing file, file without row, duplicate with another label, blank label."""
    flat_folder(root, per_class=5)
    table = [
        *lines,
        "dog_5.jpg,dog",
        "ghost.jpg,cat",
        "cat_1.jpg,dog",
        "dog_1.jpg,dog",
        "owl_5.jpg,",
    ]
    found = of_table(root, table)
    assert said(found, "error") == {
        "rows whose file does not exist": [("ghost.jpg", "labels.csv line 15")],
        "images without a row": [("cat_5.jpg", "")],
        "images whose rows disagree": [("cat_1.jpg", "cat | dog; lines 2, 16")],
        "images with several equal rows": [("dog_1.jpg", "lines 6, 17")],
        "rows without a label": [("owl_5.jpg", "labels.csv line 18")],
    }
    assert "cat_1.jpg" not in found.names
    assert found.names.tolist().count("dog_1.jpg") == 1
    assert all(f.skippable for f in found.findings if f.severity == "error")


def test_a_label_stated_to_mean_none(root: Path, lines: list[str]) -> None:
    found = of_table(root, lines, unlabelled=("owl",))
    assert found.class_names == ["cat", "dog"]
    assert said(found, "error") == {}
    assert len(said(found, "note")["rows left out, their label means none"]) == 4


def test_stated_splits_and_a_missing_one_from_train(root: Path, lines: list[str]) -> None:
    stated = [f"{line},{'Validation' if '_1' in line else ' TRAIN '}" for line in lines]
    found = of_table(root, stated, header=f"{HEADER},split")
    val = found.names[found.split == "val"].tolist()
    assert val == ["cat_1.jpg", "dog_1.jpg", "owl_1.jpg"]
    assert found.counts()["test"] == dict.fromkeys(CLASSES, 1)


def test_an_unknown_split_is_refused(root: Path, lines: list[str]) -> None:
    stated = [f"{line},trian" for line in lines]
    with pytest.raises(UserError, match=r"line 2: the split is 'trian'.*mean 'train'"):
        of_table(root, stated, header=f"{HEADER},split")


def test_a_file_in_two_splits_is_in_none(root: Path, lines: list[str]) -> None:
    stated = [*(f"{line},train" for line in lines), f"{lines[0]},test"]
    found = of_table(root, stated, header=f"{HEADER},split")
    assert said(found, "error")["images whose rows disagree"] == [
        ("cat_1.jpg", "cat test | cat train; lines 2, 14")
    ]


def test_a_class_that_is_never_trained(root: Path, lines: list[str]) -> None:
    stated = [f"{line},{'val' if 'owl' in line or '_1' in line else 'train'}" for line in lines]
    found = of_table(root, stated, header=f"{HEADER},split")
    assert found.class_names == CLASSES  # the numbers of the others do not shift
    assert list(said(found, "error")) == ["class without a training image"]
    assert said(found, "error")["class without a training image"][0][0] == "owl"


def test_a_class_missing_in_one_split_shifts_nothing(root: Path, lines: list[str]) -> None:
    stated = [
        f"{line},{'val' if '_1' in line and 'dog' not in line else 'train'}" for line in lines
    ]
    found = of_table(root, stated, header=f"{HEADER},split")
    owls = [name.startswith("owl") for name in found.names.tolist()]
    assert set(found.target[owls].tolist()) == {2}
    assert said(found, "warning")["class without a val image"] == [("dog", "")]


def test_too_small_a_class_is_an_error(root: Path, lines: list[str]) -> None:
    found = of_table(root, [*lines[:8], lines[8]])
    assert said(found, "error")["class with fewer images than there are splits"] == [("owl", "1")]


def test_imbalance_is_told(tmp_path: Path) -> None:
    flat_folder(tmp_path / "photos")
    for number in range(60):
        (tmp_path / "photos" / f"more_{number}.jpg").write_bytes(b"x")
    names = [path.name for path in (tmp_path / "photos").iterdir()]
    lines = [f"{n},{'cat' if n[:3] in ('mor', 'cat') else 'dog'}" for n in names]
    lines = [line for line in lines if "owl" not in line]
    warnings = said(of_table(tmp_path / "photos", lines), "warning")
    assert warnings["largest class over 10 times the smallest"] == [("cat", "44"), ("dog", "2")]


def test_a_table_that_fits_no_file(root: Path) -> None:
    with pytest.raises(UserError, match=r"None of the 2 files in .*, such as 'x/1.png' \(line 2\)"):
        of_table(root, ["x/1.png,cat", "x/2.png,dog"])


def test_no_image_no_class(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no image below"):
        index(tmp_path, None, Columns(), Splits())
    flat_folder(tmp_path)
    with pytest.raises(UserError, match="12 images and no folders that tell their class"):
        index(tmp_path, None, Columns(), Splits())


@pytest.mark.parametrize(("val", "test"), [(0.0, 0.2), (0.5, 0.5), (-0.1, 0.2)])
def test_shares_out_of_range(val: float, test: float) -> None:
    with pytest.raises(UserError, match=rf"val_fraction {val} and test_fraction {test}"):
        Splits(val_fraction=val, test_fraction=test)
