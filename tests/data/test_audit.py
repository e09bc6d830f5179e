"""What is wrong with image files is found; what is left out does not depend on chance."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from project.data import audit as auditing
from project.data.audit import KINDS, Report, audit, remembered
from project.data.folders import listed, text_array
from project.data.index import Index
from project.findings import Finding, report
from tests.data.photos import awkward_folder, picture


def index_of(root: Path, names: list[str], **changed: list) -> Index:
    values = {"target": [0] * len(names), "split": ["train"] * len(names), **changed}
    return Index(root, text_array(names), np.array(values["target"]), np.array(values["split"]),
                 ["a", "b"], {}, [])  # fmt: skip


def titles(found: Report) -> dict[str, list[str]]:
    return {f.title: [name for name, _ in f.items] for f in found.findings}


def test_every_awkward_file_is_told_what_it_is(tmp_path: Path) -> None:
    expected = awkward_folder(tmp_path)
    names = listed(tmp_path).names
    found = titles(audit(index_of(tmp_path, names), seconds=None))
    for name, code in expected.items():
        said = {title for title, items in found.items() if name in items}
        if code == "unreadable":
            assert KINDS["unreadable"][1] in said, name
        elif code in ("", "none"):
            assert said == set(), name
        else:
            assert KINDS[code][1] in said, name
            assert KINDS["unreadable"][1] not in said, name


def test_reasons_are_short_and_name_no_file_twice(tmp_path: Path) -> None:
    (tmp_path / "empty.jpg").write_bytes(b"")
    (finding,) = audit(index_of(tmp_path, ["empty.jpg"]), seconds=None).findings
    assert finding.items == [("empty.jpg", "it is empty")]


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    for number, name in enumerate(["a.jpg", "b.jpg", "c.jpg", "d.jpg"]):
        picture(number).save(tmp_path / name)
    shutil.copy(tmp_path / "a.jpg", tmp_path / "a2.jpg")
    return tmp_path


NAMES = ["a.jpg", "a2.jpg", "b.jpg", "c.jpg"]


@pytest.mark.parametrize(
    ("changed", "code", "left_out"),
    [
        ({}, "copy", []),
        ({"split": ["train", "test", "train", "val"]}, "leak", ["a.jpg"]),
        ({"split": ["test", "val", "train", "val"]}, "leak", ["a2.jpg"]),
        ({"target": [0, 1, 0, 0]}, "disagree", ["a.jpg", "a2.jpg"]),
        ({"target": [0, 1, 0, 0], "split": ["train", "test", "train", "val"]}, "disagree",
         ["a.jpg", "a2.jpg"]),
    ],
)  # fmt: skip
def test_copies(copies: Path, changed: dict, code: str, left_out: list[str]) -> None:
    index = index_of(copies, NAMES, **changed)
    found = audit(index, seconds=None)
    severity, title, _ = KINDS[code]
    (finding,) = found.findings
    assert (finding.severity, finding.title) == (severity, title)
    assert index.names[found.left_out].tolist() == left_out


def test_out_of_time_says_what_was_not_looked_at(copies: Path) -> None:
    found = audit(index_of(copies, NAMES), seconds=-1)
    (note,) = found.findings
    assert note.severity == "note"
    assert "of 4 images not: 4 opened, 2 compared with others, 4 decoded" in note.title
    assert "check" in note.advice


def test_what_is_left_out_is_looked_up_until_a_file_changes(
    copies: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auditing, "FOLDER", tmp_path_factory.mktemp("cache"))
    looked = []
    original = auditing.audit
    monkeypatch.setattr(auditing, "audit", lambda *a, **k: (looked.append(1), original(*a, **k))[1])
    index = index_of(copies, NAMES, split=["train", "test", "train", "val"])
    first, second = remembered(index), remembered(index)
    assert len(looked) == 1
    assert first.findings == second.findings
    assert np.array_equal(first.left_out, second.left_out)
    (copies / "b.jpg").write_bytes(b"broken")
    third = remembered(index)
    assert len(looked) == 2
    assert index.names[third.left_out].tolist() == ["a.jpg", "b.jpg"]


def test_report_lists_the_gravest_first_with_counts_and_examples() -> None:
    findings = [
        Finding("note", "grey", [("g.jpg", "L")]),
        Finding("error", "broken", [(f"{n}.jpg", "") for n in range(1234)], "Mend them."),
    ]
    lines = report(findings).splitlines()
    assert lines[0].split() == ["error", "1,234", "broken"]
    assert [line.strip() for line in lines[1:5]] == ["0.jpg", "1.jpg", "2.jpg", "…"]
    assert lines[5].strip() == "→ Mend them."
    assert lines[6].split() == ["note", "1", "grey"]
    assert findings[1].line().startswith("broken (1,234): 0.jpg, 1.jpg, 2.jpg, …. Mend them.")
