"""What a well-known error means here: the likely cause with names and values, and what to do.

All is read from the traceback's frames: they still hold the module that was called, its inputs and
the batch. Nothing is run again.
"""

from project.doctor.illnesses import ILLNESSES
from project.doctor.scene import Scene

DOCS = "docs/checks.md"


def diagnosis(error: BaseException) -> tuple[str, str] | None:
    """The likely cause of a well-known error, and what to do about it; None on others."""
    scene = Scene(error)
    for illness in ILLNESSES:
        if illness.pattern.search(scene.words):
            return illness.cause(scene), f"{illness.advice} [{illness.practice}, {DOCS}]"
    return None


def explain(error: BaseException) -> str | None:
    """A paragraph on a well-known error: likely cause, what to do, practice; None on others."""
    found = diagnosis(error)
    return " ".join(found) if found else None


def described(error: BaseException) -> tuple[str, str]:
    """The same of any error: of one that is not well known its first line, and no advice."""
    scene = Scene(error)
    first = scene.words.strip().splitlines()[0].rstrip(".")
    return diagnosis(error) or (f"{first} ({scene.where})" if scene.where else first, "")


__all__ = ["ILLNESSES", "Scene", "described", "diagnosis", "explain"]
