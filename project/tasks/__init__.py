"""Problems, by what is predicted."""

from project.tasks.classification import Classification
from project.tasks.task import Task

__all__ = ["Classification", "Task"]
