"""Weights of a file and the module they are meant for: read safely, compared, said readably."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from project.errors import UserError
from project.runs import rooted

ENOUGH = 0.9
"""Share of a pretrained body's tensors, and of its numbers, that must be in the file."""

_SHOWN = 5
_WRAPPERS = {
    "module.": "DistributedDataParallel or DataParallel",
    "_orig_mod.": "torch.compile",
    "model.": "another class that held it as `model`",
}
_HOLDERS = (*_WRAPPERS, "network.", "body.")  # the last two are what we hold networks by
_HELD = re.compile(rf"^(?:{'|'.join(map(re.escape, _HOLDERS))})+")
_COUNTER = "num_batches_tracked"  # older files lack it, and nothing is computed from it
_NESTED = ("state_dict", "model_state_dict", "model")


def read_file(path: str | Path, what: str = "weights file") -> Any:
    """What a safetensors or a torch file holds, on the CPU, as data only: nothing in it is run.

    Args:
        path: The file; relative to the working directory or else to the project's root.
        what: What it is meant to be, for the messages.

    Raises:
        UserError: There is no such file, or it can't be read, or it holds more than data.
    """
    given = Path(path).expanduser()
    tried = list(dict.fromkeys(each.resolve() for each in (given, rooted(given))))
    found = [each for each in tried if each.is_file()]
    if not found:
        raise UserError(f"There is no {what} {' or '.join(map(str, tried))}.")
    try:
        if found[0].suffix == ".safetensors":
            return load_file(found[0])
        return torch.load(found[0], map_location="cpu", weights_only=True)
    except Exception as error:  # both raise several unrelated kinds
        raise UserError(
            f"{path} can't be read as a {what}: it is damaged, of another kind, or holds "
            "Python objects, which are never loaded from a file. The reader says: "
            f"{(str(error).splitlines() or [type(error).__name__])[0]}"
        ) from error


def tensors_of(content: Any, path: str | Path) -> dict[str, Tensor]:
    """The weights in a file's content, numbers of half precision as float32.

    Args:
        content: A state dictionary, or a checkpoint that holds one.
        path: Where it was read, for the message.

    Raises:
        UserError: There are no tensors by name.
    """
    nested = [content.get(key) for key in _NESTED] if isinstance(content, Mapping) else []
    for candidate in [*nested, content]:
        if isinstance(candidate, Mapping):
            found = {n: t for n, t in candidate.items() if isinstance(t, Tensor)}
            if found:
                half = (torch.float16, torch.bfloat16)
                return {n: t.float() if t.dtype in half else t for n, t in found.items()}
    raise UserError(f"{path} holds no weights: neither tensors by name nor one of {_NESTED}.")


def description_of(content: Any) -> dict[str, Any]:
    """What a checkpoint of ours says of the data it was trained on; empty if nothing.

    Args:
        content: What a file holds.
    """
    for part in content.values() if isinstance(content, Mapping) else []:
        description = part.get("description") if isinstance(part, Mapping) else None
        if isinstance(description, dict):
            return description
    return {}


def statistics_of(content: Any) -> dict[str, list[float]]:
    """Mean and standard deviation of the images that a checkpoint of ours was trained on, if known.

    Args:
        content: What a file holds.
    """
    numbers = description_of(content).get("preprocessing")
    if isinstance(numbers, Mapping) and {"mean", "std"} <= set(numbers):
        return {"mean": list(numbers["mean"]), "std": list(numbers["std"])}
    return {}


def renamed(stored: Mapping[str, Tensor], wanted: Collection[str]) -> dict[str, Tensor]:
    """Stored weights under the names wanted here, where they differ by a holder's prefix only.

    Args:
        stored: State dictionary from a file.
        wanted: Names in the module's state.
    """
    by_bare_name = {_bare(name): name for name in wanted}
    if any(number > 1 for number in Counter(map(_bare, stored)).values()) or len(
        by_bare_name
    ) < len(wanted):
        return dict(stored)  # without its prefixes a name would mean two things
    return {
        name if name in wanted else by_bare_name.get(_bare(name), name): tensor
        for name, tensor in stored.items()
    }


