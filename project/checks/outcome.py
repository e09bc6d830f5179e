"""What a check came to: passed, warning, failed or skipped, with what was measured."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from project.findings import Finding, Severity

Status = Literal["failed", "warning", "skipped", "passed"]
STATUSES: tuple[Status, ...] = ("failed", "warning", "skipped", "passed")
"""The gravest first."""

_SEVERITY: dict[Status, Severity] = {
    "failed": "error",
    "warning": "warning",
    "skipped": "note",
    "passed": "note",
}
_SHOWN = 3

Items = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Outcome:
    """What one check came to.

    Args:
        status: `failed` is sure to spoil the run, a `warning` should be looked at, `skipped` could
            not be told.
        measured: What was seen, with names and numbers.
        advice: What to do; empty where there is nothing to do.
        practice: The id in docs/practices.md; the runner fills in the check's own.
        items: All that it concerns, such as samples, each with a detail that may be empty.
        check: The check's name; the runner fills it in.
    """

    status: Status
    measured: str
    advice: str = ""
    practice: str = ""
    items: Items = ()
    check: str = ""

    def told_by(self, check: str, practice: str) -> "Outcome":
        """The same with the name of its check, and that check's practice if it has none."""
        return replace(self, check=check, practice=self.practice or practice)

    def line(self) -> str:
        """All in one line."""
        advice = f" {self.advice}" if self.advice else ""
        return f"{self.check}: {self.measured}{_examples(self.items)}.{advice} [{self.practice}]"

    def finding(self) -> Finding:
        """The same as a finding, for the table of all items."""
        title = f"{self.check}: {self.measured}"
        return Finding(_SEVERITY[self.status], title, list(self.items), self.advice)

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {**asdict(self), "items": [list(item) for item in self.items]}


def passed(measured: str, practice: str = "") -> Outcome:
    """All is well."""
    return Outcome("passed", measured, practice=practice)


def warning(measured: str, advice: str, practice: str = "", items: Items = ()) -> Outcome:
    """It should be looked at, and may be as it is meant to be."""
    return Outcome("warning", measured, advice, practice, items)


def failed(measured: str, advice: str, practice: str = "", items: Items = ()) -> Outcome:
    """The run would be spoilt."""
    return Outcome("failed", measured, advice, practice, items)


def skipped(why: str) -> Outcome:
    """It could not be told."""
    return Outcome("skipped", why)


def of_finding(finding: Finding, *, left_out: bool) -> Outcome:
    """What the audit of the files found, as an outcome; what is left out only warns."""
    status: dict[Severity, Status] = {"error": "failed", "warning": "warning", "note": "passed"}
    number = f" ({len(finding.items):,})" if len(finding.items) > 1 else ""
    measured = f"{finding.title}{number}"
    if left_out:
        return Outcome("warning", f"{measured}, left out", finding.advice, "D2", finding.items)
    return Outcome(status[finding.severity], measured, finding.advice, "D2", finding.items)


def table(outcomes: Iterable[Outcome]) -> str:
    """For the screen: status, check, what was measured; below it what to do, and the practice."""
    rows = list(outcomes)
    width = max((len(each.check) for each in rows), default=0)
    lines = []
    for each in rows:
        line = f"{each.status:8} {each.check:{width}}  {each.measured}{_examples(each.items)}"
        lines.append(line)
        if each.status in ("failed", "warning"):
            advice = f"→ {each.advice} " if each.advice else ""
            lines.append(f"{'':{width + 11}}{advice}[{each.practice}]")
    return "\n".join(lines)


def counted(outcomes: Iterable[Outcome]) -> str:
    """How many there are of each status."""
    found = [each.status for each in outcomes]
    plural = {"warning": "warnings"}
    return ", ".join(
        f"{number} {status if number == 1 else plural.get(status, status)}"
        for status in STATUSES
        if (number := found.count(status))
    )


def _examples(items: Items) -> str:
    shown = [f"{name}{detail and f' ({detail})'}" for name, detail in items[:_SHOWN]]
    more = f", … ({len(items):,})" if len(items) > _SHOWN else ""
    return f": {', '.join(shown)}{more}" if shown else ""
