"""Acceptance on files and tables of other people, where PROJECT_SHARED_DATA says that they are."""

import csv
import os
from pathlib import Path

import numpy as np
import pytest

from project.data import Columns, Images, Loader, Splits
from project.data.audit import audit
from project.data.folders import listed, text_array
from project.data.index import Index, index
from project.errors import UserError

SHARED = Path(os.environ.get("PROJECT_SHARED_DATA", "/nowhere"))
MESSY = SHARED / "messy"

pytestmark = pytest.mark.skipif(not MESSY.is_dir(), reason="PROJECT_SHARED_DATA is not set")

TABLES = sorted(path.name for path in (MESSY / "tables").glob("*"))
REFUSED = {
    "empty.csv": "is empty",
    "header_only.csv": "but no rows",
    "no_header.csv": "has no header",
    "one_class.csv": "one class, 'hat'",
    "one_hot.csv": "one column of 0 and 1 per class",
    "ragged.csv": r"line 26 has 1, line 27 has 4",
    "regression_thousands.csv": "hold the label; found file, price",
    "text.csv": "hold the file; found text, category",
}
ERRORS = {
    "duplicate_rows.csv": {"images whose rows disagree": 2, "images with several equal rows": 3},
    "half_labelled.csv": {"class with fewer images than there are splits": 6},
    "int_as_float.csv": {"rows without a label": 1},
    "missing_files.csv": {"rows whose file does not exist": 4},
    "missing_labels.csv": {
        "rows without a label": 2,
        "class with fewer images than there are splits": 10,
    },
    "mixed_case.csv": {"labels that differ only in case or blanks": 6},
    "multilabel.csv": {"class with fewer images than there are splits": 8},
    "singleton_class.csv": {"class with fewer images than there are splits": 1},
}
"""Besides the images that no table lists."""


def read(name: str, **columns: object) -> Index:
    return index(MESSY / "photos", MESSY / "tables" / name, Columns(**columns), Splits())


def errors(found: Index) -> dict[str, int]:
    return {f.title: len(f.items) for f in found.findings if f.severity == "error"}


@pytest.mark.parametrize("name", [name for name in TABLES if name not in REFUSED])
def test_tables(name: str) -> None:
    found = errors(read(name))
    assert found.pop("images without a row") >= 6  # six photos have no label anywhere
    assert found == ERRORS.get(name, {})


@pytest.mark.parametrize("name", [name for name in TABLES if name in REFUSED])
def test_tables_that_are_refused(name: str) -> None:
    with pytest.raises(UserError, match=REFUSED[name]):
        read(name)


@pytest.mark.parametrize(
    "name",
    ["bom.csv", "crlf.csv", "labels.jsonl", "labels.xlsx", "other_headers.csv",
     "quoted_newlines.csv", "semicolon_decimal_comma.csv", "stems.csv", "tab.tsv", "tab_named.csv",
     "title_rows.xlsx", "utf16.csv", "windows_paths.csv"],
)  # fmt: skip
def test_the_same_labels_in_every_dialect(name: str) -> None:
    clean, found = read("clean.csv"), read(name)
    assert found.mapping == clean.mapping
    assert dict(zip(found.names, zip(found.target, found.split, strict=True), strict=True)) == dict(
        zip(clean.names, zip(clean.target, clean.split, strict=True), strict=True)
    )


def test_labels_that_mean_none_can_be_said() -> None:
    none = ("NA", "NaN", "null", "None", "?", "-", "unknown")
    found = read("missing_labels.csv", unlabelled=none)
    assert len(found.class_names) == 6
    assert "class with fewer images than there are splits" in errors(found)  # two dresses are left


def test_every_image_is_what_its_list_says() -> None:
    with (MESSY / "images.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if not row["file"].endswith("/")]
    junk = {".hidden.jpg", "._shirt.jpg", "Thumbs.db"}
    fails = {row["file"] for row in rows if row["pillow_says"] != "ok"} - junk
    names = sorted({row["file"] for row in rows} - junk)
    assert set(listed(MESSY / "images").names) == {*names, "folder.jpg/inner.jpg"}
    none = np.zeros(len(names), dtype=np.int64)
    found = audit(
        Index(MESSY / "images", text_array(names), none, none.astype("U5"), ["a"], {}, []),
        seconds=None,
    )
    said = {f.title: {name for name, _ in f.items} for f in found.findings}
    assert said["images that can't be read"] == fails


@pytest.mark.parametrize("table", [None, "labels.csv"])
def test_clothing_photos(table: str | None) -> None:
    root = SHARED / "clothing_photos"
    module = Images(str(root), str(root / table) if table else None, loader=Loader(num_workers=0))
    assert len(module.class_names) == 10
    counts = {s: sum(c.values()) for s, c in module.description()["counts"].items()}
    assert counts == {"train": 260, "val": 70, "test": 70}
    assert not [f for f in module.audit(seconds=None) if f.severity != "note"]
