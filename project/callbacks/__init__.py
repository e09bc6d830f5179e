"""Habits of a run, one file each. The command line adds all of them to every run."""

from project.callbacks.checkpointing import Checkpoint
from project.callbacks.data_wait import DataWait
from project.callbacks.freezing import Freezing
from project.callbacks.history import History
from project.callbacks.interruption import Interruption
from project.callbacks.pictures import Pictures
from project.callbacks.predictions import Predictions
from project.callbacks.progress import Progress
from project.callbacks.record import Record

__all__ = [
    "Checkpoint",
    "DataWait",
    "Freezing",
    "History",
    "Interruption",
    "Pictures",
    "Predictions",
    "Progress",
    "Record",
]
