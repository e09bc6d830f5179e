"""What the values of masks mean: stated, or found in the masks themselves."""

from collections.abc import Mapping

import numpy as np

from project.batches import IGNORED
from project.errors import UserError
from project.findings import Finding


def meanings(
    pixels: np.ndarray, names: list[str], stated: Mapping[int, str] | None
) -> tuple[dict[int, str], list[Finding], np.ndarray]:
    """The classes by their value, in the order of the class numbers.

    255 is ignored, as is usual, unless it is stated to be a class, or the values are spread evenly
    from 0 to 255 to be told apart by eye, as in 0 and 255 or in 0, 128 and 255.

    Args:
        pixels: How many pixels of each value every mask has: int64 [N, 256].
        names: Of the masks, for the findings.
        stated: Name of the class by value; values of one name are one class. None takes the values
            that there are.

    Returns:
        The classes, what is wrong or worth knowing, and which masks hold an unknown value: bool
        [N].

    Raises:
        UserError: There are fewer than two classes.
    """
    found = np.flatnonzero(pixels.sum(0)).tolist()
    if stated is None:
        used = found if _spread_evenly(found) else [v for v in found if v != IGNORED]
        classes = {value: str(value) for value in used}
    else:
        classes = dict(stated)
    if len(set(classes.values())) < 2 or not all(0 <= value <= 255 for value in classes):
        raise UserError(
            f"The masks have the classes {classes}; needed are two or more, of values from 0 to "
            "255, such as --data.classes '{0: background, 255: cell}'."
        )
    findings = [
        Finding(
            "note", "values of the masks", [(f"{v} is {name}", "") for v, name in classes.items()]
        )
    ]
    unknown = [value for value in found if value not in classes and value != IGNORED]
    holds: np.ndarray = np.isin(np.arange(len(pixels)), np.nonzero(pixels[:, unknown])[0])
    if unknown:
        items = [
            (
                names[row],
                ", ".join(f"{v}: {pixels[row, v]:,} pixels" for v in unknown if pixels[row, v]),
            )
            for row in np.flatnonzero(holds)
        ]
        findings.append(
            Finding("error", "masks with values that stand for no class", items,
                    "Name them in --data.classes, or give these pixels the value 255, which is "
                    "ignored; or leave the images out: --data.on_bad skip.", skippable=True)
        )  # fmt: skip
    ignored = int(pixels[:, IGNORED].sum())
    if ignored and IGNORED not in classes:
        share = ignored / max(1, int(pixels.sum()))
        findings.append(Finding("note", f"{share:.1%} of the pixels are {IGNORED}: ignored"))
    return classes, findings, holds


def _spread_evenly(values: list[int]) -> bool:
    even = np.linspace(0, 255, len(values))
    return len(values) > 1 and bool((abs(np.array(values) - even) <= 1).all())


def names_of(classes: Mapping[int, str]) -> list[str]:
    """What the class numbers 0, 1, … mean; values of one name are one class."""
    return list(dict.fromkeys(classes.values()))


def numbers_of(classes: Mapping[int, str]) -> np.ndarray:
    """The class number of each value; `IGNORED` where it stands for no class: uint8 [256]."""
    names = names_of(classes)
    lookup = np.full(256, IGNORED, dtype=np.uint8)
    for value, name in classes.items():
        lookup[value] = names.index(name)
    return lookup
