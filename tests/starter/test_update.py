"""What a later version changed arrives, and what a user changed stays."""

import subprocess
import sys
from pathlib import Path

import pytest

from project.errors import NothingToDo, UserError
from project.starter import merging, rendering
from project.starter.answers import Answers, check_problems, parsed, written
from project.starter.making import begin_history, make, rename_in_place
from project.starter.tree import git, read
from tests.conftest import ROOT

STARTER = """
import pathlib, sys
_, verb, folder, _, answers = sys.argv
name = [l.split('"')[1] for l in open(answers) if l.startswith("name")][0]
here, there = pathlib.Path.cwd(), pathlib.Path(folder)
for path in ["model.py", "notes.md", "extra.py"]:
    if (here / path).exists():
        there.mkdir(parents=True, exist_ok=True)
        (there / path).write_text((here / path).read_text().replace("project", name))
(there / ".template.toml").write_text(open(answers).read())
"""
"""A template in miniature: it renames three files."""
MODEL = "".join(f"line {n} of project\n" for n in range(30))


def commit(folder: Path, **files: str) -> str:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git("add", "--all", folder=folder)
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    git(*who, "commit", "--quiet", "--allow-empty", "--message", "more", folder=folder)
    return git("rev-parse", "HEAD", folder=folder)


@pytest.fixture
def template(tmp_path: Path) -> Path:
    folder = tmp_path / "template"
    folder.mkdir()
    git("init", "--quiet", folder=folder)
    (folder / "project").mkdir()
    (folder / "project" / "__init__.py").write_text("")
    (folder / "project" / "__main__.py").write_text(STARTER)
    commit(folder, model_dot_py=MODEL, notes_dot_md="about project\n")
    return folder


@pytest.fixture
def project(tmp_path: Path, template: Path) -> Path:
    """Made from the first version, and edited."""
    folder = tmp_path / "mine"
    first = git("rev-parse", "HEAD", folder=template)
    answers = Answers("mine", ("tabular",), template=str(template), commit=first)
    (tmp_path / "answers.toml").write_text(written(answers))
    command = [sys.executable, "-m", "project", "render", str(folder), "--answers",
               str(tmp_path / "answers.toml")]  # fmt: skip
    subprocess.run(command, cwd=template, check=True)
    begin_history(folder, "a")
    edited = (folder / "model.py").read_text().replace("line 2 of mine", "line two, mine")
    commit(folder, model_dot_py=edited, own_dot_py="mine alone\n")
    return folder


def test_both_changes_are_there_when_they_do_not_meet(template: Path, project: Path) -> None:
    new = commit(template, model_dot_py=MODEL.replace("line 20 of", "line twenty of"),
                 extra_dot_py="import project\n")  # fmt: skip
    merging.update(template, project, str(template))
    text = (project / "model.py").read_text()
    assert "line two, mine\n" in text
    assert "line twenty of mine\n" in text
    assert (project / "extra.py").read_text() == "import mine\n"
    assert (project / "own.py").read_text() == "mine alone\n"
    assert parsed((project / ".template.toml").read_text()).commit == new
    assert git("status", "--porcelain", folder=project)  # for the user to look at and commit
    commit(project)
    with pytest.raises(NothingToDo, match="up to date"):
        merging.update(template, project, str(template))


def test_lines_that_both_changed_are_marked_and_listed(template: Path, project: Path) -> None:
    changed = MODEL.replace("line 2 of", "line zwei of").replace("line 25 of", "line XXV of")
    commit(template, model_dot_py=changed, notes_dot_md="more about project\n")
    with pytest.raises(UserError, match=r"the same lines of\n  model.py\n"):
        merging.update(template, project, str(template))
    text = (project / "model.py").read_text()
    assert "<<<<<<<" in text
    assert "line two, mine\n" in text
    assert "line zwei of mine\n" in text
    assert "line XXV of mine\n" in text.partition(">>>>>>>")[2]
    assert (project / "notes.md").read_text() == "more about mine\n"
    git("reset", "--hard", folder=project)  # as the message says
    assert "<<<<" not in (project / "model.py").read_text()


