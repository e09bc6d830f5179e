"""Reading and writing checkpoints: whole or not at all, and never running anything."""

import os
import sys
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO

import project.models
import project.tasks  # noqa: F401 - classes named in a checkpoint must be imported to be allowed
from project.errors import UserError
from project.tasks import Task


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes beside the target, flushes to the disk, then renames.

    A reader, a crash or a power cut sees the old file or the whole new one.
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        if "://" in str(path):  # remote storage has its own ways
            super().save_checkpoint(checkpoint, path, storage_options)
            return
        with replacing(Path(path)) as temporary, temporary.open("wb") as file:
            torch.save(checkpoint, file)
            file.flush()
            os.fsync(file.fileno())


class replacing:  # noqa: N801 - a context manager, used like a function
    """`with replacing(path) as temporary:` write there; on success it takes the path's place."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")

    def __enter__(self) -> Path:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return self.temporary

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is not None:
            self.temporary.unlink(missing_ok=True)
            return
        self.temporary.replace(self.path)
        if os.name == "posix":  # make the rename itself survive a power cut
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """Read a checkpoint to the CPU, as data only: nothing stored in it is run.

    Raises:
        UserError: There is no such file, or it is not a checkpoint, or it holds more than data.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"There is no checkpoint {path.resolve()}.")
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises several unrelated kinds
        raise UserError(
            f"{path} can't be read as a checkpoint: it is damaged, of another kind, or holds "
            "Python objects, which are never loaded from a file. torch says: "
            f"{(str(error).splitlines() or [type(error).__name__])[0]}"
        ) from error
    if not isinstance(checkpoint, dict) or "state_dict" not in checkpoint:
        raise UserError(f"{path} holds no 'state_dict'; it is not a checkpoint of a training run.")
    return checkpoint


def load_task(path: str | Path) -> Task:
    """The trained task of a checkpoint, in evaluation mode, on the CPU; nothing else is needed.

    Args:
        path: A checkpoint of a run started from the command line.

    Raises:
        UserError: The file can't be read, or the task was made in Python, so that the checkpoint
            does not say how to make its network.
    """
    checkpoint = read_checkpoint(path)
    hyperparameters = checkpoint.get("hyper_parameters", {})
    if "network" not in hyperparameters:
        raise UserError(
            f"{path} does not say how its network is made, since the task was made in Python. Make "
            "the task as in training, then task.load_state_dict(torch.load(path)['state_dict'])."
        )
    refuse_unknown_classes(hyperparameters)
    module, _, name = str(hyperparameters.get("_class_path")).rpartition(".")
    task_class = getattr(sys.modules.get(module), name, None)
    if not (isinstance(task_class, type) and issubclass(task_class, Task)):
        raise UserError(f"{path} was made by {module}.{name}, which is no task of this project.")
    return task_class.load_from_checkpoint(path, map_location="cpu", weights_only=True).eval()


def refuse_unknown_classes(value: Any, key: str = "") -> None:
    """Refuse a checkpoint that would import code to build its objects.

    Raises:
        UserError: A class path in the hyperparameters leads outside the packages that build models.
    """
    if isinstance(value, dict):
        for name, inner in value.items():
            refuse_unknown_classes(inner, name)
    elif isinstance(value, list | tuple):
        for inner in value:
            refuse_unknown_classes(inner, key)
    elif key in ("class_path", "_class_path", "collate") and value is not None:
        module, _, _ = str(value).rpartition(".")
        package = module.partition(".")[0]
        known = ("project", "torch", "torchvision", "torchmetrics", "lightning")
        if package not in known and module not in sys.modules:
            raise UserError(
                f"The checkpoint asks for the class {value!r}, from outside this project. If you "
                f"trust the file, import {module} first."
            )
