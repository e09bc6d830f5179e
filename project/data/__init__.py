"""Data sets, by what they hold. A data module gives batches as in `project.batches`."""

from project.data.cifar10 import CIFAR10
from project.data.columns import Columns
from project.data.datamodule import DataModule
from project.data.digits import Digits
from project.data.images import Images
from project.data.loader import Loader
from project.data.splits import Splits

__all__ = ["CIFAR10", "Columns", "DataModule", "Digits", "Images", "Loader", "Splits"]
