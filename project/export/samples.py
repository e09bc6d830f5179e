"""What an export is tried on: samples of the validation split, or made-up ones for want of them."""

import copy
from dataclasses import dataclass, field
from typing import Any

import torch
from lightning.pytorch.cli import instantiate_module
from torch import Tensor, nn

from project.checkpoints import refuse_unknown_classes
from project.data import DataModule
from project.errors import UserError
from project.export.inputs import BATCH_SIZES
from project.export.served import Served
from project.tasks import Task

COUNT = max(BATCH_SIZES)
TOLERANCE = 1e-4
"""Largest difference that counts as the same, in units of the largest answer, but at least of 1."""


@dataclass(frozen=True)
class Samples:
    """Samples as a user has them, one list per input.

    Args:
        given: By the name of the input, what the served model takes.
        source: Where they come from, and why not from the data.
        prepared: The same as the trained network was given them, one dictionary per sample; empty
            for made-up ones.
    """

    given: dict[str, list[Tensor]]
    source: str
    prepared: list[dict[str, Tensor]] = field(default_factory=list)


def samples(served: Served, checkpoint: dict[str, Any], description: dict[str, Any]) -> Samples:
    """Real samples if the checkpoint's config leads to them, else made-up ones, which then say why.

    Args:
        served: What takes them.
        checkpoint: As read from the file.
        description: The data module's, out of the checkpoint.
    """
    try:
        return _of_validation(served, checkpoint, description)
    except Exception as error:  # data that are not on this machine may fail in any way
        made_up = {name: kind.random(COUNT) for name, kind in served.inputs.items()}
        reason = str(error).partition("\n")[0] or type(error).__name__
        return Samples(made_up, f"made up, since there are no validation samples: {reason}")


def _of_validation(
    served: Served, checkpoint: dict[str, Any], description: dict[str, Any]
) -> Samples:
    data = _data_module(checkpoint)
    data.setup("validate")
    known, now = description.get("preprocessing"), data.description().get("preprocessing")
    if known != now:
        raise UserError(f"the data have changed: their preprocessing was {known}, now it is {now}")
    dataset = data.datasets["val"]
    bare: Any = copy.copy(dataset)
    if not isinstance(getattr(bare, "preprocessing", None), nn.Module):
        raise UserError(f"{type(bare).__name__} has no module `preprocessing` to be left out")
    bare.preprocessing = nn.Identity()
    count = len(bare)
    rows = [number * count // COUNT for number in range(min(COUNT, count))]
    given = {
        name: [kind.sample(bare[row]["inputs"][name]) for row in rows]
        for name, kind in served.inputs.items()
    }
    source = f"{len(rows)} samples of the validation split of {type(data).__name__}"
    return Samples(given, source, [dataset[row]["inputs"] for row in rows])


def _data_module(checkpoint: dict[str, Any]) -> DataModule:
    config = checkpoint.get("config", {}).get("data")
    if config is None:
        raise UserError("the checkpoint does not say how its data module is made")
    refuse_unknown_classes(config)
    return instantiate_module(
        DataModule, {"_class_path": config["class_path"], **config.get("init_args", {})}
    )


@torch.no_grad()
def refuse_skew(task: Task, served: Served, tried: Samples) -> None:
    """Compare what is served with what was trained, each with its own preprocessing.

    Raises:
        UserError: They answer differently on a real sample.
    """
    for number, prepared in enumerate(tried.prepared):
        outputs = task(**{name: value[None] for name, value in prepared.items()})
        expected = [task.serve(outputs)[name] for name in served.output_names]
        answers = served(*(values[number][None] for values in tried.given.values()))
        answers = answers if isinstance(answers, tuple) else (answers,)
        for answer, wanted in zip(answers, expected, strict=True):
            difference = float((answer - wanted).abs().max())
            if not difference <= TOLERANCE * max(1.0, float(wanted.abs().max())):
                raise UserError(
                    f"The model to export differs by {difference:.3g} from the trained one on "
                    f"sample {number} of {tried.source}: project/export/inputs.py does not prepare "
                    "its input as the data module does. Make the two the same."
                )
