"""The module that is exported: everything between what a user has and what a user wants."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from project.batches import inputs_of
from project.errors import UserError
from project.export.inputs import INPUTS, Input
from project.tasks import Task
from project.tasks.task import Size


class Served(nn.Module):
    """The preparation of every input, the network, and what the task makes of its outputs.

    Args:
        task: A trained task; its network is shared, not copied.
        description: The data module's, out of the checkpoint.

    Raises:
        UserError: The network takes an input that nothing here prepares.

    Shapes:
        One tensor per input, in the order of `inputs` → one per output of the task's `serve`; a
        single one stands alone, several are a tuple. The contract says which.
    """

    def __init__(self, task: Task, description: dict[str, Any]) -> None:
        super().__init__()
        names = inputs_of(task.network)
        for name in names:
            if name not in INPUTS:
                raise UserError(
                    f"The network takes {name!r}, which can't be exported yet; what can is "
                    f"{', '.join(INPUTS)}. Add a class for it to project/export/inputs/."
                )
        self.inputs: dict[str, Input] = {name: INPUTS[name](description) for name in names}
        self.prepare = nn.ModuleDict(self.inputs)  # a dictionary alone would hide their buffers
        self.network = task.network
        self.serve = task.serve  # the method alone: the task's metrics and trainer stay outside
        self.output_names = list(task.serves)

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        given = dict(zip(self.prepare, inputs, strict=True))
        prepared = {name: prepare(given[name]) for name, prepare in self.prepare.items()}
        outputs = self.serve(self.network(**prepared), *sizes(prepared, given))
        answers = tuple(outputs[name] for name in self.output_names)
        return answers[0] if len(answers) == 1 else answers

    def named(self, answers: Tensor | tuple[Tensor, ...]) -> dict[str, Tensor]:
        """What `forward` gives, by the names of the outputs."""
        several = answers if isinstance(answers, tuple) else (answers,)
        return dict(zip(self.output_names, several, strict=True))


def sizes(prepared: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> tuple[Size, Size]:
    """Height and width of the pictures as the network sees them, and as they are given."""
    if "image" not in given:
        return None, None
    (rows, columns), (height, width) = prepared["image"].shape[-2:], given["image"].shape[1:3]
    return (rows, columns), (height, width)


@contextmanager
def evaluating(module: nn.Module) -> Generator[None]:
    """Evaluation mode for a while; afterwards each part is in the mode it was in, frozen or not."""
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, training in modes.items():
            part.training = training
