"""Rows of tables: of texts, of numbers, of anything that lies in the cells themselves."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from project.data.splits import stated
from project.data.tables import Table, read_table
from project.errors import UserError
from project.findings import Finding


@dataclass
class Rows:
    """The rows of one table or of several with the same columns.

    Args:
        columns: Names in the header.
        cells: Text, one list per column.
        names: Of the rows, such as `train.csv:12`: the file, and the line as an editor counts.
        lines: The lines alone.
        splits: Name of the split, blank where none is stated.
        table: The first table; messages name it.
        findings: What had to be guessed.
    """

    columns: list[str]
    cells: dict[str, list[str]]
    names: list[str]
    lines: list[int]
    splits: list[str]
    table: Table
    findings: list[Finding]

    def kept(self, rows: list[int]) -> "Rows":
        """Some of the rows alone."""
        return Rows(
            self.columns,
            {name: [column[row] for row in rows] for name, column in self.cells.items()},
            [self.names[row] for row in rows],
            [self.lines[row] for row in rows],
            [self.splits[row] for row in rows],
            self.table,
            self.findings,
        )


def read_rows(tables: Mapping[str, Path | None], *, sheet: str | None = None) -> Rows:
    """Read tables whose rows are samples.

    Args:
        tables: By the split they are for; of `train` the rows may be divided further. None where
            there is no such table.
        sheet: Which sheet of a workbook.

    Raises:
        UserError: A table can't be read, or has other columns than the first.
    """
    read = {
        split: read_table(path, sheet=sheet) for split, path in tables.items() if path is not None
    }
    first = next(iter(read.values()))
    columns = [name for name in first.columns if name]
    for table in read.values():
        if missing := [name for name in columns if name not in table.columns]:
            raise UserError(
                f"{table.path} lacks the columns {missing} that {first.path} has. Tables of one "
                "data set have the same columns."
            )
    return Rows(
        columns,
        {name: [c for table in read.values() for c in table.column(name)] for name in columns},
        [f"{table.path.name}:{line}" for table in read.values() for line in table.lines],
        [line for table in read.values() for line in table.lines],
        ["" if split == "train" else split for split, table in read.items() for _ in table.lines],
        first,
        [Finding("note", note) for table in read.values() for note in table.notes],
    )


def splits_of(rows: Rows, column: str | None) -> list[str]:
    """The splits that are stated: by a column, else by the table that a row is in.

    Raises:
        UserError: A cell of the column names no split.
    """
    if column is None:
        return rows.splits
    said = stated(rows.cells[column], rows.lines, rows.table.path)
    return [table or cell for table, cell in zip(rows.splits, said, strict=True)]
