"""The module that is exported: everything between what a user has and what a user wants."""

import inspect
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from project.errors import UserError
from project.export.inputs import INPUTS, Image
from project.tasks import Task


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
        names = list(inspect.signature(task.network.forward).parameters)
        for name in names:
            if name not in INPUTS:
                raise UserError(
                    f"The network takes {name!r}, which can't be exported yet; what can is "
                    f"{', '.join(INPUTS)}. Add a class for it to project/export/inputs.py."
                )
        self.inputs: dict[str, Image] = {name: INPUTS[name](description) for name in names}
        self.prepare = nn.ModuleDict(self.inputs)  # a dictionary alone would hide their buffers
        self.network = task.network
        self.serve = task.serve  # the method alone: the task's metrics and trainer stay outside
        self.output_names = list(task.serves)

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        prepared = {
            name: prepare(given)
            for (name, prepare), given in zip(self.prepare.items(), inputs, strict=True)
        }
        outputs = self.serve(self.network(**prepared))
        answers = tuple(outputs[name] for name in self.output_names)
        return answers[0] if len(answers) == 1 else answers


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
