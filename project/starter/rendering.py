"""From this repository and a few answers to the files of a project."""

import subprocess
import sys
from pathlib import Path

from project.errors import UserError
from project.starter import documents, pruning, renaming
from project.starter.answers import FILE, Answers
from project.starter.choice import OLD, choose, table
from project.starter.identity import of_its_own
from project.starter.tree import Tree, chosen_blocks, read, write

_VERBATIM = ("tools/update.py",)  # speaks of this repository, under its name


def render(source: Path, target: Path, answers: Answers) -> None:
    """Write the project into a folder.

    Raises:
        UserError: ruff is not installed.
    """
    tree = rendered(read(source), answers)
    target.mkdir(parents=True, exist_ok=True)
    write(tree, target, source)
    # names of another length and lists with fewer entries are laid out in another way
    _ruff("check", "--fix-only", "--unsafe-fixes", "--select", "I,F401,F841,W29", folder=target)
    _ruff("format", folder=target)


def rendered(tree: Tree, answers: Answers) -> Tree:
    """The files of the project, but for their layout."""
    own = table()["template"]
    tree = {path: text for path, text in tree.items()
            if path != FILE and not any(path.startswith(each) for each in own)}  # fmt: skip
    for path, text in tree.items():
        if isinstance(text, str):
            tree[path] = chosen_blocks(text, list(answers.problems))
    _leave_out(tree, answers)
    kept = {path: tree.pop(path) for path in _VERBATIM if path in tree}
    tree = renaming.rename(tree, answers.name)
    return {**tree, **kept, **of_its_own(tree, answers)}


def _leave_out(tree: Tree, answers: Answers) -> None:
    choice = choose(tree, list(answers.problems))
    before = _code(tree)
    for path in choice.gone:
        del tree[path]
    gone = pruning.gone_of(choice)
    pruning.prune(tree, gone)
    documents.prune_notebooks(tree, gone)
    documents.prune_benchmark_results(tree)
    documents.prune_documents(tree, gone)
    documents.prune_phony(tree)
    documents.prune_dependencies(tree, before, _code(tree), table()["modules"])


def _code(tree: Tree) -> str:
    """All of the package."""
    paths = [path for path in tree if path.startswith(f"{OLD}/") and path.endswith(".py")]
    return "\n".join(str(tree[path]) for path in paths)


def _ruff(*words: str, folder: Path) -> None:
    command = [sys.executable, "-m", "ruff", *words, "--no-cache", "--quiet", "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if "No module named ruff" in done.stderr:
        raise UserError("Making a project needs ruff: `make install`, or `pip install ruff`.")
    if done.returncode:
        raise UserError(f"ruff {words[0]} failed on the new project: {done.stderr.strip()}")
