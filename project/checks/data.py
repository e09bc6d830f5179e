"""Checks of the data alone."""

from typing import Protocol, runtime_checkable

from project.data import DataModule
from project.data.audit import Report
from project.findings import Finding
from project.tasks import Task


@runtime_checkable
class Audited(Protocol):
    """A data module that can look at all of its files and labels."""

    def audit(self, *, seconds: float | None) -> Report:
        """What was found; None for `seconds` looks at everything."""


def check_data(task: Task, data: DataModule) -> list[Finding]:
    """Everything that is wrong or worth knowing about the files and labels, none left unseen."""
    if isinstance(data, Audited):
        return data.audit(seconds=None).findings
    return [Finding("note", f"{type(data).__name__} is made of one source, whose files are known")]