def without_counters(
    state: Mapping[str, Tensor], stored: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """A module's state without BatchNorm's batch counters that the file lacks, as old ones do."""
    return {n: t for n, t in state.items() if n in stored or not n.endswith(_COUNTER)}


def _bare(name: str) -> str:
    return _HELD.sub("", name.replace("_orig_mod.", ""))


@torch.no_grad()
def load_body(
    state: Mapping[str, Tensor],
    stored: Mapping[str, Tensor],
    *,
    head: Collection[str],
    source: str | Path,
    keep_head: bool = True,
) -> str:
    """Copy pretrained weights into a module, all of it or nearly; its head only if it fits.

    Args:
        state: The module's own state, written to.
        stored: State dictionary from a file.
        head: The names in `state` that another number of outputs changes.
        source: Where the weights are from, for the messages.
        keep_head: False leaves the head as it is, even if the stored one would fit.

    Returns:
        One line that says what was taken, what was left out, what is new.

    Raises:
        UserError: The file has too little of the body; says what each side has.
    """
    stored = renamed(stored, state)
    state = without_counters(state, stored)
    fits = {n for n, tensor in state.items() if n in stored and stored[n].shape == tensor.shape}
    if not (keep_head and fits >= set(head)):
        fits -= set(head)
    body = {name: tensor.numel() for name, tensor in state.items() if name not in head}
    taken = {name: count for name, count in body.items() if name in fits}
    of_tensors = len(taken) / max(1, len(body))
    of_numbers = sum(taken.values()) / max(1, sum(body.values()))
    if min(of_tensors, of_numbers) < ENOUGH:
        differences = _differences(stored, {n: t for n, t in state.items() if n not in head})
        raise UserError(
            f"Of this network's body, {source} has {len(taken)} of {len(body)} tensors "
            f"({of_numbers:.0%} of the numbers); below {ENOUGH:.0%} they are taken for those of "
            f"another network. {differences}"
        )
    for name in fits:
        state[name].copy_(stored[name])
    return _report(state, stored, fits, head, source)


def _report(
    state: Mapping[str, Tensor],
    stored: Mapping[str, Tensor],
    fits: Collection[str],
    head: Collection[str],
    source: str | Path,
) -> str:
    """What was taken, left out and new, in one line."""
    share = sum(state[n].numel() for n in fits) / max(1, sum(t.numel() for t in state.values()))
    parts = [f"matched {len(fits)} of {len(state)} tensors ({share:.0%} of the numbers)"]
    for what, names in {
        "left out": [name for name in stored if name not in fits],
        "new": [name for name in state if name not in fits],
    }.items():
        if names:
            parts.append(f"{what}: {_first(names)}")
    if head and not set(head) <= set(fits):
        last = sorted(head)[-1]
        instead = f" instead of {len(stored[last])}" if last in stored else ""
        parts.append(f"the head is a new one, of {len(state[last])} outputs" + instead)
    return f"weights from {source}: {'; '.join(parts)}"


def check_fits(stored: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    """Compare a stored state with that of the module it is meant for.

    Args:
        stored: State dictionary from a file.
        wanted: State dictionary of the module.

    Raises:
        UserError: They differ in a name or a shape; says which, and the likely cause.
    """
    differences = _differences(stored, wanted)
    if differences:
        raise UserError(f"The checkpoint's weights do not fit this model. {differences}")


def _differences(stored: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> str:
    """What differs, and the likely cause; empty if nothing does."""
    missing = [name for name in wanted if name not in stored]
    unexpected = [name for name in stored if name not in wanted]
    reshaped = [
        f"{name} {list(stored[name].shape)} in the file, {list(wanted[name].shape)} here"
        for name in wanted
        if name in stored and stored[name].shape != wanted[name].shape
    ]
    if not (missing or unexpected or reshaped):
        return ""
    lists = {"missing": missing, "unexpected": unexpected, "of another shape": reshaped}
    parts = [f"{len(names)} {what}: {_first(names)}" for what, names in lists.items() if names]
    return f"{'. '.join(parts)}. {_likely_cause(missing, unexpected, reshaped)}"


def _first(names: Iterable[str]) -> str:
    names = list(names)
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
