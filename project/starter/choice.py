"""Which modules a choice of problems needs, read from class paths and imports."""

import ast
import re
import tomllib
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from project.starter.tree import Tree

OLD = "project"
"""The package's name in this repository."""

AXES = tuple(f"{OLD}/{name}/" for name in ("tasks", "models", "data"))
"""Where modules may be left out; all others are in every project."""

CLASS_PATH = re.compile(rf"\b({OLD}\.(?:tasks|models|data))\.(\w+)")


def table() -> dict[str, Any]:
    """The table of problems."""
    return tomllib.loads((Path(__file__).parent / "problems.toml").read_text("utf-8"))


def module_name(path: str) -> str:
    """`project/data/texts.py` → `project.data.texts`."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@lru_cache(maxsize=4096)
def parse(text: str) -> ast.Module:
    """The syntax tree of a file, not to be changed: it is kept for who asks again."""
    return ast.parse(text)


@lru_cache(maxsize=4096)
def imports(text: str) -> tuple[tuple[str, str | None], ...]:
    """Everything a file imports, as (module, name in it); the name is None for `import module`."""
    found: list[tuple[str, str | None]] = []
    for node in ast.walk(parse(text)):
        if isinstance(node, ast.Import):
            found += [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found += [(node.module, alias.name) for alias in node.names]
    return tuple(found)


@dataclass
class Choice:
    """What stays and what goes.

    Args:
        kept: Paths of the modules of the package that stay.
        gone: Paths of those that go, and of the configs.
        classes: What is exported under which name: (package, name) → path of its module.
    """

    kept: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    classes: dict[tuple[str, str], str] = field(default_factory=dict)


def choose(tree: Tree, problems: list[str]) -> Choice:
    """What the problems need: the classes of their configs, and all that those import."""
    known = table()
    sources = {
        path: str(text)
        for path, text in tree.items()
        if path.startswith(f"{OLD}/") and path.endswith(".py")
    }
    choice = Choice(classes=_exported(sources))
    by_module = {module_name(path): path for path in sources}

    configs = {path for path in tree if path.startswith("configs/")}
    owned = {path for problem in known["problems"].values() for path in problem["configs"]}
    named = [name for name in known["always"] if not name.endswith(".yaml")]
    for problem in problems:
        owned -= set(known["problems"][problem]["configs"])
        named += known["problems"][problem]["also"]
    choice.gone = configs & owned

    texts = [str(tree[path]) for path in configs - choice.gone] + named
    todo = [
        choice.classes[pair]
        for text in texts
        for pair in CLASS_PATH.findall(text)
        if pair in choice.classes
    ]
    todo += [path for path in sources if not path.startswith(AXES) or path.endswith("__init__.py")]
    while todo:
        path = todo.pop()
        if path in choice.kept:
            continue
        choice.kept.add(path)
        if path.startswith(AXES) and path.endswith("__init__.py"):
            continue  # exports what is kept, and needs nothing for itself
        for module, name in imports(sources[path]):
            places = (
                choice.classes.get((module, str(name))),
                by_module.get(f"{module}.{name}"),
                by_module.get(module),
            )
            todo += [place for place in places if place][:1]
    choice.gone |= set(sources) - choice.kept
    return choice


def _exported(sources: dict[str, str]) -> dict[tuple[str, str], str]:
    """What the packages of the axes export: (package, name) → path of the module it is from."""
    found = {}
    for package in AXES:
        path = f"{package}__init__.py"
        if path in sources:
            for module, name in imports(sources[path]):
                found[module_name(path), str(name)] = f"{module.replace('.', '/')}.py"
    return found
