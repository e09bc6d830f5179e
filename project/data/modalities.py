"""Which columns of a table lead to images, which are texts, and which are numbers or categories."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from project.data.cells import are_categories, numbers
from project.data.columns import USUAL, plain
from project.data.fields import Cells, Fields, are_numbers
from project.data.folders import ENDINGS, listed
from project.data.matching import AMBIGUOUS, MISSING, Finder
from project.data.rows import Rows
from project.errors import UserError
from project.findings import Finding

Modality = Literal["image", "text", "features"]
MODALITIES: tuple[Modality, ...] = ("image", "text", "features")

_MANY = 30
"""A column of more different cells, of over two words each, holds texts even if they repeat."""

NO_IMAGE = -3
"""The number of the file of a row whose cell is blank."""


@dataclass
class MixedFields(Fields):
    """Which column of a table is what. Columns that are not named are judged by their cells.

    Args:
        target: The column to predict, or several columns of numbers; None looks for one called
            target, label, class or the like.
        numbers: Columns that are numbers. A cell that is none counts as missing.
        categories: Columns that are categories, such as a postcode.
        ignored: Columns that the network is not given.
        split: The column that says train, val or test; None takes one that is called so.
        group: The column of what must not be divided between splits, such as a patient.
        sheet: The sheet of an Excel workbook; None takes the first that is not empty.
        unlabelled: Classes that mean that there is none. Blank cells always do.
        merge_similar: Make one class of targets that differ only in case or in blanks.
        file: The column of image files, from `root` or the table's folder; None takes the one that
            is called so or whose cells end like image files.
        texts: Columns of texts, read one after another; none named takes those whose text hardly
            repeats.
    """

    file: str | None = None
    texts: tuple[str, ...] = ()


@dataclass
class Modalities:
    """The columns of each.

    Args:
        file: Of image files, if there is one.
        texts: Of texts.
        others: Which may be numbers or categories.
    """

    file: str | None
    texts: list[str]
    others: list[str]

    @property
    def present(self) -> list[Modality]:
        """The modalities that the table has columns for."""
        there = {"image": self.file, "text": self.texts, "features": self.others}
        return [name for name in MODALITIES if there[name]]


def modalities(cells: Cells, said: MixedFields, path: Path) -> Modalities:
    """Judge the columns by the cells of the training rows.

    Args:
        cells: By column, of those that are not the target or the like.
        said: What the user says.
        path: The table, for messages.

    Raises:
        UserError: A column that is named does not exist, or several could be of files.
    """
    for option, names in {"file": filter(None, [said.file]), "texts": said.texts}.items():
        for name in names:
            if name not in cells:
                raise UserError(
                    f"--data.columns.{option} names {name!r}; the columns of {path} that are not "
                    f"the target or the like are {list(cells)}."
                )
    free = [name for name in cells if name not in (*said.ignored, *said.numbers, *said.categories)]
    files = [said.file] if said.file else [name for name in free if _holds_files(name, cells[name])]
    if len(files) > 1:
        raise UserError(
            f"{path}: the columns {files} could each hold image files. Say which: "
            f"--data.columns.file {files[0]!r}; the others can be named in --data.columns.ignored."
        )
    texts = list(said.texts) or [n for n in free if n not in files and _is_text(cells[n])]
    others = [n for n in cells if n not in (*files, *texts, *said.ignored)]
    return Modalities(files[0] if files else None, texts, others)


def texts_of(cells: Cells, columns: list[str]) -> list[str]:
    """The texts of each row, one after another."""
    rows = zip(*(cells[name] for name in columns), strict=True)
    return [" ".join(filter(None, (cell.strip() for cell in row))) for row in rows]


@dataclass
class FilesOfRows:
    """Where the images of a table's rows are.

    Args:
        names: Files below the root.
        number: For each row that of its file, or `NO_IMAGE`, or why there is none: int64 [N].
        findings: What is wrong or worth knowing.
    """

    names: list[str]
    number: np.ndarray
    findings: list[Finding] = field(default_factory=list)

    @property
    def wrong(self) -> np.ndarray:
        """Rows that name a file that is not there: bool [N]."""
        return (self.number == MISSING) | (self.number == AMBIGUOUS)


def files_of(rows: Rows, column: str, root: Path) -> FilesOfRows:
    """Find the image of each row."""
    finder = Finder(root, listed(root).names, rows.table.path.parent)
    cells = rows.cells[column]
    number = np.array(
        [finder.find(cell) if cell.strip() else NO_IMAGE for cell in cells], dtype=np.int64
    )
    findings = []
    titles = {
        MISSING: "rows whose file does not exist", AMBIGUOUS: "rows that fit several files",
    }  # fmt: skip
    for code, title in titles.items():
        items = [(cells[row], rows.names[row]) for row in np.flatnonzero(number == code)]
        if items:
            advice = "Mend them, or leave them out: --data.on_bad skip."
            findings.append(Finding("error", title, items, advice, skippable=True))
    blank = [(rows.names[row], "") for row in np.flatnonzero(number == NO_IMAGE)]
    if blank:
        advice = "They are trained on with an even, grey one."
        findings.append(Finding("note", "rows without an image", blank, advice))
    return FilesOfRows(finder.names, number, findings)


def _holds_files(name: str, cells: list[str]) -> bool:
    filled = [cell for cell in cells if cell.strip()]
    ending = sum(Path(cell.strip().lower()).suffix in ENDINGS for cell in filled)
    return 2 * ending > len(filled) or (plain(name) in USUAL["file"] and not are_categories(cells))


def _is_text(cells: list[str]) -> bool:
    """Whether cells hardly repeat, or say many different things in several words each."""
    if are_numbers(cells, numbers(cells)):
        return False
    different = {cell.strip() for cell in cells if cell.strip()}
    words = sum(len(cell.split()) for cell in different)
    in_words = len(different) > _MANY and words > 2 * len(different)
    return in_words or not are_categories(cells)
