"""What is wrong with the images themselves: their files are opened, and as time allows decoded."""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import numpy as np

from project.data.decoding import Header, Unreadable, decode, header
from project.data.index import Index
from project.data.labels import written
from project.data.loader import available_cpus
from project.findings import Finding, Severity, as_plain, from_plain

SECONDS = 5.0
"""What `fit` spends on looking; the rest is `check`'s."""

FOLDER = Path.home() / ".cache" / "project" / "audit"
"""Where `remembered` writes. What lies there can be deleted at any time."""

TINY = 8  # pixels of the shorter side
ELONGATED = 8  # times as long as wide
_CHUNK = 64
_ENDINGS = {
    "JPEG": {".jpg", ".jpeg", ".jpe", ".jfif"}, "PNG": {".png"}, "GIF": {".gif"},
    "BMP": {".bmp", ".dib"}, "WEBP": {".webp"}, "TIFF": {".tif", ".tiff"},
}  # fmt: skip

KINDS: dict[str, tuple[Severity, str, str]] = {
    "unreadable": ("error", "images that can't be read",
                   "Replace them, or leave them out: --data.on_bad skip."),
    "disagree": ("error", "images with the same content and different labels",
                 "Mend the labels, or leave them out: --data.on_bad skip."),
    "leak": ("error", "images with the same content in several splits",
             "Keep one of each; --data.on_bad skip keeps that of test, else that of val."),
    "copy": ("warning", "images with the same content in one split", "They count several times."),
    "tiny": ("warning", f"images of less than {TINY} pixels on a side", ""),
    "elongated": ("warning", f"images over {ELONGATED} times as long as wide",
                  "Little is left of them at the network's size."),
    "frames": ("warning", "images of several frames or pages", "The first one is used."),
    "ending": ("warning", "files named unlike their content", "They are read by their content."),
    "grey": ("note", "grey images", "All three channels are made equal."),
    "bits": ("note", "images of more than 8 bits", "They are scaled to 8."),
    "transparent": ("note", "images with transparent parts", "They are laid on white."),
    "CMYK": ("note", "images in CMYK", "They are converted to RGB without a colour profile."),
    "turned": ("note", "images with an EXIF orientation", "They are turned upright."),
}  # fmt: skip
"""By their code: how bad, what it is, what to do."""

_LEFT_OUT = {"unreadable", "disagree", "leak"}
_LAST = ("train", "val", "test")  # of copies, that of the last split is kept

Problem = tuple[int, str, str]
"""Number of the image, code, detail."""


@dataclass
class Report:
    """What was found.

    Args:
        findings: All of it.
        left_out: Images that training can't or must not use: bool [N].
    """

    findings: list[Finding] = field(default_factory=list)
    left_out: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))


def audit(index: Index, *, seconds: float | None) -> Report:
    """Look at all images, first at their headers, then for copies, then at their pixels.

    Args:
        index: The images.
        seconds: When to stop; what was not looked at is then among the findings. None looks at all.
    """
    until = time.monotonic() + seconds if seconds is not None else None
    paths = [index.root / name for name in index.names.tolist()]
    order = np.random.default_rng(0).permutation(len(paths)).tolist()  # a fair sample, if it is one
    problems, opened = _looked_at(_header_problems, paths, order, until)
    copies, compared = _copies(paths, order, until)
    problems += _copy_problems(index, copies)
    broken = {number for number, code, _ in problems if code == "unreadable"}
    rest = [number for number in order if number not in broken]
    more, decoded = _looked_at(_pixel_problems, paths, rest, until)
    problems += more
    findings = _findings(index, problems)
    unseen = {"opened": len(paths) - opened, "compared with others": len(paths) - compared,
              "decoded": len(rest) - decoded}  # fmt: skip
    told = ", ".join(f"{count:,} {what}" for what, count in unseen.items() if count)
    if told:
        findings.append(
            Finding("note", f"after {seconds:g} s of looking, of {len(paths):,} images not: {told}",
                    advice="python -m project check, with the same options, looks at all.")
        )  # fmt: skip
    return Report(findings, _left_out(index, problems))


def remembered(index: Index) -> Report:
    """As `audit` of all images; as long as no file changes, they are looked at only once."""
    file = FOLDER / f"{_fingerprint(index)}.json"
    if file.is_file():
        known = json.loads(file.read_text("utf-8"))
        left_out = np.isin(np.arange(len(index.names)), known["left_out"])
        return Report(from_plain(known["findings"]), left_out)
    report = audit(index, seconds=None)
    known = {
        "left_out": np.flatnonzero(report.left_out).tolist(),
        "findings": as_plain(report.findings),
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps(known), encoding="utf-8")
    temporary.replace(file)
    return report


def _fingerprint(index: Index) -> str:
    """Changes with any file's size or time, with a label, with a split."""
    digest = hashlib.blake2b(str(index.root).encode(), digest_size=12)
    for name in index.names.tolist():
        status = (index.root / name).stat()
        digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    digest.update(index.target.tobytes() + index.split.tobytes())
    return digest.hexdigest()


