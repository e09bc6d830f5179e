"""Which column of a label table holds what."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from project.data.tables import Table
from project.errors import UserError, suggestion

USUAL = {
    "file": (
        "file", "files", "filename", "filepath", "path", "image", "images", "imagefile",
        "imagefilename", "imagename", "imagepath", "img", "imgname", "imgpath", "imageid", "photo",
        "picture",
    ),
    "label": (
        "label", "labels", "class", "classes", "classname", "classid", "classlabel", "category",
        "categoryname", "categoryid", "target", "y",
    ),
    "mask": (
        "mask", "masks", "maskfile", "maskfilename", "maskname", "maskpath", "segmentation",
    ),
    "split": ("split", "subset", "partition", "set"),
    "group": ("group", "groups", "groupid", "patient", "patientid", "subject", "subjectid"),
    "text": ("text", "texts", "sentence", "sentences", "utterance", "review", "comment", "message"),
}  # fmt: skip
"""Names by which a column is known for what it holds, in lower case without other signs."""

_LOOKS_LIKE_A_FILE = re.compile(r".+\.(jpe?g|png|webp|bmp|gif|tiff?)$", re.IGNORECASE)


@dataclass
class Columns:
    """How a label table is read. A column that is not named is found by the usual names.

    Args:
        file: The column of image files: paths from `root` or from the table's folder; endings and
            leading folders may be missing where only one file fits.
        label: The column of class names, as text.
        mask: The column of mask files, for data that have such: paths from the table's folder.
        split: The column that says train, val or test.
        group: The column of what must not be divided between splits, such as a patient.
        text: The column of texts, for data that have such.
        sheet: The sheet of an Excel workbook; None takes the first that is not empty.
        unlabelled: Labels that mean that there is none. Blank cells always do.
        merge_similar: Make one class of labels that differ only in case or in blanks, such as
            `Dress` and `dress `, named as most write it; otherwise they are an error.
        separator: What stands between several labels in a cell, such as `|`, for the task
            `MultiLabel`; a cell with nothing else says that none applies. None takes a cell for one
            label.
    """

    file: str | None = None
    label: str | None = None
    mask: str | None = None
    split: str | None = None
    group: str | None = None
    text: str | None = None
    sheet: str | None = None
    unlabelled: tuple[str, ...] = ()
    merge_similar: bool = False
    separator: str | None = None


def chosen(
    table: Table, columns: Columns, needed: Sequence[str] = ("file", "label")
) -> dict[str, str]:
    """The name of the column for each role that is needed and, where there are such, the others.

    Args:
        table: The table.
        columns: What the user says of it.
        needed: Roles that must be found; `split` and `group` are looked for as well.

    Raises:
        UserError: A named column does not exist, one that is needed isn't found, or several could
            be meant.
    """
    found: dict[str, str] = {}
    for role in (*needed, "split", "group"):
        usual = USUAL[role]
        named = getattr(columns, role)
        if named is not None:
            found[role] = _named(table, role, named)
            continue
        fitting = [name for name in table.columns if plain(name) in usual]
        if len(fitting) > 1:
            raise UserError(
                f"{table.path}: the columns {fitting} could each hold the {role}. Say which: "
                f"--data.columns.{role} {fitting[0]!r}."
            )
        if fitting:
            found[role] = fitting[0]
    for role in needed:
        if role not in found:
            raise _missing(table, role)
    return found


def _named(table: Table, role: str, name: str) -> str:
    if name not in table.columns:
        raise UserError(
            f"--data.columns.{role} is {name!r}, and {table.path} has no such column."
            + suggestion(name, [each for each in table.columns if each])
        )
    return name


def _missing(table: Table, role: str) -> UserError:
    columns, path = [name for name in table.columns if name], table.path
    if any(_LOOKS_LIKE_A_FILE.match(PurePath(name).name) for name in columns):
        return UserError(
            f"{path} has no header: its first line is {', '.join(columns)}. Put a line such as "
            "file,label in front."
        )
    hint = ""
    if role == "label" and _is_one_hot(table):
        hint = (
            " It looks like one column of 0 and 1 per class; write the name of the class into one "
            "column instead."
        )
    return UserError(
        f"{path}: no column is known to hold the {role}; found {', '.join(columns)}. Name it: "
        f"--data.columns.{role} {columns[-1 if role == 'label' else 0]!r}.{hint}"
    )


def _is_one_hot(table: Table) -> bool:
    cells = ([cell.strip() for cell in table.column(name)] for name in table.columns if name)
    return sum(set(column) <= {"0", "1"} for column in cells) > 1


def plain(name: str) -> str:
    """A column's name in lower case, without blanks and signs."""
    return re.sub(r"[\W_]+", "", name.lower())
