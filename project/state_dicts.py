"""Weights that do not fit, said readably."""

from collections.abc import Mapping

from torch import Tensor

from project.errors import UserError

_SHOWN = 5
_WRAPPERS = {
    "module.": "DistributedDataParallel or DataParallel",
    "_orig_mod.": "torch.compile",
    "model.": "another class that held it as `model`",
}


def check_fits(stored: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    """Compare a stored state with that of the module it is meant for.

    Args:
        stored: State dictionary from a file.
        wanted: State dictionary of the module.

    Raises:
        UserError: They differ in a name or a shape; says which, and the likely cause.
    """
    missing = [name for name in wanted if name not in stored]
    unexpected = [name for name in stored if name not in wanted]
    reshaped = [
        f"{name} {list(stored[name].shape)} in the file, {list(wanted[name].shape)} here"
        for name in wanted
        if name in stored and stored[name].shape != wanted[name].shape
    ]
    if not (missing or unexpected or reshaped):
        return
    lists = {"missing": missing, "unexpected": unexpected, "of another shape": reshaped}
    parts = [f"{len(names)} {what}: {_first(names)}" for what, names in lists.items() if names]
    raise UserError(
        f"The checkpoint's weights do not fit this model. {'. '.join(parts)}. "
        + _likely_cause(missing, unexpected, reshaped)
    )


def _first(names: list[str]) -> str:
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return "; ".join(names[:_SHOWN]) + more


def _likely_cause(missing: list[str], unexpected: list[str], reshaped: list[str]) -> str:
    for prefix, wrapper in _WRAPPERS.items():
        if unexpected and all(prefix in name for name in unexpected):
            return f"Likely cause: the weights were saved from {wrapper}, which added {prefix!r}."
    if reshaped and not missing and not unexpected:
        return (
            "Likely cause: another width, depth or number of classes. Use the settings the "
            "checkpoint was made with (its run's config.yaml has them)."
        )
    return "Likely cause: another network, or layers that were renamed."
