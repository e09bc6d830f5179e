"""Files below a folder, which of them a table means, and classes and splits by folder."""

import os
import unicodedata
from pathlib import Path

import pytest

from project.data.folders import by_folders, listed, located, parts_below, text_array
from project.data.matching import AMBIGUOUS, MISSING, Finder
from project.errors import UserError
from tests.data.photos import awkward_folder


def touched(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\xff\xd8\xff")
    return root


def test_images_are_found_and_nothing_else(tmp_path: Path) -> None:
    expected = awkward_folder(tmp_path)
    files = listed(tmp_path)
    taken = {name for name, code in expected.items() if code != "none"} | {"bitflips.jpg"}
    assert set(files.names) == taken
    assert files.names == sorted(files.names)
    assert {name for name, _ in files.ignored} == {n for n, c in expected.items() if c == "none"}


def test_leftovers_of_systems_are_ignored_with_a_note(tmp_path: Path) -> None:
    touched(tmp_path, "a/1.jpg", "b/1.jpg", "__MACOSX/a/1.jpg", ".ipynb_checkpoints/1.jpg",
            "a/.DS_Store", "a/._1.jpg")  # fmt: skip
    files = listed(tmp_path)
    assert files.names == ["a/1.jpg", "b/1.jpg"]
    assert by_folders(files)[0] == ["a", "b"]
    (note,) = files.findings()
    assert note.severity == "note"
    assert len(note.items) == 4


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="no links here")
def test_links_are_followed_once(tmp_path: Path) -> None:
    touched(tmp_path / "real", "a/1.jpg")
    root = tmp_path / "root"
    root.mkdir()
    (root / "linked").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "round").symlink_to(root)
    assert listed(root).names == ["linked/a/1.jpg"]


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"x\.jpg is no folder"):
        listed(touched(tmp_path, "x.jpg") / "x.jpg")


def test_relative_paths_start_here_then_at_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    assert located("photos", "data.root") == tmp_path / "photos"
    assert located("configs", "data.root").name == "configs"
    with pytest.raises(UserError, match=r"--data.root is 'fotos'") as caught:
        located("fotos", "data.root")
    assert str(tmp_path / "fotos") in str(caught.value)
    assert str(caught.value).count("fotos") == 3  # as typed, and both places


@pytest.mark.parametrize(
    ("names", "labels", "splits"),
    [
        (["a/1.jpg", "b/2.jpg"], ["a", "b"], ["", ""]),
        (["a/x/1.jpg", "a/y/z/2.jpg", "b/3.jpg"], ["a", "a", "b"], ["", "", ""]),
        (["data/a/1.jpg", "data/b/2.jpg"], ["a", "b"], ["", ""]),
        (["Train/a/1.jpg", "valid/b/2.jpg"], ["a", "b"], ["train", "val"]),
        (["images/test/a/1.jpg", "images/train/b/x/2.jpg"], ["a", "b"], ["test", "train"]),
        (["train/a/1.jpg", "dev/b/2.jpg", "stray.jpg"], ["a", "b", ""], ["train", "val", ""]),
        (["test/1.jpg", "cat/2.jpg"], ["test", "cat"], ["", ""]),  # no train beside it: a class
        (["1.jpg", "2.jpg"], ["", ""], ["", ""]),
    ],
)
def test_classes_and_splits_by_folder(
    tmp_path: Path, names: list[str], labels: list[str], splits: list[str]
) -> None:
    files = listed(touched(tmp_path, *names))
    found = dict(zip(files.names, zip(*by_folders(files)[:2], strict=True), strict=True))
    assert found == dict(zip(names, zip(labels, splits, strict=True), strict=True))


def test_an_empty_class_is_no_class_and_is_told(tmp_path: Path) -> None:
    touched(tmp_path, "hat/1.jpg", "hat/2.jpg")
    (tmp_path / "shoes").mkdir()
    files = listed(tmp_path)
    assert parts_below(files.names, files.folders) == (0, False)
    labels, _, (finding,) = by_folders(files)
    assert labels == ["hat", "hat"]
    assert finding.items == [("shoes", "")]


NAMES = ["a/cat_1.jpg", "b/cat_1.png", "b/dog.jpg", "b/UPPER.JPEG", "b/deep/owl.webp",
         unicodedata.normalize("NFD", "b/café.jpg")]  # fmt: skip


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("b/dog.jpg", 2),
        (" b/dog.jpg ", 2),
        ("./b/dog.jpg", 2),
        (r"b\dog.jpg", 2),
        (r"C:\data\photos\b\dog.jpg", 2),
        ("/elsewhere/b/dog.jpg", 2),
        ("dog.jpg", 2),
        ("dog", 2),
        ("b/dog", 2),
        ("b/upper.jpeg", 3),
        ("owl", 4),
        (unicodedata.normalize("NFC", "b/café.jpg"), 5),
        ("café", 5),
        ("cat_1", AMBIGUOUS),
        ("a/cat_1", 0),
        ("cat_1.png", 1),
        ("ghost.jpg", MISSING),
        ("", MISSING),
        (".", MISSING),
    ],
)
def test_what_a_table_means(tmp_path: Path, written: str, expected: int) -> None:
    assert Finder(tmp_path, list(NAMES), tmp_path).find(written) == expected


def test_paths_from_the_tables_folder_and_absolute_ones(tmp_path: Path) -> None:
    finder = Finder(tmp_path / "photos", ["x/1.jpg"], tmp_path / "labels")
    assert finder.find("../photos/x/1.jpg") == 0
    assert finder.find(str(tmp_path / "photos" / "x" / "1.jpg")) == 0
    assert Finder(tmp_path / "photos", ["x/1.jpg"], tmp_path).find("photos/x/1.jpg") == 0


def test_a_hidden_file_that_a_table_names_is_meant(tmp_path: Path) -> None:
    touched(tmp_path, ".hidden.jpg")
    files = listed(tmp_path)
    assert files.names == []
    assert Finder(tmp_path, files.names, tmp_path).find(".hidden.jpg") == 0
    assert files.names == [".hidden.jpg"]


def test_text_is_one_array(tmp_path: Path) -> None:
    array = text_array(["a", "longer"])
    assert array.dtype == "<U6"
    assert text_array([]).dtype.kind == "U"
