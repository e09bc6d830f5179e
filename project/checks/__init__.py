"""The preflight: what can be known to go wrong before a run is started.

A check is a function of the task and the data module that returns findings; a new one goes into
`CHECKS`.
"""

from collections.abc import Callable

from project.checks.data import check_data
from project.data import DataModule
from project.findings import Finding
from project.tasks import Task

Check = Callable[[Task, DataModule], list[Finding]]

CHECKS: dict[str, Check] = {"data": check_data}
"""By the name it is reported under, in the order in which they run."""

__all__ = ["CHECKS", "Check", "check_data"]
