"""What this repository changed since, merged into a project made from it.

The project is rendered twice from its answers: as it was made, by the old version's own code, and
as it would be made now. The difference is picked into the project by git, as a commit would be: a
three-way merge that follows renamed files.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from project.errors import NothingToDo, UserError
from project.starter.answers import FILE, Answers, parsed, written
from project.starter.making import check_clean, identified
from project.starter.tree import git


def update(source: Path, folder: Path, address: str) -> None:
    """Merge the version of the template that is checked out in `source` into the project.

    Args:
        source: A clone of the template.
        folder: The project.
        address: Where the clone was made from, for the record.

    Raises:
        UserError: It is no project of this template, or has uncommitted changes; or there are
            conflicts, which it lists.
        NothingToDo: It is up to date.
    """
    if not (folder / FILE).is_file():
        raise UserError(f"There is no {FILE} in {folder}: it was not made from this template.")
    check_clean(folder)
    answers = parsed((folder / FILE).read_text("utf-8"))
    new = git("rev-parse", "HEAD", folder=source)
    old = answers.commit or _commit_of(answers.tree, source)
    _check_known(old, source)
    if old == new:
        raise NothingToDo(f"{folder.name} is up to date with {new[:12]} of the template.")
    with tempfile.TemporaryDirectory() as work:
        as_it_was = _version(source, old, answers, Path(work) / "old", folder)
        now = replace(answers, commit=new, tree="", template=address)
        as_it_is = _version(source, new, now, Path(work) / "new", folder)
    _pick(folder, as_it_was, as_it_is, f"template {new[:12]}")


def _commit_of(tree: str, source: Path) -> str:
    """The commit whose files a copy of the template started from."""
    for line in git("log", "--all", "--format=%T %H", folder=source).splitlines():
        if tree and line.startswith(tree):
            return line.split()[1]
    raise UserError(
        f"No commit of the template has the files that {FILE} names as tree = {tree!r}."
    )


def _check_known(commit: str, source: Path) -> None:
    try:
        git("cat-file", "-e", f"{commit}^{{commit}}", folder=source)
    except UserError as error:
        raise UserError(
            f"The template has no commit {commit[:12]}, which {FILE} names as the one this project "
            "was made from. Was it never pushed? Name a clone that has it: TEMPLATE=path."
        ) from error


def _version(source: Path, commit: str, answers: Answers, work: Path, folder: Path) -> str:
    """The project as a version of the template makes it, stored as a tree in its repository."""
    checkout, made = work / "template", work / "project"
    git("clone", "--quiet", "--no-checkout", str(source), str(checkout), folder=source)
    git("checkout", "--quiet", commit, folder=checkout)
    (work / "answers.toml").write_text(written(answers), "utf-8")
    # each version is rendered by its own code: `render FOLDER --answers FILE` must stay
    command = [
        sys.executable,
        "-m",
        "project",
        "render",
        str(made),
        "--answers",
        str(work / "answers.toml"),
    ]
    env = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run(command, cwd=checkout, env=env, capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"Version {commit[:12]} could not be rendered: {done.stderr.strip()}")
    if answers.commit != git("rev-parse", "HEAD", folder=source):
        shutil.copyfile(folder / FILE, made / FILE)  # the answers can't conflict with themselves
    index = {**os.environ, "GIT_INDEX_FILE": str(work / "index"), "GIT_WORK_TREE": str(made),
             "GIT_DIR": git("rev-parse", "--absolute-git-dir", folder=folder)}  # fmt: skip
    git("add", "--all", "--force", ".", folder=made, env=index)
    return git("write-tree", folder=made, env=index)


def _pick(folder: Path, old: str, new: str, message: str) -> None:
    who = identified("template")
    base = git("commit-tree", old, "-m", "as it was made", folder=folder, env=who)
    tip = git("commit-tree", new, "-p", base, "-m", message, folder=folder, env=who)
    done = subprocess.run(
        ["git", "-c", "merge.conflictStyle=diff3", "cherry-pick", "--no-commit", tip],
        cwd=folder, capture_output=True, text=True, env=who,
    )  # fmt: skip
    conflicts = git("diff", "--name-only", "--diff-filter=U", folder=folder).splitlines()
    if done.returncode and not conflicts:
        raise UserError(f"git could not merge: {done.stderr.strip()}")
    changed = git("diff", "--cached", "--name-only", folder=folder).splitlines()
    print(f"{len(changed)} files changed; to give it up: git reset --hard")
    if conflicts:
        listed = "\n".join(f"  {path}" for path in conflicts)
        raise UserError(
            f"both you and the template changed the same lines of\n{listed}\nThey are marked; "
            "solve them, then git add and commit."
        )
    print("Look at it (git diff --cached), run make test, and commit.")
