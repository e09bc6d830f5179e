"""Files below a folder, such as images, and what their folders say about them."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import numpy as np

from project.errors import UserError
from project.findings import Finding
from project.runs import project_root

ENDINGS = {
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".dib", ".gif", ".tif", ".tiff",
    ".ppm", ".pgm", ".pbm", ".avif",
}  # fmt: skip
"""Endings of image files, in lower case."""

SPLIT_FOLDERS = {
    "train": "train", "training": "train",
    "val": "val", "valid": "val", "validation": "val", "dev": "val",
    "test": "test", "testing": "test",
}  # fmt: skip
"""What a split may be called, in lower case."""

_JUNK = {"thumbs.db", "desktop.ini", "__macosx"}  # as is all that begins with a dot
_SIGNATURES = {
    b"\xff\xd8\xff": "JPEG", b"\x89PNG\r\n\x1a\n": "PNG", b"GIF8": "GIF", b"BM": "BMP",
    b"II*\0": "TIFF", b"MM\0*": "TIFF",
}  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """What is looked for below a folder.

    Args:
        what: What one is called.
        endings: Of its files, in lower case.
        by_content: Take files without an ending for such as well if their first bytes say so.
    """

    what: str
    endings: frozenset[str]
    by_content: bool = False


IMAGES = Kind("image", frozenset(ENDINGS), by_content=True)


@dataclass
class Files:
    """Files of one kind below a folder.

    Args:
        root: The folder.
        names: Paths from it, with `/`, sorted.
        folders: All folders below it, empty ones too.
        ignored: What was not taken for one, and why.
        kind: What they are.
    """

    root: Path
    names: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    ignored: list[tuple[str, str]] = field(default_factory=list)
    kind: Kind = IMAGES

    def findings(self) -> list[Finding]:
        """What was ignored, by the reason."""
        kinds = dict.fromkeys(why for _, why in self.ignored)
        return [
            Finding("note", why, [(name, "") for name, reason in self.ignored if reason == why])
            for why in kinds
        ]


def located(name: str | Path, option: str) -> Path:
    """An existing path: from the working directory, else from the project's root.

    Args:
        name: As the user wrote it.
        option: Where, for the message.

    Raises:
        UserError: It is in neither; both places are named.
    """
    given = Path(name).expanduser()
    tried = list(dict.fromkeys(path.absolute() for path in (given, project_root() / given)))
    for path in tried:
        if path.exists():
            return path
    raise UserError(
        f"--{option} is {str(name)!r}, and there is no such place; tried "
        f"{' and '.join(map(str, tried))}."
    )


def listed(root: Path, kind: Kind = IMAGES) -> Files:
    """Find the files of a kind below a folder: by endings, or by content where there is none.

    Hidden files and what systems leave behind (`._*`, `Thumbs.db`, `__MACOSX`) are none.

    Raises:
        UserError: It is no folder.
    """
    if not root.is_dir():
        raise UserError(f"{root} is no folder. --data.root is the folder the {kind.what}s lie in.")
    files = Files(root, kind=kind)
    for name, entry in _walk(root, "", set()):
        ending = PurePosixPath(name).suffix.lower()
        if _is_junk(entry.name):
            files.ignored.append((name, "ignored: hidden files and leftovers of systems"))
        elif entry.is_dir():
            files.folders.append(name)
        elif ending in kind.endings or (kind.by_content and _is_image(entry.path, ending)):
            files.names.append(name)
        else:
            files.ignored.append((name, f"ignored: no {kind.what}s by their ending"))
    files.names.sort()
    return files


def _walk(
    folder: Path, prefix: str, seen: set[tuple[int, int]]
) -> Iterator[tuple[str, os.DirEntry]]:
    """Everything below a folder, links followed, but no folder twice."""
    status = folder.stat()
    if (status.st_dev, status.st_ino) in seen:
        return
    seen.add((status.st_dev, status.st_ino))
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda each: each.name):
            name = prefix + entry.name
            yield name, entry
            if entry.is_dir() and not _is_junk(entry.name):
                yield from _walk(Path(entry.path), f"{name}/", seen)


def _is_junk(name: str) -> bool:
    return name.startswith(".") or name.lower() in _JUNK


def _is_image(path: str, ending: str) -> bool:
    return not ending and signature(Path(path)) is not None


def signature(path: Path) -> str | None:
    """The format that a file's first bytes tell, as Pillow calls it; None for none we know."""
    with path.open("rb") as file:
        head = file.read(16)
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "WEBP"
    return next((kind for start, kind in _SIGNATURES.items() if head.startswith(start)), None)


def parts_below(names: list[str], folders: list[str]) -> tuple[int, bool]:
    """How many leading folders all names share, and whether the next one is the split.

    A shared folder is passed over only while something else is below it, and where no empty folder
    stands beside it: an empty class is a class that someone meant.
    """
    directories = {tuple(PurePosixPath(name).parts[:-1]) for name in names}
    beside = {PurePosixPath(folder).parts for folder in folders}
    depth = 0
    while True:
        here = {parts[depth] if len(parts) > depth else "" for parts in directories}
        siblings = {parts[depth] for parts in beside if len(parts) == depth + 1}
        if _are_splits(here - {""}):
            return depth, True
        deeper = all(len(parts) > depth + 1 for parts in directories)
        if len(here | siblings) != 1 or "" in here or not deeper:
            return depth, False
        depth += 1


def _are_splits(names: set[str]) -> bool:
    """Whether all are names of splits, train among them."""
    return "train" in {SPLIT_FOLDERS.get(name.lower()) for name in names} and all(
        name.lower() in SPLIT_FOLDERS for name in names
    )


def by_folders(files: Files) -> tuple[list[str], list[str], list[Finding]]:
    """The class and the split of every file, as its folders say; blank where they don't.

    The class is the first folder below the root (below the split's folder, if there are such);
    deeper ones divide a class further, which is of no importance here.
    """
    depth, has_splits = parts_below(files.names, files.folders)
    start = depth + has_splits
    labels, splits = [], []
    for name in files.names:
        parts = PurePosixPath(name).parts[:-1]
        in_split = has_splits and len(parts) > depth
        splits.append(SPLIT_FOLDERS[parts[depth].lower()] if in_split else "")
        labels.append(parts[start] if len(parts) > start else "")
    return labels, splits, _folder_findings(files, set(labels), start, has_splits)


def _folder_findings(files: Files, labels: set[str], start: int, has_splits: bool) -> list[Finding]:
    findings = []
    at_class = [PurePosixPath(folder).parts for folder in files.folders]
    names = {parts[start] for parts in at_class if len(parts) == start + 1}
    empty = sorted(names - labels)
    if empty:
        findings.append(
            Finding("warning", f"folder of a class without {files.kind.what}s",
                    [(n, "") for n in empty],
                    "It is not counted as a class.")
        )  # fmt: skip
    splits = sorted(n for n in labels if n.lower() in SPLIT_FOLDERS)
    if splits and not has_splits:
        findings.append(
            Finding("warning", "class called like a split", [(n, "") for n in splits],
                    "For splits by folder, all of the folders beside it must be splits, one of "
                    "them train.")
        )  # fmt: skip
    return findings


def text_array(values: list[str]) -> np.ndarray:
    """Text as an array of fixed width: one object, however many rows (D11)."""
    return np.array(values, dtype=np.str_) if values else np.zeros(0, dtype="U1")
