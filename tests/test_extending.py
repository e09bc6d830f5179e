"""The guide to one's own model, data and problem: what it shows is written, and run."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

GUIDE = (ROOT / "docs" / "extending.md").read_text()
BLOCKS = re.findall(r"```python\n# (project/\S+)\n(.*?)```", GUIDE, re.DOTALL)
COMMANDS = re.findall(r"^python -m project (fit .*)$", GUIDE, re.MULTILINE)
SHORT = "--trainer.max_epochs 1 --trainer.limit_train_batches 2 --trainer.limit_val_batches 2"


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with everything that the guide adds."""
    folder = tmp_path_factory.mktemp("copy")
    for name in ("project", "configs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(ROOT / "pyproject.toml", folder / "pyproject.toml")
    for name, code in BLOCKS:
        path = folder / name
        if path.name == "__init__.py":
            added = re.findall(r"import (\w+)", code)
            text = path.read_text().replace("__all__ = [", f"{code}\n__all__ = [*{added}, ", 1)
            path.write_text(text.replace(f"*{added}, ", "".join(f'"{n}", ' for n in added)))
        else:
            assert not path.exists()
            path.write_text(code)
    return folder


def test_the_guide_adds_one_of_each_kind() -> None:
    assert [Path(name).parent.name for name, _ in BLOCKS[::2]] == ["models", "data", "tasks"]
    assert len(COMMANDS) == 3
    for _, code in BLOCKS[::2]:
        assert len(code.splitlines()) <= 60  # a screen


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c.split("--")[2].split()[1])
def test_what_the_guide_adds_trains(copy: Path, command: str) -> None:
    words = [*shlex.split(command), *SHORT.split()]
    done = subprocess.run(
        [sys.executable, "-m", "project", *words], capture_output=True, text=True, cwd=copy
    )
    assert done.returncode == 0, done.stderr
    assert "test (best checkpoint)" in done.stderr + done.stdout


@pytest.mark.slow
def test_what_the_guide_adds_is_in_the_help(copy: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "project", "fit", "--help"], capture_output=True, text=True, cwd=copy
    )
    for name in ("LeNet", "Iris", "Grading"):
        assert re.search(rf"\b{name}\b", done.stdout)
