"""Python files without what refers to something that is gone: from an entry of a list to a file."""

import ast
import re
from functools import lru_cache

from project.starter.choice import Choice, imports, module_name, parse
from project.starter.references import Gone, References, defined, is_gone
from project.starter.spans import span_of, without
from project.starter.tree import Tree


def gone_of(choice: Choice) -> Gone:
    """What a choice leaves out, as it is referred to in code."""
    names = {pair for pair, path in choice.classes.items() if path in choice.gone}
    kept_words = {name for pair, path in choice.classes.items() if path in choice.kept
                  for name in [pair[1]]}  # fmt: skip
    written = [re.escape(path) for path in choice.gone]
    written += [re.escape(module_name(path)) for path in choice.gone if path.endswith(".py")]
    written += [re.escape(f"{package}.{name}") for package, name in names]
    return Gone(
        modules={module_name(path) for path in choice.gone if path.endswith(".py")},
        names=names,
        words={name for _, name in names} - kept_words,
        parts=re.compile(rf"(?<![\w/])(?:{'|'.join(written) or '(?!)'})(?!\w)"),
    )


def prune(tree: Tree, gone: Gone) -> None:
    """Take out of the tests, benchmarks and `__init__` files what refers to something gone.

    What goes may be referred to itself, so this is repeated until nothing changes. A test file of
    which no test is left goes too, and what only such files imported.
    """
    had_tests = {path for path in tree if _has_tests(path, tree[path])}
    imported = _imported(tree)
    while True:
        gone.changed = False
        now = _imported(tree)
        spoken = gone.spoken()
        for path in [path for path in tree if _is_pruned(path)]:
            if spoken.search(str(tree[path])):
                tree[path] = _pruned(str(tree[path]), path, gone, now)
        now = _imported(tree)
        for path in [path for path in tree if path.startswith(("tests/", "benchmarks/"))]:
            name = module_name(path)
            empty = path in had_tests and not _has_tests(path, tree[path])
            idle = name in imported and name not in now and not _has_tests(path, tree[path])
            if (
                path.endswith(".py")
                and not path.endswith(("__init__.py", "conftest.py"))
                and (empty or idle or _imports_gone(str(tree[path]), gone))
            ):
                del tree[path]
                gone.modules.add(name)
                gone.changed = True
        if not gone.changed:
            break
    for path in [
        path for path in tree if path.startswith("tests/") and path.endswith("__init__.py")
    ]:
        folder = path.removesuffix("__init__.py")
        if not any(p.startswith(folder) and p != path for p in tree):
            del tree[path]


def _is_pruned(path: str) -> bool:
    package = path.startswith("project/") and path.endswith("/__init__.py")
    return path.endswith(".py") and (package or path.startswith("tests/"))


def _imports_gone(text: str, gone: Gone) -> bool:
    pairs = imports(text)
    return any(is_gone(module, name, gone) for module, name in pairs)


def _has_tests(path: str, text: str | bytes) -> bool:
    return path.startswith("tests/") and bool(
        re.search(r"^\s*(?:async )?def test_", str(text), re.MULTILINE)
    )


def _imported(tree: Tree) -> set[str]:
    """Modules of the tests that a test imports, and names in them, dotted."""
    found = set()
    for path, text in tree.items():
        if path.startswith("tests/") and path.endswith(".py"):
            for module, name in imports(str(text)):
                found |= {module, f"{module}.{name}"}
    return found


def _pruned(text: str, path: str, gone: Gone, imported: set[str]) -> str:
    pruner = References(text, path, gone)
    spans = pruner.spans()
    if not spans:
        return text
    gone.changed = True
    gone.names |= {(module_name(path), name) for name in pruner.lost}
    before = _used(text)
    shorter = without(text, spans)
    while path.startswith("tests/"):
        tree = parse(shorter)
        idle = [
            span_of(shorter, node, tree.body)
            for node in tree.body
            for name in defined(node)
            if name in before - _used(shorter) and f"{module_name(path)}.{name}" not in imported
        ]
        if not idle:
            break
        shorter = without(shorter, idle)
    return shorter


@lru_cache(maxsize=4096)
def _used(text: str) -> frozenset[str]:
    found = set()
    for node in ast.walk(parse(text)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
    return frozenset(found)
