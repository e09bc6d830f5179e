"""Checks of the data alone."""

from project.data import DataModule
from project.findings import Finding
from project.tasks import Task


def check_data(task: Task, data: DataModule) -> list[Finding]:
    """Everything that is wrong or worth knowing about the files and labels, none left unseen."""
    return data.audit(seconds=None)
