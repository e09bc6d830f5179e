"""What in one Python file refers to something that is gone, and how little has to be cut out."""

import ast
import re
from dataclasses import dataclass, field

from project.starter.choice import module_name, parse
from project.starter.spans import DEFINITIONS, Span, element, is_text, offset, span_of


@dataclass
class Gone:
    """What is no longer there.

    Args:
        modules: Dotted names.
        names: Names in a module that stays, as (module, name).
        words: Strings that name something gone, each as a whole.
        parts: Finds paths of what is gone inside a string.
    """

    modules: set[str]
    names: set[tuple[str, str]]
    words: set[str]
    parts: re.Pattern[str]
    changed: bool = field(default=False)

    def spoken(self) -> re.Pattern[str]:
        """Finds a word without which a file can't refer to anything of this."""
        words = {name for _, name in self.names} | self.words
        words |= {module.rpartition(".")[2] for module in self.modules}
        written = "|".join(map(re.escape, sorted(words))) or "(?!)"
        return re.compile(rf"\b(?:{written})\b|{self.parts.pattern}")


def is_gone(module: str, name: str | None, gone: Gone) -> bool:
    """Whether an import, or an attribute of a module, is of something that is gone."""
    return (
        module in gone.modules
        or f"{module}.{name}" in gone.modules
        or (module, str(name)) in gone.names
    )


def defined(node: ast.stmt) -> list[str]:
    """The names that a statement gives."""
    if isinstance(node, DEFINITIONS):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else []
    targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
    return [target.id for target in targets if isinstance(target, ast.Name)]