def test_an_edit_follows_a_file_that_was_renamed(template: Path, project: Path) -> None:
    (template / "model.py").rename(template / "extra.py")
    commit(template)
    merging.update(template, project, str(template))
    assert not (project / "model.py").exists()
    assert "line two, mine\n" in (project / "extra.py").read_text()


def test_a_copy_with_a_history_of_its_own_is_found_by_its_files(
    template: Path, project: Path
) -> None:
    answers = parsed((project / ".template.toml").read_text())
    files = git("rev-parse", f"{answers.commit}^{{tree}}", folder=template)
    copied = Answers("mine", ("tabular",), tree=files)
    commit(project, _dot_template_dot_toml=written(copied))
    commit(template, model_dot_py=MODEL + "an end to project\n")
    merging.update(template, project, str(template))
    assert (project / "model.py").read_text().endswith("an end to mine\n")


def test_changes_that_are_not_committed_are_not_risked(template: Path, project: Path) -> None:
    (project / "model.py").write_text("unsaved")
    with pytest.raises(UserError, match="not committed"):
        merging.update(template, project, str(template))
    assert (project / "model.py").read_text() == "unsaved"


def test_a_commit_that_was_never_pushed_is_said(template: Path, project: Path) -> None:
    text = (project / ".template.toml").read_text()
    unknown = text.replace(parsed(text).commit, "0" * 40)
    commit(project, _dot_template_dot_toml=unknown)
    with pytest.raises(UserError, match=r"no commit 000000000000.* never pushed"):
        merging.update(template, project, str(template))


@pytest.mark.slow
def test_this_repository_updates_a_project_made_from_it(tmp_path: Path) -> None:
    """By the command that the project has, from one tag to the next."""
    template, project = tmp_path / "template", tmp_path / "mine"
    for path, content in read(ROOT).items():
        target = template / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())
    git("init", "--quiet", folder=template)
    commit(template)
    git("tag", "v1.0", folder=template)
    make(template, project, Answers("mine", check_problems("tabular")))
    assert git("status", "--porcelain", folder=project) == ""
    readme = (project / "README.md").read_text()
    commit(project, README_dot_md=readme + "\nMy own line.\n")
    batches = (template / "project" / "batches.py").read_text()
    commit(template, project__batches_dot_py=batches + "\n# from project.batches, version 2\n",
           configs__texts_dot_yaml="# not chosen\n")  # fmt: skip
    git("tag", "v2.0", folder=template)

    done = subprocess.run(
        [sys.executable, "tools/update.py"], cwd=project, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (project / "mine/batches.py").read_text().endswith("# from mine.batches, version 2\n")
    assert (project / "README.md").read_text().endswith("\nMy own line.\n")
    assert not (project / "configs" / "texts.yaml").exists()
    changed = git("diff", "--cached", "--name-only", folder=project).split()
    assert changed == [".template.toml", "mine/batches.py"]


@pytest.mark.slow
def test_in_place_is_the_same_as_in_another_folder(tmp_path: Path) -> None:
    copy, beside = tmp_path / "copy", tmp_path / "beside"
    for path, content in read(ROOT).items():
        target = copy / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())
    git("init", "--quiet", folder=copy)
    commit(copy)
    (copy / ".gitignore").write_text((copy / ".gitignore").read_text() + "\nmine.txt\n")
    answers = Answers("mine", check_problems("segmentation"))
    with pytest.raises(UserError, match="not committed"):
        rename_in_place(copy, answers)
    commit(copy)
    (copy / "mine.txt").write_text("ignored by git, and left alone")
    rendering.render(copy, beside, answers)
    rename_in_place(copy, answers)
    assert (copy / "mine.txt").read_text() == "ignored by git, and left alone"
    made, expected = (
        read(copy),
        {p.relative_to(beside).as_posix() for p in beside.rglob("*") if p.is_file()},
    )
    assert set(made) == expected
    assert not (copy / "project").exists()
    assert parsed(str(made[".template.toml"])).tree == git("rev-parse", "HEAD^{tree}", folder=copy)
    assert all((beside / p).read_text() == text for p, text in made.items()
               if isinstance(text, str) and p != ".template.toml")  # fmt: skip
