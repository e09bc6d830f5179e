"""Data sets, by what they hold. A data module gives batches as in `project.batches`."""

from project.data.datamodule import DataModule
from project.data.digits import Digits
from project.data.loader import Loader

__all__ = ["DataModule", "Digits", "Loader"]
