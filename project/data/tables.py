"""Tables of text: CSV in all its dialects, Excel sheets, JSON lines.

Every cell stays the text that was written (`NA`, `True`, `001`): what a cell means is decided where
it is used.
"""

import csv
import io
import json
import re
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import openpyxl

from project.errors import UserError, suggestion

SEPARATORS = "\t;,|"
_BYTE_ORDER_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_SHOWN = 5

Row = tuple[int, list[str]]
"""The line it begins in, as an editor counts them, and its cells."""


@dataclass(frozen=True)
class Table:
    """A header and rows of as many cells.

    Args:
        path: Where it was read from.
        columns: Names in the header; empty for a column without one.
        rows: Cells as text.
        lines: Line of the file (row of the sheet) in which each row begins.
        notes: What had to be guessed.
    """

    path: Path
    columns: list[str]
    rows: list[list[str]]
    lines: list[int]
    notes: list[str] = field(default_factory=list)

    def column(self, name: str) -> list[str]:
        """All cells below a name in the header."""
        position = self.columns.index(name)
        return [row[position] for row in self.rows]


def read_table(path: Path, *, sheet: str | None = None) -> Table:
    """Read a table of any of the kinds that people have.

    Text may be UTF-8 or UTF-16 (with its mark) or, failing these, Windows-1252; the separator is
    the one that gives the first line most cells. In a workbook the table may begin below blank
    lines or a title.

    Args:
        path: The file; its content decides between text and workbook, its ending only for JSON.
        sheet: Which sheet of a workbook; None takes the first one that is not empty.

    Raises:
        UserError: It can't be read, holds no rows, or its rows differ in their number of cells.
    """
    content = path.read_bytes()
    notes: list[str] = []
    if content[:4] == b"PK\x03\x04":
        rows = _sheet(path, sheet)
    elif content[:4] == b"\xd0\xcf\x11\xe0":
        raise UserError(f"{path} is a workbook of old Excel. Save it as .xlsx or as CSV.")
    else:
        text = _decoded(content, path, notes)
        is_json = path.suffix.lower() in (".jsonl", ".ndjson", ".json")
        rows = (_objects if is_json else _separated)(text, path)
    rows = [(line, cells) for line, cells in rows if any(cell.strip() for cell in cells)]
    if not rows:
        raise UserError(
            f"The table {path} is empty. It needs a header, such as file,label, and rows."
        )
    return _checked(path, rows, notes)


def _checked(path: Path, rows: list[Row], notes: list[str]) -> Table:
    """Refuse what no table is."""
    columns = [cell.strip() for cell in rows[0][1]]
    named = [name for name in columns if name]
    repeated = sorted({name for name in named if named.count(name) > 1})
    if repeated:
        raise UserError(f"{path} has several columns called {repeated}. Give each its own name.")
    if len(rows) == 1:
        raise UserError(f"The table {path} has a header, {columns}, but no rows.")
    width = len(columns)
    cells = [(line, row[: max(width, _filled(row))]) for line, row in rows[1:]]
    odd = [(line, len(row)) for line, row in cells if len(row) != width]
    if odd:
        listed = ", ".join(f"line {line} has {count}" for line, count in odd[:_SHOWN])
        raise UserError(
            f"{path}: the header has {width} cells ({', '.join(columns)}), but {listed}"
            f"{', …' if len(odd) > _SHOWN else ''} ({len(odd)} of {len(cells)} rows). Mend these "
            "rows; a cell that holds the separator needs quotes around it."
        )
    return Table(path, columns, [row for _, row in cells], [line for line, _ in cells], notes)


def _filled(row: list[str]) -> int:
    """Number of cells up to the last one that is not empty."""
    return max((n for n, cell in enumerate(row, 1) if cell.strip()), default=0)


