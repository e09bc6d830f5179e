"""What a command takes: the tree of its options, put together from the sources.

The top of the tree is a class that does not exist: its parameters are `trainer`, `model`, `data`
and all else that a key may start with.
"""

import ast
from functools import cache

from project.cli import catalog
from project.cli.catalog import Class, Parameter
from project.cli.sources import source_of

NETWORKS, OPTIMIZERS = "project.models", "torch.optim"
LOADERS = {"train_dataloaders", "val_dataloaders", "dataloaders"}
GIVEN_BY_US = {"model", "datamodule", "folder", *LOADERS}
SEED = "Seed of all randomness: the same seed and config give the same run; true draws one."


@cache
def of_verb(verb: str) -> Class:
    """All that may stand at the start of a key of a verb's config or options."""
    groups = {"trainer": "project.trainer.Trainer", **_groups()}
    parameters = {n: Parameter(n, refers_to=(path,), is_group=True) for n, path in groups.items()}
    for name, base in {"model": "project.tasks.Task", "data": "project.data.DataModule"}.items():
        parameters[name] = Parameter(name, refers_to=(base,))
    parameters["seed_everything"] = Parameter(
        "seed_everything", "int | bool", _keyword("seed_everything_default"), SEED
    )
    parameters["ckpt_path"] = Parameter("ckpt_path")
    unknown_verb = catalog.method("project.trainer.Trainer", verb) is None
    return Class("", "", {**parameters, **own_options(verb)}, takes_all=unknown_verb)


def own_options(verb: str) -> dict[str, Parameter]:
    """What only this verb takes: the arguments of the trainer's method of that name."""
    arguments = catalog.method("project.trainer.Trainer", verb) or {}
    return {n: each for n, each in arguments.items() if n not in GIVEN_BY_US}


@cache
def supplied() -> set[str]:
    """Arguments of tasks and networks that the data gives, so that no config has to."""
    batches = source_of("project.batches")
    assert batches is not None
    tables = [batches.defined[name] for name in ("SIZES", "MEANINGS")]
    written = [each.value for each in tables if isinstance(each, ast.Assign)]
    return {name for each in written for name in ast.literal_eval(each)}


def _calls(*names: str) -> list[ast.Call]:
    """The calls of some functions in `commands.py`, which says what the parser is made of."""
    commands = source_of("project.cli.commands")
    assert commands is not None
    return [
        node
        for node in ast.walk(commands.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in names
    ]


def _groups() -> dict[str, str]:
    commands = source_of("project.cli.commands")
    assert commands is not None
    return {
        ast.literal_eval(call.args[1]): commands.path_of(call.args[0])
        for call in _calls("add_lightning_class_args", "add_class_arguments")
    }


def _keyword(name: str) -> str | None:
    given = [k.value for call in _calls("__init__") for k in call.keywords if k.arg == name]
    return ast.unparse(given[0]) if given else None


def group(parameter: Parameter) -> Class | None:
    """The class whose arguments are keys directly below this one, if it has such."""
    for path in parameter.refers_to:
        found = catalog.known(path) if parameter.is_group or path.startswith("project.") else None
        if found and (parameter.is_group or found.is_dataclass):
            return found
    return None


def choices(parameter: Parameter) -> dict[str, Class] | None:
    """The classes to choose from, by full path; None if it is no choice between classes we know."""
    for path in parameter.refers_to:
        if path.endswith(".OptimizerCallable"):
            found = catalog.classes_in(OPTIMIZERS)
            return {p: c for p, c in found.items() if c.path != "torch.optim.optimizer.Optimizer"}
        if path == "torch.nn.Module":
            return catalog.classes_in(NETWORKS)
        base = catalog.known(path) if path.startswith("project.") else None
        if base and not base.is_dataclass:
            package = ".".join(base.path.split(".")[:2])
            found = catalog.classes_in(package).items()
            return {p: c for p, c in found if not c.unimplemented and _descends(c, base.path)}
    return None


def _descends(found: Class, path: str) -> bool:
    if found.path == path:
        return True
    bases = [catalog.known(base) for base in found.bases if base.startswith("project.")]
    return any(_descends(base, path) for base in bases if base)