class References:
    """One file.

    Args:
        text: Its content.
        path: Where it stands.
        gone: What is no longer there.
    """

    def __init__(self, text: str, path: str, gone: Gone) -> None:
        self.text, self.gone = text, gone
        self.tree = parse(text)
        self.lost: set[str] = set()  # names of this file that go
        self.packages: dict[str, str] = {}  # local name → module it stands for
        self.module = module_name(path)
        self.missing = {name for module, name in gone.names if module == self.module}

    def spans(self) -> list[Span]:
        """What is to be cut out."""
        spans = self._of_imports()
        count = -1
        while count != len(self.missing):  # what goes may be used above
            count = len(self.missing)
            rest = [
                span for node in self.tree.body for span in self._of_statement(node, self.tree.body)
            ]
        return spans + rest

    def _of_imports(self) -> list[Span]:
        spans = []
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            module = node.module if isinstance(node, ast.ImportFrom) else None
            dropped = []
            for alias in node.names:
                local = alias.asname or alias.name
                origin = (module, alias.name) if module else (alias.name, None)
                self.packages[local] = f"{module}.{alias.name}" if module else alias.name
                if is_gone(*origin, self.gone):
                    self.missing.add(local)
                    self.lost.add(local)
                    dropped.append(alias)
            if dropped:
                left = [alias for alias in node.names if alias not in dropped]
                short = ast.unparse(ast.ImportFrom(module, left, 0)) + "\n" if left else ""
                start = offset(self.text, node.lineno, 0)
                stop = offset(self.text, (node.end_lineno or 0) + 1, 0)
                spans.append((start, stop, " " * node.col_offset * bool(left) + short))
        return spans

    def _refers(self, node: ast.AST) -> bool:
        """Whether something in it is gone; its docstrings and its own variables do not count."""
        own, texts = set(), set()
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                own.add(part.id)
            elif isinstance(part, ast.Expr):
                texts.add(id(part.value))
        names = self.missing - own
        return any(
            (isinstance(part, ast.Name) and part.id in names)
            or (isinstance(part, ast.arg) and part.arg in self.missing)
            or (isinstance(part, ast.Attribute) and self._is_gone_attribute(part))
            or (
                isinstance(part, ast.Constant) and id(part) not in texts and self._names(part.value)
            )
            for part in ast.walk(node)
        )

    def _is_gone_attribute(self, node: ast.Attribute) -> bool:
        written = ast.unparse(node.value)
        return is_gone(self.packages.get(written, written), node.attr, self.gone)

    def _names(self, value: object) -> bool:
        """Whether a constant is the name or the path of something that is gone."""
        return isinstance(value, str) and bool(
            value in self.gone.words or self.gone.parts.search(value)
        )

    def _of_statement(self, node: ast.stmt, body: list[ast.stmt]) -> list[Span]:
        if isinstance(node, ast.Import | ast.ImportFrom) or not self._refers(node):
            return []
        spans = self._cuts(node)
        if spans is None:
            self.lost |= set(defined(node))
            self.missing |= set(defined(node)) if body is self.tree.body else set()
            return [span_of(self.text, node, body)]
        return spans

    def _cuts(self, node: ast.stmt) -> list[Span] | None:
        """What to cut inside a statement; None if it has to go as a whole."""
        if isinstance(node, DEFINITIONS):
            spans: list[Span] = []
            for decorator in node.decorator_list:
                inside = self._shrunk(decorator, may_be_empty=False)
                if inside is None:
                    return None
                spans += inside
            if isinstance(node, ast.ClassDef):
                inside = self._of_class(node)
            elif any(self._refers(arg) for arg in ast.walk(node.args)):
                return None
            elif not any(self._refers(each) for each in node.body):
                inside = []
            else:
                inside = None if node.name.startswith("test_") else self._of_body(node.body)
            return None if inside is None else spans + inside
        value = getattr(node, "value", None)
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and value is not None:
            return self._shrunk(value, may_be_empty=True)
        return None

    def _of_class(self, node: ast.ClassDef) -> list[Span] | None:
        if any(self._refers(each) for each in [*node.bases, *node.keywords]):
            return None
        spans = [span for each in node.body for span in self._of_statement(each, node.body)]
        gone = [each for each in node.body if self._refers(each) and self._cuts(each) is None]
        left = [each for each in node.body if each not in gone and not is_text(each)]
        return spans if any(isinstance(each, DEFINITIONS) for each in left) else None

    def _of_body(self, body: list[ast.stmt]) -> list[Span] | None:
        """Statements to drop in a function that is no test: what is put into something.

        None if it must go as a whole: something else refers to what is gone, or nothing is left.
        """
        spans: list[Span] = []
        dropped = 0
        for node in body:
            if not self._refers(node):
                dropped += is_text(node)
                continue
            put = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript)
            if put or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
                dropped += 1
                spans.append(span_of(self.text, node, body))
                continue
            inside = self._of_body(node.body) if isinstance(node, ast.With | ast.For) else None
            if inside is None:
                return None
            spans += inside
        return spans if dropped < len(body) else None

    def _shrunk(self, node: ast.expr, *, may_be_empty: bool) -> list[Span] | None:
        """Entries to drop from lists and tables in an expression; None if that is not enough."""
        if not self._refers(node):
            return []
        if isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Dict):
            return self._of_container(node, may_be_empty)
        if isinstance(node, ast.Call) and not self._refers(node.func):
            inside: list[Span] = []
            for each in [*node.args, *(keyword.value for keyword in node.keywords)]:
                found = self._shrunk(each, may_be_empty=may_be_empty)
                if found is None:
                    return None
                inside += found
            return inside
        return None

    def _of_container(
        self, node: ast.List | ast.Tuple | ast.Set | ast.Dict, may_be_empty: bool
    ) -> list[Span] | None:
        if isinstance(node, ast.Dict):
            pairs = [(k or v, v) for k, v in zip(node.keys, node.values, strict=True)]
        else:
            pairs = [(each, each) for each in node.elts]
        strings = [k.value for k, _ in pairs if isinstance(k, ast.Constant)]
        if not isinstance(node, ast.Dict) and any(str(s).startswith("--") for s in strings):
            return None  # the words of a command, not entries
        dropped = [(k, v) for k, v in pairs if self._refers(k) or self._refers(v)]
        if len(dropped) == len(pairs) and not may_be_empty:
            return None
        return [element(self.text, first, last, node) for first, last in dropped]
