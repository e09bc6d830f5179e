"""A new folder with a project in it, or this one turned into a project."""

import os
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from project.errors import UserError
from project.starter.answers import Answers
from project.starter.rendering import render
from project.starter.tree import git, paths_of


def check_target(target: Path) -> None:
    """Whether a project can be made there.

    Raises:
        UserError: There is something already, or no folder to put it in.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UserError(f"{target} is there already, and not empty; name a new folder.")
    if not target.absolute().parent.is_dir():
        raise UserError(f"There is no folder {target.absolute().parent} to put {target.name} in.")


def make(source: Path, target: Path, answers: Answers, *, with_git: bool = True) -> None:
    """Make a project in a new folder: all of it, or nothing if something fails.

    Args:
        source: This repository.
        target: The new folder.
        answers: What it is to be.
        with_git: Whether to begin a repository with a first commit.

    Raises:
        UserError: The target is not empty, or a tool is missing or failed.
    """
    check_target(target)
    target = target.absolute()
    answers = replace(
        answers, template=_address(source), commit=git("rev-parse", "HEAD", folder=source)
    )
    if git("status", "--porcelain", folder=source):
        print(
            f"note: {source} has changes that are not committed. They are in the project, but an "
            f"update will start from {answers.commit[:12]}.",
            file=sys.stderr,
        )
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
        beside = Path(folder) / target.name
        render(source, beside, answers)
        if with_git:
            begin_history(beside, answers.author)
        if target.exists():
            target.rmdir()
        beside.rename(target)


def _address(source: Path) -> str:
    remotes = git("remote", folder=source).split()
    return git("remote", "get-url", "origin", folder=source) if "origin" in remotes else str(source)


def begin_history(folder: Path, author: str) -> None:
    """A git repository with everything in its first commit."""
    git("init", "--quiet", "--initial-branch", "main", folder=folder)
    git("add", "--all", folder=folder)
    git("commit", "--quiet", "--message", "Start", folder=folder, env=identified(author))


def identified(author: str) -> dict[str, str]:
    """The environment for a commit, with a name for whoever has told git none."""
    env = dict(os.environ)
    for role in ("AUTHOR", "COMMITTER"):
        for what, default in (("NAME", author), ("EMAIL", "nobody@localhost")):
            known = env.get(f"GIT_{role}_{what}") or _configured(f"user.{what.lower()}")
            env[f"GIT_{role}_{what}"] = known or default
    return env


def _configured(key: str) -> str:
    try:
        return git("config", "--get", key, folder=Path.cwd())
    except UserError:
        return ""


def check_clean(folder: Path) -> None:
    """Whether everything is committed, so that nothing can get lost.

    Raises:
        UserError: It is not.
    """
    if git("status", "--porcelain", folder=folder):
        raise UserError(f"{folder} has changes that are not committed; commit or stash them first.")


def rename_in_place(root: Path, answers: Answers) -> None:
    """Turn this checkout into the project.

    Raises:
        UserError: There are changes that are not committed.
    """
    check_clean(root)
    answers = replace(answers, tree=git("rev-parse", "HEAD^{tree}", folder=root))
    with tempfile.TemporaryDirectory(prefix=f".{root.name}.", dir=root.parent) as folder:
        beside = Path(folder) / root.name
        render(root, beside, answers)
        for path in paths_of(root):
            (root / path).unlink()
        for path in sorted(root.glob("**/"), reverse=True):
            if ".git" not in path.relative_to(root).parts and path != root:
                _remove_if_empty(path)
        shutil.copytree(beside, root, dirs_exist_ok=True)


def _remove_if_empty(folder: Path) -> None:
    left = [path for path in folder.iterdir() if path.name != "__pycache__"]
    if not left:
        shutil.rmtree(folder)
