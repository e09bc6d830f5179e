"""The check of the files and rows themselves."""

from collections.abc import Iterator

from project.checks.outcome import Outcome, of_finding
from project.checks.subject import Subject


def audit(subject: Subject) -> Iterator[Outcome]:
    """Everything that is wrong or worth knowing about the files and labels, none left unseen."""
    data = subject.data
    for finding in data.audit(seconds=None):
        left_out = data.skip and finding.skippable
        subject.unusable |= finding.severity == "error" and not left_out
        yield of_finding(finding, left_out=left_out)
    if not subject.unusable:
        data.setup("fit")
