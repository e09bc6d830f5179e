"""Which parts of a network are trained, from when on, and what their BatchNorm layers do.

A pattern is the name of a module or parameter, such as `body` or `body.layer4.0.conv1.weight`, in
which `*` stands for any characters. It means everything below as well.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from project.errors import UserError, suggestion

MAX_GROUPS = 32  # of channels, as in arXiv:1803.08494


@dataclass(frozen=True)
class Plan:
    """From which epoch on the parts of a network are trained; what is not in here always is.

    Args:
        parameters: First epoch by name, counted from 0; None for never.
        modules: The same for the modules, which are in evaluation mode until then.
    """

    parameters: dict[str, int | None]
    modules: dict[str, int | None]


def begun(start: int | None, epoch: int) -> bool:
    """Whether what is trained from an epoch on (None: never) is trained in this one."""
    return start is not None and start <= epoch


def plan(
    network: nn.Module,
    freeze: Collection[str],
    unfreeze: Mapping[int, Collection[str]],
    *,
    fixed: Collection[str] = (),
    free: Collection[str] = (),
) -> Plan:
    """Work out when each part of a network is trained.

    Args:
        network: The network.
        freeze: Patterns of what is frozen.
        unfreeze: Patterns of what is trained after all, by the epoch from which on.
        fixed: Names of modules that stay in evaluation mode even when they are trained.
        free: Names of modules that are trained from the start, although they are in `freeze`.

    Raises:
        UserError: A pattern matches nothing.
    """
    parameters, names = dict(network.named_parameters()), part_names(network)
    frozen = matching(names, freeze, "freezing.freeze")
    starts: dict[str, int | None] = dict.fromkeys(sorted(frozen), None)
    for epoch in sorted(unfreeze, reverse=True):  # of several, the first epoch is what counts
        for name in matching(frozen, unfreeze[epoch], "freezing.unfreeze"):
            starts[name] = epoch
    starts |= dict.fromkeys(_below(names, free), 0)
    modules = {name: start for name, start in starts.items() if name not in parameters}
    return Plan(
        parameters={name: start for name, start in starts.items() if name in parameters},
        modules={**modules, **dict.fromkeys(fixed, None)},
    )


def part_names(network: nn.Module) -> list[str]:
    """What patterns are compared with: the names of all modules and parameters."""
    modules = [name for name, _ in network.named_modules() if name]
    return modules + [name for name, _ in network.named_parameters()]


def matching(names: Iterable[str], patterns: Iterable[str], setting: str) -> set[str]:
    """The names that a pattern matches, and all below them.

    Args:
        names: Of modules and parameters.
        patterns: As the module's docstring says.
        setting: Where the patterns come from, for the message.

    Raises:
        UserError: A pattern matches nothing.
    """
    names = list(names)
    found: set[str] = set()
    for pattern in patterns:
        hit = _below(names, [name for name in names if fnmatchcase(name, pattern)])
        if not hit:
            near_the_top = [name for name in names if name.count(".") < 3]
            raise UserError(
                f"{setting} has {pattern!r}, which matches no part of the network there."
                + suggestion(pattern, near_the_top)
            )
        found |= hit
    return found


def _below(names: Iterable[str], tops: Collection[str]) -> set[str]:
    """Those of the names that are, or lie in, one of the tops."""
    among = set(tops)
    return {
        name
        for name in names
        if name in among or any(name[:i] in among for i, c in enumerate(name) if c == ".")
    }


def batch_norms(network: nn.Module, names: Collection[str]) -> list[str]:
    """The BatchNorm layers that are, or own a parameter, among some names."""
    among = set(names)
    return [
        name
        for name, layer in network.named_modules()
        if isinstance(layer, _BatchNorm)
        and among & {name, *(f"{name}.{own}" for own, _ in layer.named_parameters())}
    ]


def replace_batch_norms(network: nn.Module, names: Collection[str]) -> list[str]:
    """Put group normalisation, which has no statistics, in the place of BatchNorm layers.

    Scale and shift are taken over. An activation that is part of the layer, as in timm, is kept.

    Args:
        network: Changed in place.
        names: Of the layers; others than BatchNorm are left alone.

    Returns:
        The names of those replaced.

    Source: Wu and He, "Group normalization", 2018 (arXiv:1803.08494).
    """
    found = {name: m for name, m in network.named_modules() if isinstance(m, _BatchNorm)}
    replaced = [name for name in names if name in found]
    for name in replaced:
        old = found[name]
        groups = max(n for n in range(1, MAX_GROUPS + 1) if old.num_features % n == 0)
        norm: nn.Module = nn.GroupNorm(groups, old.num_features, eps=old.eps, affine=old.affine)
        norm.load_state_dict(dict(old.named_parameters()))
        norm.to(next((parameter.device for parameter in old.parameters()), None))
        activation = getattr(old, "act", None)
        if isinstance(activation, nn.Module):
            norm = nn.Sequential(norm, activation)
        network.set_submodule(name, norm)
    return replaced
