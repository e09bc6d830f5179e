"""What an exported file is worth: the validation metrics of its answers, and how long they take."""

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from project.export.samples import Samples
from project.export.served import Served
from project.tasks import Task

SECONDS = 10.0
"""About how long the metrics of all files may take together; the number of samples follows."""

TURNS = 30
"""Of one sample each, that every file is timed for, one file after the other in each turn."""

_TOGETHER = 32  # samples that the metrics are told of at once, which costs less than one by one

Answer = Callable[[dict[str, Tensor]], dict[str, Tensor]]


def runner(file: Path) -> Answer:
    """An ONNX file as a function of named tensors."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    taken = [each.name for each in session.get_inputs()]
    names = [each.name for each in session.get_outputs()]

    def answer(given: dict[str, Tensor]) -> dict[str, Tensor]:
        answers = session.run(None, {name: given[name].numpy() for name in taken})
        return dict(zip(names, (torch.from_numpy(np.asarray(a)) for a in answers), strict=True))

    return answer


def eager(served: Served) -> Answer:
    """The original as a function of the same."""

    @torch.no_grad()
    def answer(given: dict[str, Tensor]) -> dict[str, Tensor]:
        return served.named(served(*given.values()))

    return answer


def metrics(task: Task, served: Served, files: dict[str, Path], tried: Samples) -> dict[str, Any]:
    """Validation metrics of the original and of every file, on the same samples as they are.

    Args:
        task: The trained task.
        served: What was exported.
        files: ONNX files by the name of the format.
        tried: The validation samples; nothing is measured on made-up ones.

    Returns:
        How many `samples` of how many, and the metrics by `original` and format.
    """
    if tried.dataset is None:
        return {}
    answers = {"original": eager(served), **{name: runner(file) for name, file in files.items()}}
    found = {name: task.val_metrics.clone() for name in answers}
    rows = torch.randperm(len(tried.dataset), generator=torch.Generator().manual_seed(0)).tolist()
    began, done = time.monotonic(), 0
    while done < len(rows) and time.monotonic() - began < SECONDS:
        chosen = rows[done : done + _TOGETHER]
        given = [{n: v[None] for n, v in tried.raw(row).items()} for row in chosen]
        batch = tried.batch(*chosen)
        for name, answer in answers.items():
            predictions = task.measurable([answer(each) for each in given], batch)
            found[name].update(predictions, batch["target"])
        done += len(chosen)
    shown = {
        name: {metric: round(float(v), 6) for metric, v in each.compute().items() if v.numel() == 1}
        for name, each in found.items()
    }
    return {"samples": done, "of": len(rows), **shown}


def milliseconds(served: Served, files: dict[str, Path], tried: Samples) -> dict[str, float]:
    """Median time for one sample, of the original and of every file, in turns."""
    given = {name: values[0][None] for name, values in tried.given.items()}
    answers = {"original": eager(served), **{name: runner(file) for name, file in files.items()}}
    times: dict[str, list[float]] = {name: [] for name in answers}
    for turn in range(TURNS + 3):  # the first ones warm up
        for name, answer in answers.items():
            began = time.perf_counter()
            answer(given)
            if turn >= 3:
                times[name].append(1e3 * (time.perf_counter() - began))
    return {name: round(statistics.median(each), 3) for name, each in times.items()}
