"""What an export is tried on: samples of the validation split, or made-up ones for want of them."""

import copy
from dataclasses import dataclass, field, replace
from typing import Any, cast

import torch
from lightning.pytorch.cli import instantiate_module
from torch import Tensor, nn

from project.batches import Batch
from project.checkpoints import refuse_unknown_classes
from project.data import DataModule
from project.errors import UserError
from project.export.inputs import BATCH_SIZES
from project.export.served import Served, sizes
from project.tasks import Task

COUNT = max(BATCH_SIZES)
PREPARED_BY = ("preprocessing", "features", "tokenizer")
"""What a data module's description says of how samples are prepared."""

TOLERANCE = 1e-4
"""Largest difference that counts as the same, in units of the largest answer, but at least of 1."""


@dataclass(frozen=True)
class Samples:
    """Samples as a user has them, one list per input.

    Args:
        given: By the name of the input, what the served model takes.
        source: Where they come from, and why not from the data.
        prepared: The same as the trained network was given them, as batches of one; none of
            made-up ones.
        dataset: The validation split, as trained on; None for made-up samples.
        bare: The same without its preprocessing.
        data: The module both are from.
        served: What takes the samples.
    """

    given: dict[str, list[Tensor]]
    source: str
    prepared: list[Batch] = field(default_factory=list)
    dataset: Any = None
    bare: Any = None
    data: DataModule | None = None
    served: Served | None = None

    def raw(self, row: int) -> dict[str, Tensor]:
        """A validation sample as a user has it, by the name of the input."""
        assert self.served is not None
        inputs = self.bare[row]["inputs"]
        return {name: kind.sample(inputs) for name, kind in self.served.inputs.items()}

    def batch(self, *rows: int) -> Batch:
        """The same as a batch, as trained on."""
        assert self.data is not None
        return cast(Batch, self.data.collate([{**self.dataset[row], "index": row} for row in rows]))


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
        return Samples(made_up, f"made up, since there are no validation samples: {_why(error)}")


def _why(error: BaseException) -> str:
    """The first line of an error, in our own words if one of ours is behind it."""
    behind: BaseException | None = error
    while behind is not None and not isinstance(behind, UserError):
        behind = behind.__cause__ or behind.__context__
    return str(behind or error).partition("\n")[0] or type(error).__name__


def _of_validation(
    served: Served, checkpoint: dict[str, Any], description: dict[str, Any]
) -> Samples:
    data = _data_module(checkpoint)
    data.setup("validate")
    now = data.description()
    for name in PREPARED_BY:
        if description.get(name) != now.get(name):
            raise UserError(
                f"the data have changed: their {name} was {description.get(name)}, now it is "
                f"{now.get(name)}"
            )
    dataset = data.datasets["val"]
    bare: Any = copy.copy(dataset)
    if not isinstance(getattr(bare, "preprocessing", None), nn.Module):
        raise UserError(f"{type(bare).__name__} has no module `preprocessing` to be left out")
    bare.preprocessing = nn.Identity()
    count = len(bare)
    rows = [number * count // COUNT for number in range(min(COUNT, count))]
    source = f"{len(rows)} samples of the validation split of {type(data).__name__}"
    found = Samples({}, source, [], dataset, bare, data, served)
    raw = [found.raw(row) for row in rows]
    given = {name: [each[name] for each in raw] for name in served.inputs}
    return replace(found, given=given, prepared=[found.batch(row) for row in rows])


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
    for number, batch in enumerate(tried.prepared):
        given = {name: values[number][None] for name, values in tried.given.items()}
        expected = task.serve(task(**batch["inputs"]), *sizes(batch["inputs"], given))
        for name, answer in served.named(served(*given.values())).items():
            wanted = expected[name]
            difference = float((answer - wanted).abs().max())
            if not difference <= TOLERANCE * max(1.0, float(wanted.abs().max())):
                raise UserError(
                    f"The model to export differs by {difference:.3g} from the trained one on "
                    f"sample {number} of {tried.source}: project/export/inputs/ does not prepare "
                    "its input as the data module does. Make the two the same."
                )
