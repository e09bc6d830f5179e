"""Run an exported file on recorded inputs and compare with the recorded outputs.

A script for a process of its own, which imports nothing of this project: what works here works
where the file goes. `python -P replay.py model.onnx recorded.npz` prints one line of JSON.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]

SURE = 0.1
"""Boxes of a lower score are not compared: which of them are among the best is chance."""


def main(file: Path, recorded: Path) -> None:
    """Replay all cases of a record.

    Args:
        file: The exported model; its ending says how to run it.
        recorded: Arrays named `<case>/inputs/<name>` and `<case>/outputs/<name>`, in the order of
            the model's inputs and outputs.
    """
    cases: dict[str, dict[str, Arrays]] = {}
    for key, array in np.load(recorded).items():
        case, side, name = key.split("/")
        cases.setdefault(case, {"inputs": {}, "outputs": {}})[side][name] = array
    run = RUNNERS[file.suffix](file)
    results = [compared(run, case["inputs"], case["outputs"]) for case in cases.values()]
    print(json.dumps(results))


def onnx(file: Path) -> Callable[[Arrays], list[np.ndarray]]:
    """Run an ONNX file by ONNX Runtime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    return lambda inputs: [np.asarray(output) for output in session.run(None, inputs)]


def exported_program(file: Path) -> Callable[[Arrays], list[np.ndarray]]:
    """Run a program of torch.export."""
    import torch

    return _torch(torch.export.load(file).module())


def torchscript(file: Path) -> Callable[[Arrays], list[np.ndarray]]:
    """Run a TorchScript file."""
    import torch

    return _torch(torch.jit.load(str(file)))


RUNNERS = {".onnx": onnx, ".pt2": exported_program, ".ts": torchscript}


def _torch(model: Callable) -> Callable[[Arrays], list[np.ndarray]]:
    import torch

    def run(inputs: Arrays) -> list[np.ndarray]:
        with torch.no_grad():
            outputs = model(*(torch.from_numpy(array) for array in inputs.values()))
        outputs = outputs if isinstance(outputs, tuple | list) else [outputs]
        return [output.numpy() for output in outputs]

    return run


def compared(run: Callable[[Arrays], list[np.ndarray]], inputs: Arrays, expected: Arrays) -> dict:
    """One case: the largest difference, and in how many rows the largest entry is the same one.

    Returns:
        `shapes` of the inputs, `difference`, the `largest` number expected, `agreeing` of `rows`,
        `error`: None, or why there is no difference to give.
    """
    result: dict[str, Any] = {"shapes": {name: list(a.shape) for name, a in inputs.items()}}
    result |= {"largest": max(float(np.abs(b).max(initial=0)) for b in expected.values())}
    result |= {"difference": None, "agreeing": 0, "rows": 0, "error": None}
    try:
        outputs = run(inputs)
    except Exception as error:  # whatever the runtime raises is the result
        return {**result, "error": f"{type(error).__name__}: {error}"}
    given = [(output.shape, str(output.dtype)) for output in outputs]
    wanted = [(output.shape, str(output.dtype)) for output in expected.values()]
    if given != wanted:
        return {**result, "error": f"gives {given} instead of {wanted}"}
    if set(expected) == {"boxes", "scores", "labels"}:
        return {**result, **boxes_compared(dict(zip(expected, outputs, strict=True)), expected)}
    pairs = list(zip(outputs, expected.values(), strict=True))
    result["difference"] = max(_difference(a, b) for a, b in pairs)
    for a, b in pairs:
        if a.ndim > 1 and a.shape[1] > 1:
            same = a.argmax(1) == b.argmax(1)
            result |= {"agreeing": int(same.sum()), "rows": int(same.size)}
    return result


def boxes_compared(found: Arrays, expected: Arrays) -> dict:
    """Boxes by what they enclose, not by their order, which a last digit of a score may change.

    Returns:
        `difference` of sides and scores, and `agreeing` of `rows`: the boxes that have a partner.
    """
    difference, agreeing, rows = 0.0, 0, 0
    for picture in range(len(expected["scores"])):
        for number in np.flatnonzero(expected["scores"][picture] >= SURE):
            rows += 1
            same = found["labels"][picture] == expected["labels"][picture][number]
            same &= found["scores"][picture] > 0
            sides = np.abs(found["boxes"][picture] - expected["boxes"][picture][number]).max(axis=1)
            scores = np.abs(found["scores"][picture] - expected["scores"][picture][number])
            nearest = np.where(same, np.maximum(sides, scores), np.inf).min(initial=np.inf)
            difference = max(difference, float(nearest))
            agreeing += bool(np.isfinite(nearest))
    return {"difference": difference, "agreeing": agreeing, "rows": rows}


def _difference(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max(initial=0.0))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
