"""Data sets, by what they hold. A data module gives batches as in `project.batches`."""

from project.data.boxes import Boxes
from project.data.cifar10 import CIFAR10
from project.data.columns import Columns
from project.data.datamodule import DataModule
from project.data.digits import Digits
from project.data.fields import Fields
from project.data.images import Images
from project.data.loader import Loader
from project.data.masks import Masks
from project.data.mixed import Mixed
from project.data.modalities import MixedFields
from project.data.sequences import Sequences
from project.data.sounds import Sound
from project.data.splits import Splits
from project.data.tabular import Tabular
from project.data.texts import Texts, Vocabulary

__all__ = [
    "CIFAR10",
    "Boxes",
    "Columns",
    "DataModule",
    "Digits",
    "Fields",
    "Images",
    "Loader",
    "Masks",
    "Mixed",
    "MixedFields",
    "Sequences",
    "Sound",
    "Splits",
    "Tabular",
    "Texts",
    "Vocabulary",
]
