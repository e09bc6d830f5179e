"""Generated movements of a pen: sequences that need no download."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

PER_KIND = 200
SHORTEST, LONGEST = 20, 80  # steps


def _corners(*points: tuple[float, float]) -> Callable[[np.ndarray], np.ndarray]:
    """Along a closed line from corner to corner, as much of it each time."""
    closed = np.array([*points, points[0]])
    places = np.linspace(0, 1, len(closed))
    return lambda u: np.stack([np.interp(u, places, axis) for axis in closed.T], axis=1)


def _circle(u: np.ndarray) -> np.ndarray:
    return np.stack([np.cos(2 * np.pi * u), np.sin(2 * np.pi * u)], axis=1)


def _around(count: int, step: int) -> Callable[[np.ndarray], np.ndarray]:
    """A polygon, or with a step above 1 a star."""
    corners = _circle(np.arange(count) * step / count)
    return _corners(*[(float(x), float(y)) for x, y in corners])


KINDS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "circle": _circle,
    "eight": lambda u: np.stack([np.sin(2 * np.pi * u), 0.7 * np.sin(4 * np.pi * u)], axis=1),
    "spiral": lambda u: (0.1 + 0.9 * u[:, None]) * _circle(2 * u),
    "square": _around(4, 1),
    "star": _around(5, 2),
    "triangle": _around(3, 1),
    "wave": lambda u: np.stack([2 * u - 1, 0.4 * np.sin(6 * np.pi * u)], axis=1),
    "zigzag": lambda u: np.stack([2 * u - 1, 0.8 * np.abs(6 * u % 2 - 1) - 0.4], axis=1),
}
"""Where the pen is, [T, 2], by how far it has come, [T] from 0 to 1."""

_CLOSED = {"circle", "eight", "square", "star", "triangle"}


def curves() -> tuple[list[Tensor], list[str]]:
    """Curves, float [T, 2], and the kind of each; the same ones each time.

    Each has its own size, proportions, direction, tilt, beginning and speed, which changes on the
    way; the hand trembles.
    """
    generator = np.random.default_rng(0)
    drawn = [(_drawn(kind, generator), kind) for kind in KINDS for _ in range(PER_KIND)]
    return [curve for curve, _ in drawn], [kind for _, kind in drawn]


def _drawn(kind: str, generator: np.random.Generator) -> Tensor:
    length = int(generator.integers(SHORTEST, LONGEST, endpoint=True))
    along, marks = np.linspace(0, 1, length), np.linspace(0, 1, 5)
    speed = np.interp(along, marks, generator.uniform(0.4, 1.6, 5))
    u = np.cumsum(speed) / speed.sum()  # [T]
    if kind in _CLOSED:
        u = (u + generator.uniform()) % 1
    if generator.uniform() < 0.5:
        u = 1 - u
    points = KINDS[kind](u) * generator.uniform(0.8, 1.2, 2)
    tilt = generator.uniform(-0.4, 0.4)  # radians
    turn = np.array([[np.cos(tilt), -np.sin(tilt)], [np.sin(tilt), np.cos(tilt)]])
    points = points @ turn + generator.normal(0, 0.1, 2) + generator.normal(0, 0.02, (length, 2))
    return torch.tensor(points, dtype=torch.float32)
