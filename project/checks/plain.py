"""The training samples as they are without augmentation."""

import copy
from typing import Any

import numpy as np
from torch import Tensor, nn

_DEEPEST = 3  # attributes of attributes in which an augmentation is looked for
_MOST = 50  # entries of a list that are looked at


class Unchanged(nn.Identity):
    """Gives back what it is given, also several things at once."""

    def forward(self, *given: Any) -> Any:  # ty: ignore[incompatible-method-override]
        return given[0] if len(given) == 1 else given


def without_augmentation(value: Any, depth: int = 0) -> Any:
    """A copy of a data set in which each `augmentation` does nothing, also that of what it holds.

    Args:
        value: The data set, or something in it.
        depth: How deep in it that is.

    Returns:
        The same object where there is no augmentation.
    """
    if isinstance(value, Tensor | np.ndarray | nn.Module) or depth > _DEEPEST:
        return value
    if isinstance(value, dict | list | tuple):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        if len(value) > _MOST:
            return value
        new = {key: without_augmentation(each, depth + 1) for key, each in items}
        if all(new[key] is value[key] for key in new):
            return value
        return new if isinstance(value, dict) else type(value)(new.values())
    changed: dict[str, Any] = {}
    for name, each in getattr(value, "__dict__", {}).items():
        if name == "augmentation" and callable(each) and not isinstance(each, nn.Identity):
            changed[name] = Unchanged()
        elif (new := without_augmentation(each, depth + 1)) is not each:
            changed[name] = new
    if not changed:
        return value
    plain = copy.copy(value)
    for name, each in changed.items():
        object.__setattr__(plain, name, each)
    return plain
