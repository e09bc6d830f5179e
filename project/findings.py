"""What a check finds: told in a line each, listed in full in a table.

Nothing here imports torch. Whatever looks at something before training (the data, the model)
returns findings; who asked decides what to do about them.
"""

import csv
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from project.errors import UserError

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""The gravest first. An error stops the training, a warning should be looked at."""

_SHOWN = 3


@dataclass(frozen=True)
class Finding:
    """One kind of thing that was found, with everything it concerns.

    Args:
        severity: How bad it is.
        title: What it is, without a number: `no such file`.
        items: What it concerns, such as files, each with a detail that may be empty.
        advice: What to do about it.
        skippable: An error that is over once its items are left out.
    """

    severity: Severity
    title: str
    items: list[tuple[str, str]] = field(default_factory=list)
    advice: str = ""
    skippable: bool = False

    def line(self, *, skip: bool = False) -> str:
        """All in one line, with the first items; `skip` says that they are left out."""
        advice = "Left out." if skip and self.skippable else self.advice
        number = f" ({len(self.items):,})" if len(self.items) > 1 else ""
        return f"{self.title}{number}{self._examples()}.{advice and ' ' + advice}"

    def _examples(self) -> str:
        shown = [f"{name}{detail and f' ({detail})'}" for name, detail in self.items[:_SHOWN]]
        more = ", …" if len(self.items) > _SHOWN else ""
        return f": {', '.join(shown)}{more}" if shown else ""


def skippable(title: str, items: list[tuple[str, str]]) -> Finding:
    """An error that is over once its items are left out.

    Args:
        title: What it is.
        items: Which files or rows, each with a detail.
    """
    advice = "Mend them, or leave them out: --data.on_bad skip."
    return Finding("error", title, items, advice, skippable=True)


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """The gravest first, else in the order in which they were found."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


def report(findings: Iterable[Finding]) -> str:
    """A table for the screen: how bad, how many, what, the first ones, what to do."""
    lines = []
    for each in ordered(findings):
        number = f"{len(each.items):,}" if each.items else ""
        lines.append(f"{each.severity:8} {number:>7}  {each.title}")
        for name, detail in each.items[:_SHOWN]:
            lines.append(f"{'':18}{name}{detail and f' ({detail})'}")
        if len(each.items) > _SHOWN:
            lines.append(f"{'':18}…")
        if each.advice:
            lines.append(f"{'':16}→ {each.advice}")
    return "\n".join(lines)


def say(findings: Iterable[Finding], *, skip: bool) -> None:
    """One line for each that does not stop the run; the others are told by what stops it.

    Args:
        findings: What was found.
        skip: Whether what is wrong is left out.
    """
    for each in ordered(findings):
        if each.severity != "error" or (skip and each.skippable):
            kind = "skipped" if each.severity == "error" else each.severity
            print(f"{kind}: {each.line(skip=skip)}", file=sys.stderr)


def summary(findings: Iterable[Finding]) -> str:
    """How many there are of each severity."""
    found = [each.severity for each in findings]
    counts = [f"{found.count(s)} {s}{'' if found.count(s) == 1 else 's'}" for s in SEVERITIES]
    return ", ".join(counts)


def write(findings: Iterable[Finding], path: Path, *, skip: bool = False) -> None:
    """Every item of every finding as a CSV table.

    Args:
        findings: What was found.
        path: The file; its directory is made.
        skip: Whether the items of skippable errors are left out; the last column says so.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["severity", "finding", "item", "detail", "left_out"])
        for each in ordered(findings):
            left_out = "yes" if skip and each.skippable else "no"
            for name, detail in each.items or [("", "")]:
                writer.writerow([each.severity, each.title, name, detail, left_out])


def refuse(findings: Iterable[Finding], *, skip: bool, hint: str = "") -> None:
    """Stop if there are errors.

    Args:
        findings: What was found.
        skip: Let pass what is over once its items are left out.
        hint: What to do about all of them, at the end of the message.

    Raises:
        UserError: There are errors; it names each with its first items.
    """
    errors = [each for each in findings if each.severity == "error"]
    errors = [each for each in errors if not (skip and each.skippable)]
    if errors:
        lines = ["The data can't be used as they are:", *(f"- {each.line()}" for each in errors)]
        raise UserError("\n".join([*lines, *filter(None, [hint])]))


def as_plain(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Findings as JSON has them, to be made again by `from_plain`."""
    return [vars(each) for each in findings]


def from_plain(plain: list[dict[str, Any]]) -> list[Finding]:
    """What `as_plain` was made of."""
    items = [[(name, detail) for name, detail in each["items"]] for each in plain]
    return [
        Finding(each["severity"], each["title"], pairs, each["advice"], each["skippable"])
        for each, pairs in zip(plain, items, strict=True)
    ]
