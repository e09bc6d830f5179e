"""The direction of dependency, read from the imports."""

import ast
from pathlib import Path

import pytest

from tests.conftest import ROOT

LEVELS = {
    # what each part may import from this package; lower ones never look up
    "errors": set(),
    "findings": {"errors"},
    "parsing": {"errors"},
    "runs": {"errors"},
    "randomness": set(),
    "state_dicts": {"errors", "runs"},
    "batches": {"errors"},
    "figures": set(),
    "hardware": {"errors"},
    "optim": {"errors"},
    "models": {"errors", "batches", "state_dicts"},
    "data": {"errors", "findings", "batches", "randomness", "runs"},
    "tasks": {"errors", "batches", "randomness", "figures", "optim", "models", "state_dicts"},
    "checkpoints": {"errors", "runs", "tasks", "models", "state_dicts"},
    "callbacks": {
        "errors",
        "batches",
        "runs",
        "figures",
        "optim",
        "models",
        "tasks",
        "data",
        "checkpoints",
    },
    "export": {"errors", "batches", "runs", "tasks", "models", "data", "checkpoints", "parsing"},
    "serving": {"errors", "runs", "export", "data", "parsing"},
    "doctor": {"errors"},
    "checks": {"errors", "findings", "batches", "randomness", "doctor", "tasks", "data"},
    "tune": {"errors", "data"},
    "trainer": {"errors", "findings", "callbacks", "checks", "tasks", "data", "tune"},
}
TOP = {"__init__", "__main__", "cli", "compare", "studies"}
"""The command line: may import anything; nothing below may import it."""
# starter: template
TOP |= {"starter"}
# /starter

FILES = sorted((ROOT / "project").rglob("*.py"))


def part(path: Path) -> str:
    return path.relative_to(ROOT / "project").parts[0].removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "project":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("project."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("project.")]
            found |= {name.split(".")[1] for name in names}
    return found


def test_every_part_has_its_place() -> None:
    assert {part(path) for path in FILES} == set(LEVELS) | TOP


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    name = part(path)
    if name in TOP:
        return
    allowed = LEVELS[name] | {name}
    assert imported_parts(path) <= allowed


@pytest.mark.parametrize("path", [p for p in FILES if part(p) == "models"], ids=lambda p: p.name)
def test_models_are_plain_torch(path: Path) -> None:
    assert "lightning" not in path.read_text()


def test_package_itself_imports_nothing() -> None:
    tree = ast.parse((ROOT / "project" / "__init__.py").read_text())
    assert not [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]


@pytest.mark.parametrize(
    "path", [p for p in FILES if part(p) in ("models", "tasks")], ids=lambda p: p.name
)
def test_models_and_tasks_name_no_device(path: Path) -> None:
    """What they make lies where their inputs lie."""
    names = {"cuda", "cpu", "mps"}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            words = [*node.args, *(keyword.value for keyword in node.keywords)]
            given = {str(w.value).partition(":")[0] for w in words if isinstance(w, ast.Constant)}
            assert not given & names, f"line {node.lineno}"
            assert ast.unparse(node.func).rpartition(".")[2] != "cuda", f"line {node.lineno}"
