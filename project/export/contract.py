"""What travels with an exported model: all that its user must know and could not guess."""

import hashlib
import importlib.metadata
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import project
from project import runs
from project.errors import UserError
from project.export.formats import OPSET, Example
from project.export.served import Served
from project.tasks import Task

SCHEMA = 1
"""Raised when an entry changes its meaning or goes."""

PACKAGES = ("torch", "lightning", "numpy", "onnx", "onnxscript", "onnxruntime", "safetensors")


def data_description(checkpoint: dict[str, Any]) -> dict[str, Any]:
    """What the data module said of itself when the checkpoint was written.

    Raises:
        UserError: It said nothing: the model was trained without one of this project's.
    """
    for value in checkpoint.values():  # under the name of the data module's class
        if isinstance(value, dict) and isinstance(value.get("description"), dict):
            return value["description"]
    raise UserError(
        "The checkpoint holds no description of its data, so how to prepare an input is unknown. "
        "Train with a data module of this project."
    )


def contract(
    task: Task, served: Served, example: Example, checkpoint: dict[str, Any], path: Path
) -> dict[str, Any]:
    """The contract, without the formats.

    Args:
        task: The trained task.
        served: What is exported.
        example: A batch of its inputs.
        checkpoint: As read from the file.
        path: The file.
    """
    run = runs.of_checkpoint(path)
    return {
        "schema": SCHEMA,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "task": type(task).__name__,
        "inputs": {name: kind.contract() for name, kind in served.inputs.items()},
        "outputs": _outputs(task, served, example),
        "class_names": getattr(task, "class_names", None),
        "target_names": getattr(task, "target_names", None),
        "min_score": getattr(task, "min_score", None),
        "same_place": getattr(task, "same_place", None),
        "metrics": run.metrics if run else {},
        "network": checkpoint["hyper_parameters"]["network"],
        "checkpoint": {
            "file": path.name,
            "sha256": _sha256(path),
            "epoch": checkpoint.get("epoch"),
            "step": checkpoint.get("global_step"),
            "run": f"{run.experiment}/{run.path.name}" if run else None,
        },
        "opset": OPSET,
        "versions": {
            "project": project.__version__,
            "python": platform.python_version(),
            **{name: _version(name) for name in PACKAGES},
        },
    }


@torch.no_grad()
def _outputs(task: Task, served: Served, example: Example) -> dict[str, Any]:
    answers = served(*example)
    answers = answers if isinstance(answers, tuple) else (answers,)
    return {
        name: {
            "dtype": str(answer.dtype).removeprefix("torch."),
            "shape": ["batch", *answer.shape[1:]],
            "meaning": task.serves[name],
        }
        for name, answer in zip(served.output_names, answers, strict=True)
    }


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
