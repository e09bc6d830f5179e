"""Compare exported files with the original, in a process that knows nothing of this project."""

import copy
import json
import math
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from project.errors import UserError
from project.export import replay
from project.export.departure import first_departure
from project.export.samples import TOLERANCE, Samples
from project.export.served import Served


@torch.no_grad()
def record(served: Served, tried: Samples, path: Path) -> None:
    """Write batches of several sizes, and what the original answers, as `replay` reads them."""
    kinds = zip(served.inputs.values(), tried.given.values(), strict=True)
    batches = [kind.batches(values) for kind, values in kinds]
    arrays: dict[str, np.ndarray] = {}
    for number, inputs in enumerate(zip(*batches, strict=True)):
        answers = served(*inputs)
        answers = answers if isinstance(answers, tuple) else (answers,)
        named = {"inputs": zip(served.inputs, inputs, strict=True)}
        named["outputs"] = zip(served.output_names, answers, strict=True)
        for side, pairs in named.items():
            arrays |= {f"{number}/{side}/{name}": value.numpy() for name, value in pairs}
    np.savez(path, allow_pickle=False, **arrays)


def verified(
    name: str, file: Path, recorded: Path, served: Served, *, exact: bool = True
) -> dict[str, Any]:
    """Replay a record with an exported file.

    Args:
        name: Of the format, for messages.
        file: The exported model.
        recorded: Written by `record`.
        served: The original, to say where a difference begins.
        exact: Whether it must answer the same; a reduced one must only answer, and with numbers.

    Returns:
        What the contract says: the largest difference, agreement, shapes.

    Raises:
        UserError: The file does not run at some shape, or answers differently.
    """
    cases = _replay(name, file, recorded)
    for number, case in enumerate(cases):
        where = partial(_where, name, file, recorded, served, number)
        _refuse_difference(name, case, where if exact else None)
    return {
        "process": "of its own, without this project",
        "largest_difference": max(case["difference"] for case in cases),
        "agreeing": sum(case["agreeing"] for case in cases),
        "rows": sum(case["rows"] for case in cases),
        "shapes": [_shown(case["shapes"]) for case in cases],
    }


def _where(name: str, file: Path, recorded: Path, served: Served, number: int) -> str:
    """Which module of an ONNX file departs first, for a message; blank if that can't be told."""
    if name != "onnx":
        return ""
    arrays = np.load(recorded)
    given = {key: torch.from_numpy(arrays[f"{number}/inputs/{key}"]) for key in served.inputs}
    found = first_departure(served, file, given)
    return f", first in {found}" if found else ""


def _refuse_difference(name: str, case: dict[str, Any], where: Callable[[], str] | None) -> None:
    """Stop at a case that fails or differs; `where` is None if it may differ."""
    allowed = TOLERANCE * max(1.0, case["largest"]) if where else math.inf
    if case["error"]:
        what = f"fails: {case['error'].partition(chr(10))[0]:.300}"
    elif not case["difference"] <= allowed:  # NaN is not, either
        what = f"differs by {case['difference']:.3g}, allowed is {allowed:.3g}"
        what += where() if where else ""
    else:
        return
    raise UserError(
        f"The {name} export is not the trained model: for {_shown(case['shapes'])} it {what}. "
        "Nothing was written. Leave the format out with --formats, or change what the exporter "
        "misreads in the network."
    )


def _shown(shapes: dict[str, list[int]]) -> str:
    return ", ".join(f"{name} {' x '.join(map(str, shape))}" for name, shape in shapes.items())


def _replay(name: str, file: Path, recorded: Path) -> list[dict[str, Any]]:
    # -P: the script's own folder is not searched, so that nothing of this project can be imported
    command = [sys.executable, "-P", "-W", "ignore", replay.__file__, str(file), str(recorded)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise UserError(
            f"The {name} export can't be read back: {last}. Nothing was written. If a package is "
            "missing, install it, or leave the format out with --formats."
        )
    return json.loads(done.stdout.splitlines()[-1])


def verified_weights(served: Served, file: Path) -> dict[str, Any]:
    """Read a file of weights into a network that has lost its own, and compare all of them.

    Raises:
        UserError: A weight is missing or another.
    """
    from safetensors.torch import load_model

    network = copy.deepcopy(served.network)
    for tensor in network.state_dict().values():
        tensor.zero_()
    try:
        load_model(network, file)
    except Exception as error:  # its own class of error, torch's and the file system's
        raise UserError(f"The safetensors export can't be read back: {error}") from error
    pairs = zip(network.state_dict().items(), served.network.state_dict().values(), strict=True)
    for (name, read), written in pairs:
        if not torch.equal(read, written):
            raise UserError(f"The safetensors export holds another {name} than the network.")
    return {"process": "the exporting one", "largest_difference": 0.0}
