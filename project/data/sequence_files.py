"""Files that hold one sequence each: arrays, columns of numbers, sounds."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from project.data.folders import Kind
from project.data.sounds import LogMel, Sound, read_wav
from project.data.tables import SEPARATORS

SEQUENCES = Kind("sequence", frozenset({".npy", ".csv", ".tsv", ".txt", ".wav"}))


@dataclass
class Recording:
    """What a file holds.

    Args:
        values: float [T, F].
        rate: Steps per second before any were put together; 0 if the file does not say.
    """

    values: Tensor
    rate: int = 0


def read_sequence(path: Path, sound: Sound) -> Recording:
    """Read a file by its ending.

    Raises:
        ValueError: It can't be read, is empty, or holds what is no finite number; the message does
            not name it.
    """
    ending = path.suffix.lower()
    try:
        recording = _wav(path, sound) if ending == ".wav" else Recording(READERS[ending](path))
    except OSError as error:
        raise ValueError(str(error.strerror or error)) from error
    except KeyError:
        raise ValueError(f"no known kind of file; known are {sorted(SEQUENCES.endings)}") from None
    if not recording.values.numel():
        raise ValueError("it is empty")
    if not recording.values.isfinite().all():
        raise ValueError("it holds NaN or infinite numbers")
    return recording


def _npy(path: Path) -> Tensor:
    array = np.load(path, allow_pickle=False)
    if array.ndim not in (1, 2) or array.dtype.kind not in "fiub":
        raise ValueError(
            f"an array of {array.dtype} {list(array.shape)}; it must be numbers [steps] or "
            "[steps, channels]"
        )
    if not array.size:
        raise ValueError("it is empty")
    return torch.from_numpy(array.astype(np.float32).reshape(len(array), -1))


def _text(path: Path) -> Tensor:
    """A step per line, a channel per column; a first line of names is passed over."""
    lines = [line for line in path.read_text("utf-8-sig").splitlines() if line.strip()]
    if not lines:
        raise ValueError("it is empty")
    separator = max(SEPARATORS, key=lines[0].count)
    rows = [line.split(separator if separator in lines[0] else None) for line in lines]
    if not _are_numbers(rows[0]):
        rows = rows[1:]
    return torch.from_numpy(np.array(rows, dtype=np.float32).reshape(len(rows), -1))


def _are_numbers(cells: list[str]) -> bool:
    try:
        [float(cell) for cell in cells]
    except ValueError:
        return False
    return True


def _wav(path: Path, sound: Sound) -> Recording:
    waveform, rate = read_wav(path)
    if sound.features == "raw" or not len(waveform):
        return Recording(waveform, rate)
    return Recording(_spectrogram(rate, *vars(sound).values())(waveform.mean(1)), rate)


@cache
def _spectrogram(rate: int, *settings: object) -> LogMel:
    return LogMel(rate, Sound(*settings))  # ty: ignore[invalid-argument-type]


READERS: dict[str, Callable[[Path], Tensor]] = {
    ".npy": _npy, ".csv": _text, ".tsv": _text, ".txt": _text,
}  # fmt: skip
