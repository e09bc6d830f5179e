"""Which mask belongs to which image: by their names, or by a table."""

from pathlib import Path, PurePosixPath

import numpy as np

from project.data.columns import Columns, chosen
from project.data.folders import by_folders, listed, text_array
from project.data.index import Index
from project.data.matching import Finder
from project.data.splits import Splits, divided, stated
from project.data.tables import read_table
from project.errors import UserError
from project.findings import Finding, skippable

SUFFIXES = ("", "_mask", "-mask", "_masks", "_label", "_labels", "_seg", "_segmentation", "_gt",
            "_labelids", "_annotation")  # fmt: skip
"""What may stand behind an image's name in that of its mask."""


def paired(root: Path, source: Path, columns: Columns, splits: Splits) -> tuple[Index, list[Path]]:
    """The images that have a mask, and the mask of each.

    Args:
        root: Folder of the images.
        source: Folder of the masks, or a table.
        columns: How a table is read.
        splits: How images are divided where the data don't say.

    Raises:
        UserError: No image has a mask.
    """
    if source.is_dir():
        pairs, said, findings = _by_names(root, source)
    else:
        pairs, said, findings = _by_table(root, source, columns)
    if not pairs:
        raise UserError(
            f"No image below {root} has a mask in {source}. A mask is called as its image but for "
            f"the ending and one of {', '.join(SUFFIXES[1:])}; else give --data.masks a table of "
            "file and mask."
        )
    names = sorted(pairs)
    if not said:
        files = listed(root)
        of_folder = dict(zip(files.names, by_folders(files)[1], strict=True))
        said = {name: of_folder.get(name, "") for name in names}
    none = np.zeros(len(names), dtype=np.int64)
    split = divided(names, none, splits, stated=[said[name] for name in names])
    told = ", ".join(f"{n} {int((split == n).sum()):,}" for n in ("train", "val", "test"))
    findings.append(Finding("note", f"images: {told}"))
    index = Index(root, text_array(names), none, split, ["any"], {}, findings)
    return index, [pairs[name] for name in names]


Pairs = tuple[dict[str, Path], dict[str, str], list[Finding]]
"""The mask by the image's name, the split by the same where stated, and what was found."""


def _by_names(root: Path, source: Path) -> Pairs:
    masks: dict[str, list[str]] = {}
    for name in listed(source).names:
        masks.setdefault(_stem(name), []).append(name)
    within = source.resolve().is_relative_to(root.resolve())
    images = [
        name for name in listed(root).names
        if not (within and (root / name).resolve().is_relative_to(source.resolve()))
    ]  # fmt: skip
    pairs: dict[str, Path] = {}
    for name in images:
        fitting = [each for suffix in SUFFIXES for each in masks.get(_stem(name) + suffix, ())]
        if fitting:
            pairs[name] = source / fitting[0]
    used = {str(path) for path in pairs.values()}
    idle = [n for of_stem in masks.values() for n in of_stem if str(source / n) not in used]
    findings = []
    for title, items in {
        "images without a mask": [name for name in images if name not in pairs],
        "masks without an image": idle,
    }.items():
        if items:
            findings.append(skippable(title, [(name, "") for name in sorted(items)]))
    return pairs, {}, findings


def _stem(name: str) -> str:
    """The path without its ending, as both are compared."""
    return str(PurePosixPath(name).with_suffix("")).lower()


def _by_table(root: Path, source: Path, columns: Columns) -> Pairs:
    table = read_table(source, sheet=columns.sheet)
    names = chosen(table, columns, needed=("file", "mask"))
    cells = {role: table.column(name) for role, name in names.items()}
    images = Finder(root, listed(root).names, source.parent)
    masks = Finder(source.parent, listed(source.parent).names, source.parent)
    said = [""] * len(table.lines)
    if "split" in cells:
        said = stated(cells["split"], table.lines, table.path)
    pairs: dict[str, Path] = {}
    splits: dict[str, str] = {}
    lost: list[tuple[str, str]] = []
    for row, line in enumerate(table.lines):
        image, mask = images.find(cells["file"][row]), masks.find(cells["mask"][row])
        where = f"{source.name} line {line}"
        for number, role in ((image, "file"), (mask, "mask")):
            if number < 0:
                lost.append((cells[role][row], where))
        if image >= 0 and mask >= 0:
            pairs[images.names[image]] = source.parent / masks.names[mask]
            splits[images.names[image]] = said[row]
    findings = [Finding("note", note) for note in table.notes]
    if lost:
        findings.append(skippable("files that do not exist", lost))
    return pairs, splits if any(said) else {}, findings
