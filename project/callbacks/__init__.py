"""Habits of a run, one file each. The command line adds all of them to every run."""

from project.callbacks.averaging import Averaging
from project.callbacks.checkpointing import Checkpoint
from project.callbacks.clipping import Clipping
from project.callbacks.data_wait import DataWait
from project.callbacks.freezing import Freezing
from project.callbacks.half_precision import HalfPrecision
from project.callbacks.hints import Hints
from project.callbacks.history import History
from project.callbacks.interruption import Interruption
from project.callbacks.non_finite import NonFinite
from project.callbacks.pictures import Pictures
from project.callbacks.predictions import Predictions
from project.callbacks.progress import Progress
from project.callbacks.pruning import Pruning
from project.callbacks.record import Record
from project.callbacks.samples import Samples

__all__ = [
    "Averaging",
    "Checkpoint",
    "Clipping",
    "DataWait",
    "Freezing",
    "HalfPrecision",
    "Hints",
    "History",
    "Interruption",
    "NonFinite",
    "Pictures",
    "Predictions",
    "Progress",
    "Pruning",
    "Record",
    "Samples",
]
