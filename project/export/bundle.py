"""The bundle: a folder with the model in every format, its contract and an example."""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from project.checkpoints import load_task, read_checkpoint
from project.errors import UserError
from project.export import FORMATS
from project.export.contract import contract, data_description
from project.export.formats import CONTRACT, WRITERS, Example
from project.export.samples import Samples, refuse_skew, samples
from project.export.served import Served, evaluating
from project.export.verification import record, verified, verified_weights
from project.tasks import Task

EXAMPLE = "example.py"


def export(path: Path, output: Path, formats: list[str]) -> dict[str, Any]:
    """Write a checkpoint's model as a bundle; nothing but the checkpoint is needed.

    Args:
        path: The checkpoint.
        output: The bundle's folder; an earlier bundle there is replaced once the new one is whole.
        formats: Which of `FORMATS` to make.

    Returns:
        The contract.

    Raises:
        UserError: No format could be made, or one that was made is not the trained model.
    """
    return write(load_task(path), read_checkpoint(path), path, output, formats)


def write(
    task: Task, checkpoint: dict[str, Any], path: Path, output: Path, formats: list[str]
) -> dict[str, Any]:
    """Write a task's model as a bundle; the task is left in the mode it was in.

    Args:
        task: The trained task, on the CPU.
        checkpoint: What its file holds.
        path: The file.
        output: The bundle's folder.
        formats: Which of `FORMATS` to make.
    """
    description = data_description(checkpoint)
    served = Served(task, description)
    with _replacing_bundle(output) as folder, evaluating(served):
        example = tuple(kind.example() for kind in served.inputs.values())
        tried = samples(served, checkpoint, description)
        refuse_skew(task, served, tried)
        described = contract(task, served, example, checkpoint, path)
        made = _make(served, example, json.dumps(described), folder, formats)
        _verify(served, made, tried, folder)
        described |= {"tried_on": tried.source, "formats": made}
        text = json.dumps(described, indent=2, ensure_ascii=False)
        (folder / CONTRACT).write_text(text + "\n", encoding="utf-8")
        if made.get("onnx", {}).get("file"):
            shutil.copyfile(Path(__file__).with_name(EXAMPLE), folder / EXAMPLE)
    return described


def _make(
    served: Served, example: Example, text: str, folder: Path, formats: list[str]
) -> dict[str, dict[str, Any]]:
    """Write every format; one that can't be made says why, and does not keep the others away."""
    made: dict[str, dict[str, Any]] = {}
    for name in formats:
        file, began = folder / f"model.{name}", time.monotonic()
        try:
            WRITERS[name](served, example, text, file)
        except Exception as error:  # an exporter may raise anything, and the user is told
            file.unlink(missing_ok=True)
            made[name] = {"file": None, "reason": _reason(error)}
        else:
            seconds = round(time.monotonic() - began, 1)
            made[name] = {"file": file.name, "bytes": file.stat().st_size, "seconds": seconds}
    if not any(entry["file"] for entry in made.values()):
        reasons = "; ".join(f"{name}: {entry['reason']}" for name, entry in made.items())
        raise UserError(f"No format could be made. {reasons}")
    return made


def _verify(served: Served, made: dict[str, dict[str, Any]], tried: Samples, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        recorded = Path(scratch) / "recorded.npz"
        record(served, tried, recorded)
        for name, entry in made.items():
            file = folder / f"model.{name}"
            if name == "safetensors" and entry["file"]:
                entry["verification"] = verified_weights(served, file)
            elif entry["file"]:
                entry["verification"] = verified(name, file, recorded)


def _reason(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"the package {error.name} is not installed"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {(lines or ['no message'])[0]:.300}"


@contextmanager
def _replacing_bundle(output: Path) -> Generator[Path]:
    """A folder beside `output` to write to, which takes its place if all went well.

    Raises:
        UserError: `output` holds what no export wrote, and would be lost.
    """
    _refuse_others(output)
    output.parent.mkdir(parents=True, exist_ok=True)
    temporary, old = (
        output.with_name(f".{output.name}.{os.getpid()}.{kind}") for kind in ("tmp", "old")
    )
    temporary.mkdir()
    try:
        yield temporary
        if output.exists():
            output.rename(old)
        temporary.rename(output)
    finally:
        if old.exists() and not output.exists():  # interrupted between the two
            old.rename(output)
        for folder in (temporary, old):
            shutil.rmtree(folder, ignore_errors=True)


def _refuse_others(output: Path) -> None:
    if output.is_file():
        raise UserError(f"--output {output} is a file; give a folder.")
    ours = {CONTRACT, EXAMPLE, ".DS_Store", *(f"model.{name}" for name in FORMATS)}
    others = {path.name for path in output.iterdir()} - ours if output.is_dir() else set()
    if others:
        raise UserError(
            f"--output {output} holds {', '.join(sorted(others)[:3])}, which no export wrote. "
            "A bundle replaces its folder; choose one that is empty or not there yet."
        )
