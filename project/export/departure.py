"""Where an ONNX file first departs from the original: the module whose output is another one."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch import Tensor

from project.export.samples import TOLERANCE
from project.export.served import Served

_SCOPES = "pkg.torch.onnx.name_scopes"  # torch's exporter notes there which module a node is of


@torch.no_grad()
def first_departure(served: Served, file: Path, given: dict[str, Tensor]) -> str | None:
    """The first module, in the order of computation, whose output differs.

    Args:
        served: The original.
        file: The ONNX file.
        given: Inputs of which the answers differ, by name.

    Returns:
        Its name in the network and by how much; None if no module can be told.
    """
    import onnxruntime

    model = onnx.load(file)
    last = _last_values(model, {name for name, _ in served.named_modules() if name})
    known = {output.name for output in model.graph.output}
    for value in set(last.values()) - known:
        model.graph.output.append(onnx.ValueInfoProto(name=value))
    with tempfile.TemporaryDirectory() as folder:
        probed = Path(folder) / "probed.onnx"
        onnx.save(model, probed)
        session = onnxruntime.InferenceSession(str(probed), providers=["CPUExecutionProvider"])
        feeds = {name: value.numpy() for name, value in given.items()}
        names = [output.name for output in session.get_outputs()]
        theirs = dict(zip(names, map(np.asarray, session.run(None, feeds)), strict=True))
    ours = _outputs(served, given, set(last))
    for name, output in ours.items():
        difference = _difference(output, theirs.get(last[name]))
        if difference is not None and not difference <= TOLERANCE * max(
            1.0, float(output.abs().max())
        ):
            return f"{name} ({type(served.get_submodule(name)).__name__}), by {difference:.3g}"
    return None


def _last_values(model: Any, modules: set[str]) -> dict[str, str]:
    """The value that each module's last node gives, by the module's name."""
    found: dict[str, str] = {}
    for node in model.graph.node:
        noted = {each.key: each.value for each in node.metadata_props}.get(_SCOPES, "[]")
        for scope in _names(noted):
            if scope in modules and node.output[0]:
                found[scope] = node.output[0]
    return found


def _names(noted: str) -> list[str]:
    return [part.strip(" '\"") for part in noted.strip("[]").split(",")]


def _outputs(served: Served, given: dict[str, Tensor], modules: set[str]) -> dict[str, Tensor]:
    """The outputs of the original's modules, in the order in which they end."""
    found: dict[str, Tensor] = {}

    def keep(name: str) -> Any:
        def hook(module: torch.nn.Module, inputs: Any, output: Any) -> None:
            if isinstance(output, Tensor):
                found[name] = output

        return hook

    handles = [served.get_submodule(name).register_forward_hook(keep(name)) for name in modules]
    try:
        served(*given.values())
    finally:
        for handle in handles:
            handle.remove()
    return found


def _difference(ours: Tensor, theirs: np.ndarray | None) -> float | None:
    """The largest one; None where the two can't be compared."""
    if theirs is None or tuple(ours.shape) != theirs.shape or not ours.is_floating_point():
        return None
    return float((ours.double() - torch.from_numpy(theirs).double()).abs().max())
