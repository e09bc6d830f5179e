"""Which parameters are trained how: groups with their own decay and learning rate."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from project.errors import UserError


@dataclass(frozen=True)
class Part:
    """Parameters that are trained at a learning rate of their own.

    Args:
        name: What the part is called in `metrics.csv`, as `lr_<name>`.
        lr_factor: What the optimizer's learning rate is multiplied with.
        parameters: Names of its parameters; other names are ignored.
    """

    name: str
    lr_factor: float
    parameters: Collection[str]


def parameter_groups(network: nn.Module, parts: Sequence[Part] = ()) -> list[dict[str, Any]]:
    """Trainable parameters: weights, and biases and normalisation without decay, of each part.

    Weight decay pulls towards 0, which means something for weights that are multiplied with inputs;
    a bias or a normalisation's scale has nothing to gain from it. Those are the parameters with
    fewer than two dimensions.

    Args:
        network: What is trained.
        parts: Those with a learning rate of their own; of several with the same parameter, the
            first counts. All else comes first.

    Raises:
        UserError: No parameter is trainable.
    """
    trainable = {name: p for name, p in network.named_parameters() if p.requires_grad}
    if not trainable:
        raise UserError(
            f"No parameter of {type(network).__name__} is trainable (requires_grad is False "
            "everywhere), so there is nothing to train."
        )
    part_of = {name: part for part in reversed(parts) for name in part.parameters}
    groups: list[dict[str, Any]] = []
    for part in (None, *parts):
        own = [p for name, p in trainable.items() if part_of.get(name) is part]
        of_part = {"part": part.name, "lr_factor": part.lr_factor} if part else {}
        start = f"{part.name}." if part else ""
        weights, rest = [p for p in own if p.ndim >= 2], [p for p in own if p.ndim < 2]
        groups += [
            {"params": weights, "name": f"{start}weights", **of_part},
            {"params": rest, "name": f"{start}no_decay", "weight_decay": 0.0, **of_part},
        ]
    return [group for group in groups if group["params"]]


def check_same_groups(network: nn.Module, saved: Any, now: list[dict[str, Any]]) -> None:
    """Make sure that a checkpoint's optimizer state goes to the parameters it is about.

    Args:
        network: What is trained.
        saved: What `group_names` said when the checkpoint was written; None if it did not.
        now: The groups of this run.

    Raises:
        UserError: A parameter has come, gone or changed its group.
    """
    names = group_names(network, now)
    if saved is None or saved == names:
        return
    before = {name: group for group, members in saved.items() for name in members}
    here = {name: group for group, members in names.items() for name in members}
    changed = sorted(name for name in {*before, *here} if before.get(name) != here.get(name))
    name = changed[0] if changed else next(iter(here))
    raise UserError(
        f"The checkpoint's optimizer has other parameters than this run's: {len(changed)} differ, "
        f"such as {name}, which was in the group {before.get(name)!r} and is now in "
        f"{here.get(name)!r} (None: never trained). Go on with the run's own settings of freezing "
        "(freeze, unfreeze, lr_factors, batch_norm), or start a new run with --init_from."
    )


def group_names(network: nn.Module, groups: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The names of the parameters in each group, by the name of the group."""
    names = {parameter: name for name, parameter in network.named_parameters()}
    return {group["name"]: [names[p] for p in group["params"]] for group in groups}