def _looked_at(
    look: Callable[[Path], list[tuple[str, str]]],
    paths: list[Path],
    order: list[int],
    until: float | None,
) -> tuple[list[Problem], int]:
    """What a look at each file finds, and how many were looked at before the time was up."""
    problems: list[Problem] = []
    done = 0
    with ThreadPoolExecutor(available_cpus()) as pool:  # decoding leaves the interpreter's lock
        for numbers in _in_time(order, until):
            for number, found in zip(
                numbers, pool.map(look, [paths[n] for n in numbers]), strict=True
            ):
                problems += [(number, code, detail) for code, detail in found]
            done += len(numbers)
    return problems, done


def _in_time(order: list[int], until: float | None) -> Iterator[list[int]]:
    for start in range(0, len(order), _CHUNK):
        if until is not None and time.monotonic() > until:
            return
        yield order[start : start + _CHUNK]


def _pixel_problems(path: Path) -> list[tuple[str, str]]:
    try:
        decode(path)
    except Unreadable as error:
        return [("unreadable", _reason(error, path))]
    return []


def _header_problems(path: Path) -> list[tuple[str, str]]:
    try:
        found = header(path)
    except Unreadable as error:
        return [("unreadable", _reason(error, path))]
    ending = PurePosixPath(path.name).suffix.lower()
    short, long = sorted((found.height, found.width))
    size = f"{found.width} x {found.height}"
    tests = {
        "ending": (ending not in _ENDINGS.get(found.format, {ending}), found.format),
        "tiny": (short < TINY, size),
        "elongated": (long > ELONGATED * short, size),
        "frames": (found.frames > 1, f"{found.frames}"),
        "turned": (found.orientation != 1, f"{found.orientation}"),
        **_mode_tests(found),
    }
    return [(code, detail) for code, (applies, detail) in tests.items() if applies]


def _mode_tests(found: Header) -> dict[str, tuple[bool, str]]:
    deep = found.mode == "F" or found.mode.startswith("I")
    return {
        "grey": (found.mode in ("1", "L", "LA"), found.mode),
        "bits": (deep, found.mode),
        "transparent": (found.transparent, found.mode),
        "CMYK": (found.mode == "CMYK", ""),
    }


def _reason(error: Unreadable, path: Path) -> str:
    """The part of the message that differs from file to file."""
    text = str(error).replace(f"{path} can't be read as a picture: ", "")
    return text.partition(". Replace")[0]


def _copies(
    paths: list[Path], order: list[int], until: float | None
) -> tuple[list[list[int]], int]:
    """Files of the same bytes; only files of the same size are read."""
    by_size: dict[int, list[int]] = {}
    for number, path in enumerate(paths):
        if path.is_file():
            by_size.setdefault(path.stat().st_size, []).append(number)
    alike = {number for group in by_size.values() if len(group) > 1 for number in group}
    queue = [number for number in order if number in alike]
    digests: dict[bytes, list[int]] = {}
    done = len(paths) - len(queue)
    with ThreadPoolExecutor(available_cpus()) as pool:
        for numbers in _in_time(queue, until):
            found = pool.map(_digest, [paths[n] for n in numbers])
            for number, digest in zip(numbers, found, strict=True):
                digests.setdefault(digest, []).append(number)
            done += len(numbers)
    return [sorted(group) for group in digests.values() if len(group) > 1], done


def _digest(path: Path) -> bytes:
    return hashlib.blake2b(path.read_bytes(), digest_size=16).digest()


def _copy_problems(index: Index, copies: list[list[int]]) -> list[Problem]:
    problems: list[Problem] = []
    for group in copies:
        splits = {str(index.split[number]) for number in group}
        labels = {written(index.target[number], index.class_names) for number in group}
        code = "disagree" if len(labels) > 1 else "leak" if len(splits) > 1 else "copy"
        for number in group:
            label = written(index.target[number], index.class_names)
            other = next(other for other in group if other != number)
            detail = f"{index.split[number]}, {label}; as {index.names[other]}"
            kept = code == "leak" and index.split[number] == max(splits, key=_LAST.index)
            problems.append((number, "kept" if kept else code, detail))
    return problems


def _findings(index: Index, problems: list[Problem]) -> list[Finding]:
    findings = []
    for code, (severity, title, advice) in KINDS.items():
        found = sorted((number, detail) for number, kind, detail in problems if kind == code)
        items = [(str(index.names[number]), detail) for number, detail in found]
        if items:
            findings.append(Finding(severity, title, items, advice, skippable=severity == "error"))
    return findings


def _left_out(index: Index, problems: list[Problem]) -> np.ndarray:
    """Unreadable images, those of unclear label, and copies of what is evaluated on."""
    numbers = [number for number, code, _ in problems if code in _LEFT_OUT]
    return np.isin(np.arange(len(index.names)), numbers)