def _decoded(content: bytes, path: Path, notes: list[str]) -> str:
    marks = (code for mark, code in _BYTE_ORDER_MARKS.items() if content.startswith(mark))
    encoding = next(marks, "utf-8")
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        if encoding != "utf-8":
            raise UserError(f"{path} begins as {encoding} but is none: {error.reason}.") from None
    try:
        text = content.decode("cp1252")
    except UnicodeDecodeError:
        raise UserError(
            f"{path} is text in no known encoding (UTF-8, UTF-16, Windows-1252). Save it as UTF-8."
        ) from None
    notes.append(f"{path.name} is not UTF-8; it was read as Windows-1252")
    return text


def _separated(text: str, path: Path) -> list[Row]:
    """Rows of a text table; a first line `sep=;` is Excel's way to say the separator."""
    first = re.split(r"[\r\n]", text.lstrip("\r\n"), maxsplit=1)[0]
    stated = first.startswith("sep=") and len(first) == 5
    separator = first[4] if stated else max(SEPARATORS, key=lambda s: _count(first, s))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    rows: list[Row] = []
    line = 1
    try:
        for cells in reader:
            rows.append((line, cells))
            line = reader.line_num + 1  # a quoted cell may go over several lines
    except csv.Error as error:
        raise UserError(f"{path}, line {line}: {error}. Mend this line.") from None
    return rows[1:] if stated else rows


def _count(line: str, separator: str) -> int:
    return len(next(csv.reader([line], delimiter=separator), []))


def _objects(text: str, path: Path) -> list[Row]:
    """Rows of JSON lines, or of a JSON list, the header in front; what lacks a key is blank."""
    found: list[tuple[int, Any]] = []
    line = 0
    try:
        if text.lstrip().startswith("["):
            found = list(enumerate(json.loads(text), 1))
        else:
            for line, words in enumerate(text.split("\n"), 1):
                if words.strip():
                    found.append((line, json.loads(words)))
    except json.JSONDecodeError as error:
        raise UserError(f"{path}, line {line or error.lineno}: no JSON ({error.msg}).") from None
    wrong = [line for line, item in found if not isinstance(item, dict)]
    if wrong:
        raise UserError(f'{path}, line {wrong[0]}: a row must be an object, {{"file": …}}.')
    names = list(dict.fromkeys(name for _, item in found for name in item))
    rows = [(line, [_json_text(item.get(name)) for name in names]) for line, item in found]
    return [(0, names), *rows] if rows else []


def _json_text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def _sheet(path: Path, sheet: str | None) -> list[Row]:
    """Rows of a workbook's table, from its header on."""
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except (zipfile.BadZipFile, KeyError, ValueError, OSError) as error:
        raise UserError(f"{path} can't be read as an Excel workbook: {error}.") from None
    try:
        if sheet is not None and sheet not in book.sheetnames:
            raise UserError(f"{path} has no sheet {sheet!r}.{suggestion(sheet, book.sheetnames)}")
        for name in [sheet] if sheet else book.sheetnames:
            rows = _cells(book[name])
            if rows:
                return _from_header(rows)
    finally:
        book.close()
    return []


def _cells(sheet: Any) -> list[Row]:
    if not hasattr(sheet, "iter_rows"):  # a sheet that holds a chart
        return []
    sheet.reset_dimensions()  # other programs write wrong ones
    values = enumerate(sheet.iter_rows(values_only=True), 1)
    rows = [(line, [_cell_text(value) for value in row]) for line, row in values]
    return [(line, row) for line, row in rows if _filled(row)]


def _cell_text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # Excel stores every number as a float
    return "" if value is None else str(value)


def _from_header(rows: list[Row]) -> list[Row]:
    """Without title lines above and empty columns around; all rows as wide as the widest."""
    widths = [sum(1 for cell in row if cell.strip()) for _, row in rows]
    start = next((n for n, width in enumerate(widths) if width > 1), 0)
    rows = rows[start:]
    first = [next((n for n, cell in enumerate(row) if cell.strip()), 0) for _, row in rows]
    left, right = min(first), max(_filled(row) for _, row in rows)
    return [(line, (row + [""] * right)[left:right]) for line, row in rows]
