"""Python sources as they stand on the disk, read without importing them."""

import ast
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path


class Source:
    """One module's source: what it defines, and where its imported names come from.

    Args:
        module: Dotted name.
        file: Its file.
    """

    def __init__(self, module: str, file: Path) -> None:
        self.module = module
        self.tree = ast.parse(file.read_text(encoding="utf-8"))
        self.defined: dict[str, ast.stmt] = {}
        self.imported: dict[str, str] = {}
        self.exported: list[str] = []
        package = module if file.name == "__init__.py" else module.rpartition(".")[0]
        for statement in _statements(self.tree.body):
            self._read(statement, package)

    def _read(self, statement: ast.stmt, package: str) -> None:
        if isinstance(statement, ast.ImportFrom):
            parents = package.split(".")[: -(statement.level - 1) or None]
            origin = ".".join(
                [*(parents if statement.level else []), *filter(None, [statement.module])]
            )
            for name in statement.names:
                self.imported[name.asname or name.name] = f"{origin}.{name.name}"
        elif isinstance(statement, ast.Import):
            for name in statement.names:
                top = name.name.partition(".")[0]
                self.imported[name.asname or top] = name.name if name.asname else top
        elif isinstance(statement, ast.ClassDef | ast.FunctionDef):
            self.defined[statement.name] = statement
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                self.defined[ast.unparse(target)] = statement
                if ast.unparse(target) == "__all__" and isinstance(statement.value, ast.List):
                    self.exported = ast.literal_eval(statement.value)

    def path_of(self, expression: ast.expr) -> str:
        """The dotted path a name or an attribute leads to, through this module's imports."""
        first, dot, rest = ast.unparse(expression).partition(".")
        own = f"{self.module}.{first}" if first in self.defined else first
        return self.imported.get(first, own) + dot + rest

    def words(self, annotation: ast.expr | None) -> str:
        """A type as a user reads it, with this module's aliases and literals written out."""
        if isinstance(annotation, ast.BinOp):
            return f"{self.words(annotation.left)} | {self.words(annotation.right)}"
        if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Literal":
            values = annotation.slice
            listed = values.elts if isinstance(values, ast.Tuple) else [values]
            return " | ".join(str(ast.literal_eval(value)) for value in listed)
        if isinstance(annotation, ast.Name):
            module, _, alias = self.imported.get(annotation.id, annotation.id).rpartition(".")
            source = source_of(module) if module.startswith("project.") else self
            meant = source.defined.get(alias) if source else None
            if source and isinstance(meant, ast.Assign):
                return source.words(meant.value)
        if isinstance(annotation, ast.Attribute):
            return annotation.attr
        return ast.unparse(annotation) if annotation else ""


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.Try):
            yield from _statements([*statement.body, *statement.orelse])


@cache
def source_of(module: str) -> Source | None:
    """The source of a module; None where there is no such Python file."""
    package, *rest = module.split(".")
    spec = importlib.util.find_spec(package) if package.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0], *rest)
    for file in (folder / "__init__.py", folder.with_name(f"{folder.name}.py")):
        if file.is_file():
            return Source(module, file)
    return None
