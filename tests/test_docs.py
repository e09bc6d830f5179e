"""What the documents say is so: links lead somewhere, commands run, notebooks execute."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from tests.conftest import ROOT, TINY

DOCUMENTS = sorted(
    [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "notebooks").glob("*.md")]
)
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
BLOCK = re.compile(r"```bash\n(.*?)```", re.DOTALL)


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def links(text: str) -> list[tuple[str, str]]:
    return [pair for pair in LINK.findall(text) if not pair[1].startswith(("http", "#", "mailto"))]


def commands(text: str) -> list[str]:
    lines = "\n".join(BLOCK.findall(text)).replace("\\\n", " ").splitlines()
    return [line.partition("  #")[0].strip() for line in lines if line.strip()]


@pytest.mark.parametrize("document", DOCUMENTS, ids=relative)
def test_links_lead_somewhere(document: Path) -> None:
    for _, target in links(document.read_text()):
        assert (document.parent / target.partition("#")[0]).exists(), target


def test_every_document_is_reached_from_the_readme() -> None:
    reached, todo = set(), [ROOT / "README.md"]
    while todo:
        document = todo.pop().resolve()
        if document in reached or document.suffix != ".md":
            continue
        reached.add(document)
        todo += [document.parent / t.partition("#")[0] for _, t in links(document.read_text())]
    assert {path.resolve() for path in DOCUMENTS} <= reached


PRACTICE = re.compile(r"^\| ([DMTSEX]\d+) \|.*\|.*\| (.+) \| (.+) \|$", re.MULTILINE)
ROWS = PRACTICE.findall((ROOT / "docs" / "practices.md").read_text())


# starter: template
NUMBERS = {"D": 17, "M": 12, "T": 12, "S": 8, "E": 7, "X": 11}
"""How many practices there are of each kind."""


def test_every_practice_has_a_row() -> None:
    known = {f"{kind}{n + 1}" for kind, count in NUMBERS.items() for n in range(count)}
    listed = {row[0] for row in ROWS}
    assert listed <= known
    assert listed == known


# /starter


def test_practices_are_listed_once() -> None:
    ids = [row[0] for row in ROWS]
    assert len(ids) > 20
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_practice_names_its_code_and_a_test_that_exists(row: tuple[str, str, str]) -> None:
    _, code, test = row
    assert all(target.startswith("../project/") for _, target in links(code))
    found = links(test)
    assert found
    for name, target in found:
        text = (ROOT / "docs" / target).read_text()
        assert f"def {name.strip('`')}(" in text, name


def test_readme_names_only_targets_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = re.findall(r"\bmake ([a-z][a-z-]+)", (ROOT / "README.md").read_text())
    assert named
    for target in named:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.slow
def test_readme_commands_run_in_order(command: Callable[..., int]) -> None:
    lines = [c for c in commands((ROOT / "README.md").read_text()) if " -m project " in c]
    assert len(lines) > 5
    for line in lines:
        words = shlex.split(line)
        verb, options = words[words.index("project") + 1], words[words.index("project") + 2 :]
        if verb in ("fit", "validate", "test", "predict"):
            # TINY comes first, so that what the README says beats it
            small = [w for w in TINY if "max_epochs" not in w and w != "1"]
            assert command(verb, *limited(small, options)) == 0, line
        elif verb == "runs":
            from project.cli import main

            assert main([verb, *options]) in (0, 2)  # without a run it says how to start one
        else:
            assert command(verb, *options) == 0, line


def limited(small: list[str], options: list[str]) -> list[str]:
    limits = ["--trainer.limit_train_batches", "2", "--trainer.limit_val_batches", "1"]
    epochs = [] if "--trainer.max_epochs" in options else ["--trainer.max_epochs", "1"]
    return [*limits, *epochs, *options]


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=relative)
def test_notebook_runs_and_is_stored_without_outputs(
    notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = [c for c in nbformat.read(notebook, as_version=4).cells if c.cell_type == "code"]
    assert cells
    assert not any(cell.outputs or cell.execution_count for cell in cells), "strip the outputs"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["notebook"])
    namespace = {"__name__": "__main__"}
    for cell in cells:
        exec(compile(cell.source, f"{notebook.name}", "exec"), namespace)


def test_every_notebook_is_in_the_course() -> None:
    listed = {target for _, target in links((ROOT / "notebooks" / "README.md").read_text())}
    assert {path.name for path in NOTEBOOKS} <= listed
