"""What a served model takes, by the name of the network's input, and how it becomes that input.

Each class here is a module whose `forward` turns what a user has into what the network was trained
on. Beside it stands what an exporter and a check need: which dimensions are free, an example, the
batches to try, and the description that goes into the contract. A new kind of input is a class with
the same members and a line in `INPUTS`.
"""

from project.export.inputs.features import Features
from project.export.inputs.image import Image
from project.export.inputs.input import BATCH_SIZES, Input
from project.export.inputs.padded import Padding, Sequence, Tokens

INPUTS: dict[str, type[Input]] = {
    "image": Image,
    "tokens": Tokens,
    "sequence": Sequence,
    "padding": Padding,
    "features": Features,
}
"""By the name of the network's input, as in `project.batches.INPUTS`."""

__all__ = ["BATCH_SIZES", "INPUTS", "Image", "Input"]
