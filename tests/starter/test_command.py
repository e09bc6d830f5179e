"""`new` and `rename` as they are typed."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from project.cli import main
from project.errors import UserError
from project.starter import command, making
from project.starter.answers import Answers, parsed
from tests.conftest import ROOT


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, Answers, bool]]:
    """What would have been made."""
    calls: list[tuple[Path, Answers, bool]] = []

    def note(source: Path, target: Path, answers: Answers, *, with_git: bool) -> None:
        calls.append((target, answers, with_git))

    monkeypatch.setattr(command, "make", note)
    return calls


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What somebody at a terminal types, in order."""
    lines: list[str] = []
    said: Iterator[str] = iter(lines)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda question: next(said))
    return lines


def test_nothing_is_asked_when_all_is_given(made: list, typed: list[str], tmp_path: Path) -> None:
    words = ["--name", "churn_model", "--problems", "tabular", "--author", "Ann", "--description",
             "Who leaves.", "--licence", "mit", "--no-git"]  # fmt: skip
    assert main(["new", str(tmp_path / "new"), *words]) == 0
    answers = Answers("churn_model", ("tabular",), "Who leaves.", "Ann", "MIT")
    assert made == [(tmp_path / "new", answers, False)]


def test_what_is_not_given_is_asked(made: list, typed: list[str], tmp_path: Path) -> None:
    typed += ["", "churn_model", "tabular, detection", "Who leaves.", "Ann", ""]
    assert main(["new", str(tmp_path / "new")]) == 0  # an empty name is asked for again
    answers = Answers("churn_model", ("tabular", "detection"), "Who leaves.", "Ann", "MIT")
    assert made == [(tmp_path / "new", answers, True)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["new"], "DEST not given, and nobody to ask"),
        (["new", "{new}"], "--name and --problems not given, and nobody to ask"),
        (["new", "{new}", "--name", "churn_model"], "--problems not given"),
        (["new", "{new}", "--yes", "--problems", "all"], "--name not given"),
        (["rename", "--problems", "all"], "NAME not given"),
        (["new", "{new}", "--nam", "x", "--flavour"], "unrecognized arguments: --flavour"),
        (["new", "{new}", "--name", "a", "--problems", "x"], "no problem 'x'"),
        (["new", "{new}", "--name", "a", "--problems", "all", "--licence", "GPL"], "'GPL'"),
        (["new", "{full}", "--name", "a", "--problems", "all"], "not empty"),
        (["new", "{new}/below/it", "--name", "a", "--problems", "all"], "There is no folder"),
    ],
)
def test_without_a_terminal_what_is_missing_or_wrong_is_said(
    made: list, capsys: pytest.CaptureFixture, tmp_path: Path, words: list[str], said: str
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("years of work")
    places = {"new": tmp_path / "new", "full": tmp_path / "full"}
    assert main([word.format(**places) for word in words]) == 2
    assert said in capsys.readouterr().err
    assert not made


def test_a_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(source: Path, target: Path, answers: Answers) -> None:
        target.mkdir()
        (target / "half").write_text("written")
        raise UserError("the disk is full")

    monkeypatch.setattr(making, "render", fail)
    with pytest.raises(UserError, match="disk is full"):
        making.make(ROOT, tmp_path / "new", Answers("a", ("tabular",)))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_an_empty_folder_is_taken_and_has_one_commit(tmp_path: Path) -> None:
    target = tmp_path / "churn"
    target.mkdir()
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}  # somebody who never told git a name
    words = ["new", str(target), "--name", "churn_model", "--problems", "sequences", "--yes"]
    script = f"import sys; from project.cli import main; code = main({words!r}); " \
             "sys.exit(code or 'torch' in sys.modules)"  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert making.git("log", "--format=%s", folder=target) == "Start"
    assert making.git("status", "--porcelain", folder=target) == ""
    record = parsed((target / ".template.toml").read_text())
    assert record.problems == ("sequences",)
    assert record.commit == making.git("rev-parse", "HEAD", folder=ROOT)
    assert [path.name for path in tmp_path.iterdir()] == ["churn"]
