"""The text format .ts of the UEA & UCR time series archive, as aeon and sktime write it."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from project.errors import UserError


@dataclass
class Series:
    """The sequences of one file.

    Args:
        values: float [T, F] each.
        labels: The class of each, as written.
        lines: Line of the file in which each stands.
    """

    values: list[Tensor]
    labels: list[str]
    lines: list[int]


def read_ts(path: Path) -> Series:
    """Read a .ts file: after `@data` a sequence per line, its channels between `:`, the class last.

    Raises:
        UserError: It is none, has no classes, or a line can't be read; times of their own and
            missing values (`?`) are not supported.
    """
    lines = enumerate(path.read_text("utf-8-sig").splitlines(), 1)
    kept = [(n, line.strip()) for n, line in lines if line.strip() and line[0] != "#"]
    start = next((n for n, (_, line) in enumerate(kept) if line.lower() == "@data"), None)
    if start is None:
        raise UserError(f"{path} is no .ts file: there is no line @data.")
    said = {line.lower().split()[0]: line.lower().split()[1:] for _, line in kept[:start]}
    data = kept[start + 1 :]
    if said.get("@timestamps") == ["true"]:
        raise UserError(f"{path} has a time for every value (@timeStamps true), not supported.")
    if said.get("@classlabel", ["false"])[0] != "true":
        raise UserError(f"{path} has no classes (@classLabel true, and their names).")
    parsed = [_sequence(path, number, line) for number, line in data]
    if not parsed:
        raise UserError(f"{path} has no sequence after @data.")
    values, labels = zip(*parsed, strict=True)
    return Series(list(values), list(labels), [number for number, _ in data])


def _sequence(path: Path, number: int, line: str) -> tuple[Tensor, str]:
    *channels, label = line.split(":")
    try:
        values = np.array([channel.split(",") for channel in channels], dtype=np.float32)
    except ValueError as error:
        raise UserError(
            f"{path}, line {number}: {error}. Every channel needs as many numbers as the others."
        ) from None
    if not np.isfinite(values).all():
        raise UserError(f"{path}, line {number}: NaN or infinite numbers. Fill them in first.")
    return torch.from_numpy(values.T.copy()), label.strip()
