"""What a person sees of a command, and what is kept from them."""

import logging
import os
import re
import shutil
import sys
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from project import runs

NOISE = (
    ".*does not have many workers.*",  # the loader's settings are ours, and measured
    ".*The number of training batches.*logging interval.*",  # metrics are logged per epoch anyway
    ".*was deprecated in v4.*",  # inside Lightning's command line, which asks for jsonargparse < 5
    ".*JSONARGPARSE_DEPRECATION_WARNINGS.*",
    ".*isinstance.treespec, LeafSpec.*",  # inside Lightning
)
"""Warnings of the frameworks that ask nothing of the user."""


def own_words(text: str) -> str:
    """A mistake's message without the worker's traceback that torch puts around it."""
    if not text.startswith("Caught "):
        return text
    return re.split(r"\n[\w.]+: ", text)[-1].strip()


def python() -> str:
    """This interpreter, as it would be typed here."""
    found = shutil.which("python")
    if found and Path(found).samefile(sys.executable):
        return "python"
    path = os.path.relpath(sys.executable)
    return sys.executable if path.startswith("..") else path


def listed(values: dict[str, float]) -> str:
    """Names and numbers on one line."""
    return "  ".join(f"{name} {value:.4g}" for name, value in values.items())


def say(line: str) -> None:
    """Print for a person; of several processes only the first speaks."""
    if runs.is_first_process():
        print(line, file=sys.stderr, flush=True)


def say_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """In the place of Python's own, which shows a line of somebody else's code."""
    say(f"warning: {message}")


@contextmanager
def quiet() -> Generator[None]:
    """Keep the frameworks' advertisements and known noise off the screen."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    with warnings.catch_warnings():
        for noise in NOISE:
            warnings.filterwarnings("ignore", noise)
        warnings.showwarning = say_warning  # ty: ignore[invalid-assignment]
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
