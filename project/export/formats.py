"""The formats: each function here writes a served model into one file, contract inside."""

import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.export import Dim

from project.export.served import Served

OPSET = 20
"""Of ONNX: the default of torch's exporter, whose operators are written for 18 and later."""

CONTRACT = "contract.json"
"""The name of the contract: of its file, and of the entry in every format's own metadata."""

Example = tuple[Tensor, ...]


def onnx(served: Served, example: Example, contract: str, path: Path) -> None:
    """One ONNX file, through torch.export; the older exporter knows no antialiased resize."""
    names = list(served.inputs)
    program = torch.onnx.export(
        served,
        example,
        input_names=names,
        output_names=served.output_names,
        opset_version=OPSET,
        dynamic_shapes=_free(served),
        dynamo=True,
        external_data=False,
        verbose=False,
    )
    assert program is not None  # only without dynamo
    _name_dimensions(program.model, served)
    program.model.metadata_props[CONTRACT] = contract
    program.save(path, external_data=False)


def exported_program(served: Served, example: Example, contract: str, path: Path) -> None:
    """A program of torch.export, for `torch.export.load(path).module()`."""
    program = torch.export.export(served, example, dynamic_shapes=_free(served))
    torch.export.save(program, path, extra_files={CONTRACT: contract})


def torchscript(served: Served, example: Example, contract: str, path: Path) -> str:
    """Traced; the network scripted first if it takes another way for other inputs.

    Tracing reads any Python but follows the example's way alone; scripting keeps both ways of a
    branch, but reads only some Python.

    Returns:
        Which of the two, and why.
    """
    with _deprecation_accepted(), torch.no_grad(), warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always", torch.jit.TracerWarning)
        traced, how = torch.jit.trace(served, example), "traced"
        if any(issubclass(each.category, torch.jit.TracerWarning) for each in doubts):
            network = served.network
            try:
                served.network = torch.jit.script(network)
                traced = torch.jit.trace(served, example)
                how = "network scripted: what it does depends on its input"
            except Exception as error:  # scripting may raise anything; the check decides on a trace
                how = f"traced; it can not be scripted ({type(error).__name__})"
            finally:
                served.network = network
        traced.save(str(path), _extra_files={CONTRACT: contract})
    return how


def safetensors(served: Served, example: Example, contract: str, path: Path) -> None:
    """The network's weights alone, under the names of its own state: to train on, or to share."""
    from safetensors.torch import save_model

    save_model(served.network, str(path), metadata={"format": "pt", CONTRACT: contract})
    path.chmod(0o644)  # it is written for its owner alone, but a server is often someone else


WRITERS: dict[str, Callable[[Served, Example, str, Path], str | None]] = {
    "onnx": onnx,
    "pt2": exported_program,
    "ts": torchscript,
    "safetensors": safetensors,
}
"""By the names of `project.export.FORMATS`."""


def _free(served: Served) -> tuple[tuple[dict[int, Dim], ...], ...]:
    """Which dimensions of the inputs may change; AUTO is right for recurrent networks as well."""
    return (
        tuple(dict.fromkeys(range(len(kind.dynamic)), Dim.AUTO) for kind in served.inputs.values()),
    )


def _name_dimensions(model: Any, served: Served) -> None:
    """Call the free dimensions of an ONNX graph what the contract calls them, not "s21"."""
    called: dict[str, str] = {}
    for value, kind in zip(model.graph.inputs, served.inputs.values(), strict=True):
        called |= {str(value.shape[n]): name for n, name in enumerate(kind.dynamic)}
    for value in (*model.graph.inputs, *model.graph.outputs):
        for position, dimension in enumerate(value.shape):
            value.shape[position] = called.get(str(dimension), dimension)


@contextmanager
def _deprecation_accepted() -> Generator[None]:
    """TorchScript is on its way out, and still what some servers run: don't say so every time."""
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", r".*torch\.jit\..* is (deprecated|not supported)", FutureWarning
        )
        yield
