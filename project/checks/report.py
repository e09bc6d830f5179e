"""Runs the checks one after the other, and keeps what they came to."""

import csv
import json
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from project import doctor, findings
from project.checks.outcome import Outcome, counted, failed, skipped, table, warning
from project.checks.subject import Subject
from project.errors import UserError
from project.randomness import kept

SCHEMA = 1
"""Of check.json; it is raised when a key changes its meaning or goes."""


@dataclass(frozen=True)
class Check:
    """One thing that is looked at.

    Args:
        name: `group.thing`.
        look: Yields what it came to, one or more outcomes.
        practice: Its id in docs/practices.md.
        seconds: It is asked to stop after so long; infinite for what looks at everything.
        quick: Part of what `fit` runs.
        needs_forward: It makes no sense where two samples don't go through the network.
    """

    name: str
    look: Callable[[Subject], Iterable[Outcome]]
    practice: str
    seconds: float = 5.0
    quick: bool = False
    needs_forward: bool = False


@dataclass
class Report:
    """What the checks came to.

    Args:
        outcomes: In the order in which they were found.
        seconds: How long each check took, by its name.
        subject: What was looked at; it has the pictures and the numbers.
    """

    outcomes: list[Outcome]
    seconds: dict[str, float] = field(default_factory=dict)
    subject: Subject | None = None

    @property
    def has_failed(self) -> bool:
        """Whether anything would spoil the run."""
        return any(each.status == "failed" for each in self.outcomes)

    def alarms(self) -> list[Outcome]:
        """What failed and what warns."""
        return [each for each in self.outcomes if each.status in ("failed", "warning")]

    def text(self) -> str:
        """For the screen."""
        took = f"{sum(self.seconds.values()):.1f} s"
        return f"{table(self.outcomes)}\n{counted(self.outcomes)}, in {took}"

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "schema": SCHEMA,
            "failed": self.has_failed,
            "seconds": {name: round(seconds, 2) for name, seconds in self.seconds.items()},
            "checks": [each.plain() for each in self.outcomes],
            "facts": self.subject.facts if self.subject else {},
        }

    def write(self, folder: Path) -> None:
        """Write check.json, check.csv and, in `check/`, the pictures.

        Args:
            folder: The directory; it is made.
        """
        findings.write([each.finding() for each in self.outcomes], folder / "check.csv")
        facts = self.subject.facts if self.subject else {}
        if "layers" in facts:
            (folder / "check").mkdir(exist_ok=True)
            _write_rows(folder / "check" / "layers.csv", facts["layers"])
        content = json.dumps(self.plain(), indent=1, default=str)
        (folder / "check.json").write_text(content + "\n", encoding="utf-8")
        self.draw(folder)

    def draw(self, folder: Path) -> None:
        """Write the pictures to `check/` in a directory, which is made."""
        for name, figure in (self.subject.pictures if self.subject else {}).items():
            (folder / "check").mkdir(parents=True, exist_ok=True)
            figure.savefig(folder / "check" / f"{name}.png", dpi=100)


def _write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def run(subject: Subject, checks: Iterable[Check], seconds: float = 55.0) -> Report:
    """Run checks; all random generators are afterwards as before.

    Args:
        subject: What they look at.
        checks: In this order.
        seconds: For all of them together; what comes after that is skipped, and said to be.
    """
    report = Report([], subject=subject)
    end = time.monotonic() + seconds
    for check in checks:
        if subject.unusable:
            report.outcomes.append(skipped("the data can't be loaded").told_by("all others", ""))
            break
        began = time.monotonic()
        # no single check may take all of the time, where that is short
        subject.deadline = min(end, began + min(check.seconds, seconds / 4))
        with kept():
            outcomes = _outcomes(check, subject, began >= end)
        report.outcomes += [each.told_by(check.name, check.practice) for each in outcomes]
        report.seconds[check.name] = time.monotonic() - began
        if check.seconds == math.inf:
            end += report.seconds[check.name]
    return report


def _outcomes(check: Check, subject: Subject, is_late: bool) -> list[Outcome]:
    if is_late:
        return [skipped("no time was left; nothing is known of it")]
    if check.needs_forward and subject.forward_error:
        return [skipped("two samples don't go through the network")]
    try:
        return list(check.look(subject))
    except UserError as error:
        what, _, to_do = str(error).partition(". ")
        return [failed(what, to_do or "Mend it, and check again.")]
    except Exception as error:  # one check that can't be done must not hide what the others say
        words = str(error).strip().splitlines() or [""]
        explained = doctor.explain(error) or "If nothing is wrong with this code, the check is."
        return [warning(f"stopped by {type(error).__name__}: {words[0]}", explained)]
