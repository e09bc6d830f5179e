"""Tables in every dialect; which column holds what."""

import json
from pathlib import Path

import openpyxl
import pytest

from project.data.columns import Columns, chosen
from project.data.tables import read_table
from project.errors import UserError

LINES = ["file,label", "a.jpg,cat", "b.jpg,dog"]
CLEAN = "\n".join(LINES) + "\n"
ROWS = [["a.jpg", "cat"], ["b.jpg", "dog"]]


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("clean.csv", CLEAN),
        ("bom.csv", b"\xef\xbb\xbf" + CLEAN.encode()),
        ("crlf.csv", CLEAN.replace("\n", "\r\n")),
        ("old_mac.csv", CLEAN.replace("\n", "\r")),
        ("tab.tsv", CLEAN.replace(",", "\t")),
        ("tab_named.csv", CLEAN.replace(",", "\t")),
        ("semicolon.csv", CLEAN.replace(",", ";")),
        ("stated.csv", "sep=;\n" + CLEAN.replace(",", ";")),
        ("utf16.csv", CLEAN.replace(",", "\t").encode("utf-16")),
        ("utf16be.csv", b"\xfe\xff" + CLEAN.encode("utf-16-be")),
        ("blank_lines.csv", "\n" + CLEAN.replace("\n", "\n\n")),
        ("no_newline.csv", CLEAN.rstrip()),
        ("trailing_commas.csv", "file,label\na.jpg,cat,,\nb.jpg,dog,\n"),
        ("lines.jsonl", '{"file": "a.jpg", "label": "cat"}\n\n{"file": "b.jpg", "label": "dog"}\n'),
        ("list.json", json.dumps([{"file": a, "label": b} for a, b in ROWS])),
    ],
)  # fmt: skip
def test_every_dialect_gives_the_same_table(tmp_path: Path, name: str, content: str) -> None:
    table = read_table(written(tmp_path, name, content))
    assert table.columns == ["file", "label"]
    assert table.rows == ROWS
    assert table.notes == []


def test_cells_stay_text(tmp_path: Path) -> None:
    values = ["NA", "None", "null", "nan", "True", "001", "1.0", "1e3", " padded ", "-"]
    path = written(tmp_path, "t.csv", "file,label\n" + "".join(f"f,{v}\n" for v in values))
    assert read_table(path).column("label") == values


def test_separators_inside_cells_do_not_decide(tmp_path: Path) -> None:
    path = written(tmp_path, "t.csv", "file;label;price\na.jpg;cat;1234,50\nb.jpg;dog;1,5\n")
    assert read_table(path).rows == [["a.jpg", "cat", "1234,50"], ["b.jpg", "dog", "1,5"]]


def test_quoted_cells_may_hold_anything_and_lines_are_an_editors(tmp_path: Path) -> None:
    text = 'file,label,note\n"a, ""b"".jpg",cat,"first\nsecond"\nb.jpg,dog,\n'
    table = read_table(written(tmp_path, "t.csv", text))
    assert table.rows == [['a, "b".jpg', "cat", "first\nsecond"], ["b.jpg", "dog", ""]]
    assert table.lines == [2, 4]


