"""What a batch holds: the one seam between data, models and tasks.

A sample is a dictionary, a batch is the same dictionary with one more dimension in front::

    {"inputs": {"image": ...}, "target": ..., "index": ...}

The entries of `inputs` are named as the parameters of the model's `forward`; a task calls
`network(**batch["inputs"])`. `index` is the sample's position in its split: whatever is said about
a sample later (a prediction, a NaN) can be traced to a file or a row by it.

Letters in shape comments: B batch, C channels or classes, H height, W width, T length, F features,
K numbers predicted per sample.
"""

import inspect
from typing import Any, NotRequired, TypedDict

from torch import Tensor, nn

from project.errors import UserError

INPUTS = {
    "image": "float [B, C, H, W], normalised",
    "tokens": "int64 [B, T], the number of each token; 0 where padded",
    "sequence": "float [B, T, F], normalised; 0 where padded",
    "padding": "bool [B, T], True where tokens or sequence are padded; never a whole row",
    "features": "float [B, F], numbers and categories of a table, normalised, none missing",
}
"""What an input of that name holds. A new kind of input gets its line here."""

VARIABLE = ("tokens", "sequence")
"""Inputs whose samples differ in length: a batch is padded, and `padding` says where."""

IGNORED = 255
"""The class number of pixels that are neither trained nor measured, as is usual in masks."""

SIZES = {
    "in_channels": "channels of an image",
    "num_tokens": "different tokens, padding and unknown among them",
    "num_channels": "numbers at each step of a sequence",
    "num_features": "numbers that a table's row becomes",
    "num_outputs": "numbers predicted per sample (per pixel for masks), such as one per class",
}
"""Numbers that the data knows and a network needs to be built.

A data module states those that apply in its `sizes`; a network whose `__init__` has a parameter of
that name is given it by the command line.
"""

MEANINGS = {
    "class_names": "what the class numbers 0, 1, … mean",
    "class_counts": "training samples (pixels for masks) of each class",
    "num_samples": "training samples",
    "target_names": "what the predicted numbers are called",
    "target_mean": "mean of each target over the training samples, in the user's units",
    "target_std": "standard deviation of the same",
}
"""What the data knows of its targets and a task needs.

A data module has those that apply as attributes from when it is made; a task whose `__init__` has a
parameter of that name is given it by the command line.
"""


class Batch(TypedDict):
    """A collated batch; see the module's docstring."""

    inputs: dict[str, Tensor]
    # absent when predicting on data without labels; boxes are a list, one dictionary per image
    target: NotRequired[Any]
    index: Tensor  # int64 [B]
    # of pictures that are stretched to one size: height and width of each, int64 [B, 2], in which
    # its mask is given, and in whose pixels boxes and masks are predicted
    size: NotRequired[Tensor]


def batch_size(batch: Batch) -> int:
    """Number of samples in a batch, whatever its inputs are."""
    return batch["index"].shape[0]


def inputs_of(network: nn.Module) -> list[str]:
    """The inputs a network takes: the parameters of its `forward`.

    A network that is built for some of them alone names those in its attribute `inputs`.
    """
    parameters = inspect.signature(network.forward).parameters.values()
    return getattr(network, "inputs", [p.name for p in parameters if p.kind is not p.VAR_KEYWORD])


def check_inputs(network: nn.Module, batch: Batch) -> None:
    """Compare the batch's inputs with those of the network.

    Raises:
        UserError: The network wants an input that the data does not have, or the other way round.
    """
    parameters = inspect.signature(network.forward).parameters.values()
    accepted = inputs_of(network)
    optional = {p.name for p in parameters if p.default is not p.empty}
    required = set(getattr(network, "inputs", set(accepted) - optional))
    given = set(batch["inputs"])
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
    if required <= given and (takes_all or given <= set(accepted)):
        return
    raise UserError(
        f"The network {type(network).__name__} takes the inputs {accepted}, but the data gives "
        f"{sorted(given)}. Choose a network for this kind of data (--model.network), or data for "
        f"this network (--data)."
    )
