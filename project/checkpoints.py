"""Reading and writing checkpoints: whole or not at all, and never running anything."""

import os
import sys
from pathlib import Path
from typing import Any, Literal

import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
from torch import Tensor

import project.models
import project.tasks  # noqa: F401 - classes named in a checkpoint must be imported to be allowed
from project.errors import UserError
from project.runs import Run, rooted
from project.state_dicts import (
    check_fits,
    description_of,
    load_body,
    read_file,
    renamed,
    statistics_of,
    tensors_of,
    without_counters,
)
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
    checkpoint = read_file(path, "checkpoint")
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
    network = without_weights(hyperparameters["network"])
    return task_class.load_from_checkpoint(
        path, map_location="cpu", weights_only=True, network=network
    ).eval()


def start_from(task: Task, path: str | Path, head: Literal["keep", "replace"]) -> None:
    """Give a task's network the weights of a file, and nothing else of it: training starts anew.

    Args:
        task: Changed in place.
        path: A run's directory, whose best checkpoint is taken, a checkpoint, or a file of weights.
        head: Whether to `keep` the stored values of the network's `head`, or its own (`replace`).

    Raises:
        UserError: The weights do not fit; says how they differ.
    """
    folders = [folder for folder in (Path(path).expanduser(), rooted(path)) if folder.is_dir()]
    path = Run(folders[0]).checkpoint("best") if folders else path
    content = read_file(path)
    stored = tensors_of(content, path)
    if "state_dict" in content:
        task.become_like(content)
        of_network = {name: t for name, t in stored.items() if name.startswith("network.")}
        stored = of_network or stored
    state = task.network.state_dict()
    names = [name for name in state if name.startswith("head.")]
    if head == "keep":
        _check_keeps(task, renamed(stored, state), content, names)
    elif not names:
        raise UserError(
            f"run.init_head is 'replace', but {type(task.network).__name__} has no part `head`."
        )
    keep = head == "keep"
    task.loaded = load_body(state, stored, head=names, source=path, keep_head=keep)
    task.expects = statistics_of(content)


def _check_keeps(
    task: Task, stored: dict[str, Tensor], content: dict[str, Any], head: list[str]
) -> None:
    """Refuse weights that differ in anything, or are for other classes."""
    state = without_counters(task.network.state_dict(), stored)
    resized = {n for n in state if n in stored and stored[n].shape != state[n].shape}
    try:
        check_fits(stored, state)
    except UserError as error:
        if resized and resized <= set(head):
            raise UserError(f"{error} Or start with a new head: --init_head replace.") from None
        raise
    before = description_of(content).get("class_names")
    now = getattr(task, "class_names", None)
    if before and now and before != now:
        raise UserError(
            f"The weights are for the classes {before}, this data has {now}, in as many outputs. "
            "Start with a new head: --init_head replace."
        )


def without_weights(config: Any) -> Any:
    """How a network is made that a checkpoint's values go into.

    By convention, the argument `weights` of a network says where its first values come from: a file
    or a download. Whoever loads a checkpoint has its values already and may not have that file.

    Args:
        config: Plain values with `class_path` and `init_args`, which may hold further ones.
    """
    if isinstance(config, list):
        return [without_weights(each) for each in config]
    if not isinstance(config, dict):
        return config
    config = {key: without_weights(value) for key, value in config.items()}
    arguments = config.get("init_args")
    if "class_path" in config and isinstance(arguments, dict) and "weights" in arguments:
        config["init_args"] = {**arguments, "weights": None}
    return config


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
    elif key == "_instantiator":
        if value != "lightning.pytorch.cli.instantiate_module":
            raise UserError(f"The checkpoint asks to be built by {value!r}, which is not done.")
    elif key in ("class_path", "_class_path", "collate") and value is not None:
        module, _, _ = str(value).rpartition(".")
        package = module.partition(".")[0]
        known = ("project", "torch", "torchvision", "torchmetrics", "lightning")
        if package not in known and module not in sys.modules:
            raise UserError(
                f"The checkpoint asks for the class {value!r}, from outside this project. If you "
                f"trust the file, import {module} first."
            )
