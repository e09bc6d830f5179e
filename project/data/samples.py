"""Which labels the files of a folder have, said by a table or by the folders' names."""

from collections.abc import Sequence
from dataclasses import dataclass

from project.data.columns import Columns, chosen
from project.data.folders import Files, by_folders
from project.data.matching import AMBIGUOUS, MISSING, Finder
from project.data.splits import stated
from project.data.tables import Table
from project.errors import UserError
from project.findings import Finding

Item = tuple[str, str]


@dataclass
class Samples:
    """Files with their labels as written, one entry each, in any order.

    Args:
        names: Files below the root, with `/`, each once.
        labels: As written.
        splits: Name of the split, blank where none is stated.
        groups: What must not be divided between splits, if that is stated.
        findings: What is wrong or worth knowing.
    """

    names: list[str]
    labels: list[str]
    splits: list[str]
    groups: list[str] | None
    findings: list[Finding]


def of_folders(files: Files) -> Samples:
    """Samples whose class is the name of a folder.

    Raises:
        UserError: There are no such folders.
    """
    what = files.kind.what
    labels, splits, findings = by_folders(files)
    without = [name for name, label in zip(files.names, labels, strict=True) if not label]
    if len(without) == len(files.names):
        raise UserError(
            f"{files.root} has {len(without)} {what}s and no folders that tell their class. Give "
            "their labels, --data.table labels.csv, or put each class into a folder of its own. "
            f"{what.capitalize()}s to predict on are given as --data.predict_root."
        )
    if without:
        items = [(name, "") for name in without]
        findings.append(_left_out(f"{what}s in no folder of a class", items))
    return Samples(files.names, labels, splits, None, findings)


def of_table(files: Files, table: Table, columns: Columns) -> Samples:
    """Samples that a table lists.

    A file counts once: equal rows are one, and of rows that disagree none is taken.

    Raises:
        UserError: A column is missing, a split is none, or no row leads to a file.
    """
    names = chosen(table, columns)
    cells = {role: table.column(name) for role, name in names.items()}
    finder = Finder(files.root, files.names, table.path.parent)
    found = [finder.find(cell) for cell in cells["file"]]
    rows = _Rows(table, cells, found, finder.names, files.kind.what)
    findings = [Finding("note", note) for note in table.notes]
    findings += rows.without_file()
    if not any(number >= 0 for number in found):
        raise UserError(
            f"None of the {len(found)} files in {table.path} exists below {files.root}, such as "
            f"{rows.item(0)[0]!r} (line {table.lines[0]}). --data.root is the folder that the "
            "paths in the table start from."
        )
    kept, more = rows.once_each()
    findings += more + rows.not_listed() + rows.without_label(kept, columns.unlabelled)
    taken = {role: [column[row].strip() for row in kept] for role, column in cells.items()}
    files_of = [finder.names[found[row]] for row in kept]
    splits = rows.stated_splits(kept) if "split" in taken else _splits_of_folders(files, files_of)
    labels = [cells["label"][row] for row in kept]
    return Samples(files_of, labels, splits, taken.get("group"), findings)


@dataclass
class _Rows:
    """A table's rows and the files they lead to.

    Args:
        table: The table.
        cells: Its columns by what they hold.
        found: For each row the number of its file, or why there is none.
        names: The files.
        what: What one is called.
    """

    table: Table
    cells: dict[str, list[str]]
    found: list[int]
    names: list[str]
    what: str

    def item(self, row: int) -> Item:
        """A row as it is named in a finding."""
        return self.cells["file"][row], f"{self.table.path.name} line {self.table.lines[row]}"

    def without_file(self) -> list[Finding]:
        """Rows that lead nowhere, or to several places."""
        titles = {
            "rows whose file does not exist": MISSING,
            "rows that fit several files": AMBIGUOUS,
        }
        findings = []
        for title, code in titles.items():
            rows = [row for row, number in enumerate(self.found) if number == code]
            if rows:
                findings.append(_left_out(title, [self.item(row) for row in rows]))
        return findings

    def not_listed(self) -> list[Finding]:
        """Files that no row leads to."""
        missing = sorted(set(range(len(self.names))) - set(self.found))
        items = [(self.names[number], "") for number in missing]
        return [_left_out(f"{self.what}s without a row", items)] if items else []

    def without_label(self, kept: list[int], unlabelled: Sequence[str]) -> list[Finding]:
        """Rows whose label is blank, or was said to mean nothing."""
        labels = {row: self.cells["label"][row].strip() for row in kept}
        none = {text.strip() for text in unlabelled} - {""}
        blank = [self.item(row) for row, label in labels.items() if not label]
        stated = [self.item(row) for row, label in labels.items() if label in none]
        findings = [_left_out("rows without a label", blank)] if blank else []
        if stated:
            findings.append(Finding("note", "rows left out, their label means none", stated))
        return findings

    def once_each(self) -> tuple[list[int], list[Finding]]:
        """One row for each file, none for a file whose rows disagree."""
        of_file: dict[int, list[int]] = {}
        for row, number in enumerate(self.found):
            if number >= 0:
                of_file.setdefault(number, []).append(row)
        says = [column for role, column in self.cells.items() if role != "file"]
        kept: list[int] = []
        repeated: list[Item] = []
        conflicting: list[Item] = []
        for number, rows in of_file.items():
            said = sorted({" ".join(column[row].strip() for column in says) for row in rows})
            lines = ", ".join(str(self.table.lines[row]) for row in rows)
            if len(said) > 1:
                conflicting.append((self.names[number], f"{' | '.join(said)}; lines {lines}"))
                continue
            kept.append(rows[0])
            if len(rows) > 1:
                repeated.append((self.names[number], f"lines {lines}"))
        titles = {
            f"{self.what}s whose rows disagree": conflicting,
            f"{self.what}s with several equal rows": repeated,
        }
        return kept, [_left_out(title, items) for title, items in titles.items() if items]

    def stated_splits(self, kept: list[int]) -> list[str]:
        """Splits by the table's column.

        Raises:
            UserError: A cell names none.
        """
        cells, lines = self.cells["split"], self.table.lines
        return stated([cells[row] for row in kept], [lines[row] for row in kept], self.table.path)


def _splits_of_folders(files: Files, names: list[str]) -> list[str]:
    """Splits by folder, where a table does not say them but all of its files lie in such."""
    _, splits, _ = by_folders(Files(files.root, names, files.folders, kind=files.kind))
    return splits if all(splits) else [""] * len(names)


def _left_out(title: str, items: list[Item]) -> Finding:
    advice = "Mend them, or leave them out: --data.on_bad skip."
    return Finding("error", title, items, advice, skippable=True)
