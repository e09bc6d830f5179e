"""The bundle: a folder with the model in every format, its contract and an example."""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from project.checkpoints import load_task, read_checkpoint
from project.errors import UserError
from project.export import FORMATS, REDUCED, measured, reduced
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
        formats: Which of `FORMATS` and `REDUCED` to make.

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
        formats: Which of `FORMATS` and `REDUCED` to make.
    """
    description = data_description(checkpoint)
    served = Served(task, description)
    with _replacing_bundle(output) as folder, evaluating(served):
        example = tuple(kind.example() for kind in served.inputs.values())
        tried = samples(served, checkpoint, description)
        refuse_skew(task, served, tried)
        described = contract(task, served, example, checkpoint, path)
        exact = [name for name in formats if name in FORMATS]
        made = _make(served, example, json.dumps(described), folder, exact)
        _verify(served, made, tried, folder)
        described |= {"tried_on": tried.source, "formats": made}
        if made.get("onnx", {}).get("file"):
            made |= _reduce([name for name in formats if name in REDUCED], served, tried, folder)
            described |= _measure(task, served, tried, made, folder)
            shutil.copyfile(Path(__file__).with_name(EXAMPLE), folder / EXAMPLE)
        text = json.dumps(described, indent=2, ensure_ascii=False)
        (folder / CONTRACT).write_text(text + "\n", encoding="utf-8")
    return described


def _make(
    served: Served, example: Example, text: str, folder: Path, formats: list[str]
) -> dict[str, dict[str, Any]]:
    """Write every format; one that can't be made says why, and does not keep the others away."""
    made = {
        name: _written(folder / f"model.{name}", partial(WRITERS[name], served, example, text))
        for name in formats
    }
    if not any(entry["file"] for entry in made.values()):
        reasons = "; ".join(f"{name}: {entry['reason']}" for name, entry in made.items())
        raise UserError(f"No format could be made. {reasons}")
    return made


def _reduce(
    formats: list[str], served: Served, tried: Samples, folder: Path
) -> dict[str, dict[str, Any]]:
    """Write the smaller files that are asked for; they run on every shape, or are not kept."""
    if not formats:
        return {}
    exact = folder / "model.onnx"
    feeds = []
    for values in zip(*tried.given.values(), strict=True) if tried.dataset is not None else ():
        named = zip(tried.given, values, strict=True)
        feeds.append({name: value[None].numpy() for name, value in named})
    made = {}
    for name in formats:
        writer = partial(reduced.WRITERS[name], exact, feeds)
        made[name] = _written(folder / f"model.{name}.onnx", writer)
        if made[name]["file"]:
            with _recorded(served, tried) as record:
                file = folder / made[name]["file"]
                made[name]["verification"] = verified(name, file, record, served, exact=False)
    return made


def _written(file: Path, writer: Callable[[Path], str | None]) -> dict[str, Any]:
    began = time.monotonic()
    try:
        how = writer(file)
    except Exception as error:  # an exporter may raise anything, and the user is told
        file.unlink(missing_ok=True)
        return {"file": None, "reason": _reason(error)}
    seconds = round(time.monotonic() - began, 1)
    made = {"file": file.name, "bytes": file.stat().st_size, "seconds": seconds}
    return {**made, "how": how} if how else made


def _verify(served: Served, made: dict[str, dict[str, Any]], tried: Samples, folder: Path) -> None:
    with _recorded(served, tried) as record:
        for name, entry in made.items():
            file = folder / f"model.{name}"
            if name == "safetensors" and entry["file"]:
                entry["verification"] = verified_weights(served, file)
            elif entry["file"]:
                entry["verification"] = verified(name, file, record, served)


def _measure(
    task: Task, served: Served, tried: Samples, made: dict[str, dict[str, Any]], folder: Path
) -> dict[str, Any]:
    """Validation metrics and time per sample, of the original and the ONNX files.

    Raises:
        UserError: The exact file has other metrics than the original.
    """
    names = [name for name in ("onnx", *REDUCED) if made.get(name, {}).get("file")]
    files = {name: folder / made[name]["file"] for name in names}
    found = measured.metrics(task, served, files, tried)
    for name, value in found.get("original", {}).items():
        if abs(found["onnx"][name] - value) > 1e-3 * max(1.0, abs(value)):
            raise UserError(
                f"The onnx export has {name} {found['onnx'][name]:.4g} on {found['samples']} "
                f"validation samples, the trained model {value:.4g}. Nothing was written."
            )
    return {"measured": found, "milliseconds": measured.milliseconds(served, files, tried)}


@contextmanager
def _recorded(served: Served, tried: Samples) -> Generator[Path]:
    """A record of what the original answers, in a scratch folder."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "recorded.npz"
        record(served, tried, path)
        yield path


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
    ours |= {f"model.{name}.onnx" for name in REDUCED}
    others = {path.name for path in output.iterdir()} - ours if output.is_dir() else set()
    if others:
        raise UserError(
            f"--output {output} holds {', '.join(sorted(others)[:3])}, which no export wrote. "
            "A bundle replaces its folder; choose one that is empty or not there yet."
        )