def test_windows_1252_is_read_with_a_note(tmp_path: Path) -> None:
    path = written(tmp_path, "t.csv", "file,label\na.jpg,robe d\u2019été\n".encode("cp1252"))
    table = read_table(path)
    assert table.rows == [["a.jpg", "robe d\u2019été"]]
    assert table.notes == ["t.csv is not UTF-8; it was read as Windows-1252"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.csv", "", r"empty.csv is empty"),
        ("blank.csv", "\n , \n", r"blank.csv is empty"),
        ("header.csv", "file,label\n", r"has a header, \['file', 'label'\], but no rows"),
        ("ragged.csv", CLEAN + "c.jpg\nd.jpg,cat,x,y\n",
         r"header has 2 cells \(file, label\), but line 4 has 1, line 5 has 4 \(2 of 4 rows\)"),
        ("twice.csv", "file,label,label\na,b,c\n", r"several columns called \['label'\]"),
        ("old.xls", b"\xd0\xcf\x11\xe0rest", r"old.xls is a workbook of old Excel"),
        ("broken.xlsx", b"PK\x03\x04rest", r"broken.xlsx can't be read as an Excel workbook"),
        ("binary.csv", b"file,label\n\x81\x8d,\x90\n", r"binary.csv is text in no known encoding"),
        ("bad.jsonl", '{"file": "a"}\n{"file":\n', r"bad.jsonl, line 2: no JSON"),
        ("numbers.jsonl", "1\n2\n", r"numbers.jsonl, line 1: a row must be an object"),
    ],
)  # fmt: skip
def test_what_is_no_table(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_table(written(tmp_path, name, content))


def workbook(path: Path, sheets: dict[str, list[list[object]]]) -> Path:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def test_workbook_below_title_rows_and_beside_empty_columns(tmp_path: Path) -> None:
    rows = [["Labels of 2024"], [], [None, "file", "label"], [None, "a.jpg", "cat"],
            [None, "b.jpg", None], [], [None, "c.jpg", "dog"]]  # fmt: skip
    table = read_table(workbook(tmp_path / "t.xlsx", {"Sheet1": rows}))
    assert table.columns == ["file", "label"]
    assert table.rows == [["a.jpg", "cat"], ["b.jpg", ""], ["c.jpg", "dog"]]
    assert table.lines == [4, 5, 7]


def test_workbook_cells_become_text(tmp_path: Path) -> None:
    rows = [["file", "label"], ["a", 1], ["b", 2.0], ["c", 2.5], ["d", True], ["e", "007"]]
    table = read_table(workbook(tmp_path / "t.xlsx", {"s": rows}))
    assert table.column("label") == ["1", "2", "2.5", "True", "007"]


def test_first_sheet_that_is_not_empty_or_the_named_one(tmp_path: Path) -> None:
    sheets = {"empty": [], "labels": [["file", "label"], *ROWS], "ids": [["file", "id"], ["a", 1]]}
    path = workbook(tmp_path / "t.xlsx", sheets)
    assert read_table(path).rows == ROWS
    assert read_table(path, sheet="ids").rows == [["a", "1"]]
    with pytest.raises(UserError, match=r"no sheet 'lables'. Did you mean 'labels'"):
        read_table(path, sheet="lables")


def columns_of(folder: Path, header: str, **named: str) -> dict[str, str]:
    cells = ",".join("x" for _ in header.split(","))
    return chosen(read_table(written(folder, "t.csv", f"{header}\n{cells}\n")), Columns(**named))


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("file,label", {"file": "file", "label": "label"}),
        (",Image Path,Category", {"file": "Image Path", "label": "Category"}),
        ("FileName,class_id,Split", {"file": "FileName", "label": "class_id", "split": "Split"}),
        ("img,target,patient_id", {"file": "img", "label": "target", "group": "patient_id"}),
    ],
)
def test_usual_names_are_found(tmp_path: Path, header: str, found: dict[str, str]) -> None:
    assert columns_of(tmp_path, header) == found


def test_named_columns_win(tmp_path: Path) -> None:
    found = columns_of(tmp_path, "file,label,species,photo", label="species", file="photo")
    assert found == {"file": "photo", "label": "species"}


@pytest.mark.parametrize(
    ("header", "named", "message"),
    [
        ("file,label", {"label": "lable"}, r"label is 'lable'.* Did you mean 'label'"),
        ("file,class,category", {}, r"\['class', 'category'\] could each hold the label"),
        ("text,category", {}, r"no column is known to hold the file; found text, category"),
        ("file,price", {}, r"to hold the label; found file, price. Name it: --data.columns.label"),
        ("a_1.jpg,cat", {}, r"has no header: its first line is a_1.jpg, cat"),
    ],
)
def test_columns_that_can_not_be_found(
    tmp_path: Path, header: str, named: dict[str, str], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        columns_of(tmp_path, header, **named)


def test_one_column_per_class_is_recognised(tmp_path: Path) -> None:
    path = written(tmp_path, "t.csv", "file,cat,dog\na.jpg,1,0\nb.jpg,0,1\n")
    with pytest.raises(UserError, match="one column of 0 and 1 per class"):
        chosen(read_table(path), Columns())
