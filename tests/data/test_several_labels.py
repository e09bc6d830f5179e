"""Several labels a sample, by a label column with a separator."""

from pathlib import Path

import numpy as np

from project.data import Columns, Splits
from project.data.index import index
from project.data.labels import UNLABELLED, classes, counted, strata, written


def test_targets_by_hand() -> None:
    found = classes(
        ["a|b", "b", "|", "", "c | a", "?"], unlabelled=("?",), merge_similar=False, separator="|"
    )
    none = [UNLABELLED] * 3
    assert found.names == ["a", "b", "c"]
    assert found.target.tolist() == [[1, 1, 0], [0, 1, 0], [0, 0, 0], none, [1, 0, 1], none]
    assert found.labelled.tolist() == [True, True, True, False, True, False]
    assert [written(row, found.names) for row in found.target[found.labelled]] == [
        "a|b", "b", "", "a|c",
    ]  # fmt: skip


def test_the_rarest_label_is_spread_evenly() -> None:
    target = np.array([[1, 1], [1, 0], [1, 0], [0, 0]])
    assert counted(target, 2) == [3, 1]
    assert strata(target).tolist() == [1, 0, 0, 2]


def test_images_with_several_labels(tmp_path: Path) -> None:
    labels = ["red|round", "round", "|", "red"]
    for number in range(40):
        (tmp_path / f"{number}.png").touch()
    rows = [f"{number}.png,{labels[number % 4]}" for number in range(40)]
    table = tmp_path / "labels.csv"
    table.write_text("\n".join(["file,label", *rows]))
    found = index(tmp_path, table, Columns(separator="|"), Splits(0.25, 0.25))
    assert found.class_names == ["red", "round"]
    assert [f.title for f in found.findings if f.severity == "error"] == []
    for name, row in zip(found.names, found.target, strict=True):
        said = labels[int(name.removesuffix(".png")) % 4]
        assert sorted(filter(None, said.split("|"))) == sorted(
            filter(None, written(row, found.class_names).split("|"))
        )
    sizes = {split: sum(counts.values()) for split, counts in found.counts().items()}
    assert sizes["val"] == sizes["test"] > 0
