"""Boxes as people have them written down: a flat table, Pascal VOC's xml files, COCO's json."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from project.data.columns import Columns, chosen
from project.data.splits import stated
from project.data.tables import Table, read_table
from project.errors import UserError
from project.findings import Finding

CORNERS = {
    "xmin": ("xmin", "x1", "left", "bboxx1", "boxxmin"),
    "ymin": ("ymin", "y1", "top", "bboxy1", "boxymin"),
    "xmax": ("xmax", "x2", "right", "bboxx2", "boxxmax"),
    "ymax": ("ymax", "y2", "bottom", "bboxy2", "boxymax"),
}
"""Names by which a column of corners is known, in lower case without other signs."""


class Row(NamedTuple):
    """One box, or one image without any.

    Args:
        file: As written.
        label: As written; blank for an image without a box.
        corners: Left, top, right, bottom, as written; None for an image without a box.
        split: train, val, test, or blank.
        where: What to call it in a message: the file, and the line or the number in it.
    """

    file: str
    label: str
    corners: Sequence[Any] | None
    split: str
    where: str


def read_boxes(path: Path, columns: Columns) -> tuple[list[Row], list[Finding]]:
    """All boxes that a table, a folder of xml files or a json file holds.

    Args:
        path: Of the table, the folder, the json.
        columns: How a table is read.

    Raises:
        UserError: It can't be read, or is none of these.
    """
    if path.is_dir():
        return _of_voc(path)
    if path.suffix.lower() == ".json":
        return _of_coco(path)
    return _of_table(read_table(path, sheet=columns.sheet), columns)


def _of_table(table: Table, columns: Columns) -> tuple[list[Row], list[Finding]]:
    names = chosen(table, columns)
    cells = {role: table.column(name) for role, name in names.items()}
    corners = [table.column(_corner(table, which)) for which in CORNERS]
    lines = table.lines
    splits = [""] * len(lines)
    if "split" in cells:
        splits = stated(cells["split"], lines, table.path)
    rows = []
    for position, line in enumerate(lines):
        values = tuple(column[position].strip() for column in corners)
        label = cells["label"][position].strip()
        none = not label and not any(values)
        rows.append(
            Row(
                cells["file"][position],
                label,
                None if none else values,
                splits[position],
                f"{table.path.name} line {line}",
            )
        )
    return rows, [Finding("note", note) for note in table.notes]


def _corner(table: Table, which: str) -> str:
    usual = CORNERS[which]
    fitting = [n for n in table.columns if re.sub(r"[\W_]+", "", n.lower()) in usual]
    if len(fitting) != 1:
        raise UserError(
            f"{table.path} needs one column for {which} (or {', '.join(usual[1:3])}), in pixels, "
            f"and has {fitting or 'none'}; found {', '.join(filter(None, table.columns))}."
        )
    return fitting[0]


def _of_voc(folder: Path) -> tuple[list[Row], list[Finding]]:
    files = sorted(folder.rglob("*.xml"))
    if not files:
        raise UserError(f"There is no .xml file below {folder}. --data.boxes is a table, a json, "
                        "or the folder of Pascal VOC's xml files.")  # fmt: skip
    rows, difficult = [], []
    for file in files:
        try:
            root = ElementTree.parse(file).getroot()
        except (ElementTree.ParseError, UnicodeDecodeError) as error:
            raise UserError(f"{file} is no xml: {error}. Mend it, or take it away.") from error
        image = (root.findtext("filename") or file.stem).strip()
        objects = root.findall("object")
        for number, each in enumerate(objects, 1):
            where = f"{file.name} object {number}"
            corners = tuple((each.findtext(f"bndbox/{which}") or "").strip() for which in CORNERS)
            label = (each.findtext("name") or "").strip()
            rows.append(Row(image, label, corners, "", where))
            if (each.findtext("difficult") or "0").strip() == "1":
                difficult.append((image, where))
        if not objects:
            rows.append(Row(image, "", None, "", file.name))
    findings = []
    if difficult:
        findings.append(Finding("note", "boxes called difficult count like others", difficult))
    return rows, findings


def _of_coco(path: Path) -> tuple[list[Row], list[Finding]]:
    try:
        content = json.loads(path.read_text("utf-8"))
        images = {each["id"]: str(each["file_name"]) for each in content["images"]}
        classes = {each["id"]: str(each["name"]) for each in content["categories"]}
        found = [
            (each.get("id", number), each["image_id"], each["category_id"], each["bbox"],
             bool(each.get("iscrowd")))
            for number, each in enumerate(content["annotations"])
        ]  # fmt: skip
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{path} is not COCO's json: {type(error).__name__} {error}. It has images (id, "
            "file_name), categories (id, name) and annotations (image_id, category_id, bbox)."
        ) from error
    rows, crowds = [], []
    for name, image, kind, box, crowd in found:
        where = f"{path.name} annotation {name}"
        if image not in images or kind not in classes:
            raise UserError(f"{where} is of image {image} and category {kind}; one is not listed.")
        if crowd:
            crowds.append((images[image], where))
            continue
        rows.append(Row(images[image], classes[kind], _from_sides(box), "", where))
    with_boxes = {row.file for row in rows}
    rows += [Row(n, "", None, "", path.name) for n in images.values() if n not in with_boxes]
    findings = []
    if crowds:
        findings.append(Finding("note", "boxes of crowds are not used", crowds))
    return rows, findings


def _from_sides(box: Any) -> Sequence[Any]:
    """Corners of COCO's left, top, width, height; what is no box is kept, to be told as such."""
    try:
        left, top, width, height = (float(each) for each in box)
    except (TypeError, ValueError):
        return (box, "", "", "")
    return left, top, left + width, top + height
