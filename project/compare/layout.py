"""Values and tables as text."""

import json
import math
from typing import Any


def aligned(rows: list[list[str]]) -> list[str]:
    """A line for each row, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def indented(lines: list[str]) -> list[str]:
    """The lines, two columns to the right."""
    return [f"  {line}" for line in lines]


def cut(text: str, width: int) -> str:
    """The text, with a sign of what is left out where it is longer than the width."""
    return text if len(text) <= width else text[: width - 1] + "…"


def number(value: float | None) -> str:
    """Four digits are enough to compare by; whole numbers keep all of theirs."""
    if value is None:
        return ""
    whole = isinstance(value, int) or 1e4 <= abs(value) < 1e9
    return f"{value:.0f}" if whole else f"{value:.4g}"


def typed(value: Any) -> str:
    """A setting's value as on the command line."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def as_json(content: Any) -> str:
    """Text that any JSON reader takes: null for NaN and infinity, which are no JSON."""
    return json.dumps(_finite(content), indent=2, default=str)


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
