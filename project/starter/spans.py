"""Where a statement or an entry of a list stands in a text, and the text without it."""

import ast
import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate

Span = tuple[int, int, str]
"""From a byte to a byte, and what stands there instead."""

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def without(text: str, spans: Iterable[Span]) -> str:
    """The text with these spans replaced."""
    data, end = text.encode(), len(text.encode())
    for start, stop, instead in sorted(set(spans), reverse=True):
        if start < min(stop, end):
            data, end = data[:start] + instead.encode() + data[min(stop, end) :], start
    return data.decode()


@lru_cache(maxsize=64)
def _starts(text: str) -> list[int]:
    """Where each line begins, in bytes, and where the text ends."""
    return [0, *accumulate(len(row) for row in text.encode().splitlines(keepends=True))]


def offset(text: str, line: int, column: int) -> int:
    """The byte at a line, counted from 1, and a column in bytes."""
    starts = _starts(text)
    return starts[min(line, len(starts)) - 1] + column


def span_of(text: str, node: ast.stmt, body: list[ast.stmt]) -> Span:
    """Whole lines of a statement, with its decorators, and comments and a docstring that belong."""
    lines = text.splitlines()
    decorators = node.decorator_list if isinstance(node, DEFINITIONS) else []
    first = min([node.lineno, *(each.lineno for each in decorators)])
    while first > 1 and lines[first - 2].lstrip().startswith("#"):
        first -= 1
    last = node
    after = body[body.index(node) + 1 :]
    if isinstance(node, ast.Assign | ast.AnnAssign) and after and is_text(after[0]):
        last = after[0]
    return offset(text, first, 0), offset(text, (last.end_lineno or 0) + 1, 0), ""


def is_text(node: ast.AST) -> bool:
    """Whether a statement is a docstring."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def element(text: str, first: ast.expr, last: ast.expr, inside: ast.expr) -> Span:
    """An entry with the comma after it, and with brackets of its own."""
    start = offset(text, first.lineno, first.col_offset)
    stop = offset(text, last.end_lineno or 0, last.end_col_offset or 0)
    data = text.encode()
    opening = len(data[:start].rstrip()) - 1
    closing = re.match(rb"\s*\)", data[stop:])
    outer = offset(text, inside.lineno, inside.col_offset)
    if data[opening : opening + 1] == b"(" and closing and opening != outer:
        start, stop = opening, stop + closing.end()
    comma = re.match(rb"\s*,[ \t]*(?:#[^\n]*)?", data[stop:])
    return start, stop + (comma.end() if comma else 0), ""
