"""The table of what an exported model says: a row for each answer, none over another."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from project.export import example
from project.serving import predict


class Blind:
    """Stands in for an exported model of pictures; `answers` by the name of the file."""

    answers: dict[str, dict[str, Any]]

    def __init__(self, folder: Path) -> None:
        self.contract = {"inputs": {"image": {}}}

    def answer(self, record: dict[str, Any]) -> dict[str, Any]:
        return self.answers[record["image"].parent.name]


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two of the same name, in two folders."""
    monkeypatch.setattr(example, "Model", Blind)
    monkeypatch.setattr(predict, "bundle_folder", lambda given, root: Path(given))
    for name in ("a", "b"):
        (tmp_path / "given" / name).mkdir(parents=True)
        Image.new("L", (2, 1)).save(tmp_path / "given" / name / "x.png")
    return tmp_path / "given"


def said(pictures: Path, **answers: dict[str, Any]) -> list[dict[str, str]]:
    Blind.answers = answers
    table = pictures.parent / "out.csv"
    table.write_text("of an earlier time")
    predict.predict(["bundle", str(pictures), "--output", str(table)])
    return list(csv.DictReader(table.open()))


def test_where_no_box_is_found_the_table_is_written_all_the_same(pictures: Path) -> None:
    nothing = {"prediction": "0 found", "boxes": []}
    assert said(pictures, a=nothing, b=nothing) == []
    header = (pictures.parent / "out.csv").read_text()
    assert header == "sample,label,score,x1,y1,x2,y2\n"


def test_a_box_is_a_row(pictures: Path) -> None:
    found = {"label": "cat", "score": 0.5, "box": [1.0, 2.0, 3.0, 4.0]}
    (row,) = said(pictures, a={"boxes": []}, b={"boxes": [found]})
    assert list(row.values()) == ["b/x.png", "cat", "0.5", "1.0", "2.0", "3.0", "4.0"]


def test_masks_of_equal_names_are_kept_apart(pictures: Path) -> None:
    masks = {
        n: {"prediction": "x", "mask": np.full((1, 2), k, np.uint8)} for k, n in enumerate("ab")
    }
    rows = said(pictures, **masks)
    values = [np.asarray(Image.open(pictures.parent / row["mask"])).max() for row in rows]
    assert values == [0, 1]
