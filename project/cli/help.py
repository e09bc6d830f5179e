"""`--help`, read from the sources: in a fraction of a second, and always true."""

import ast
import re
import textwrap
from collections.abc import Iterable
from importlib import import_module

from project.cli import LIGHTNING_VERBS, OTHER_VERBS, catalog, options
from project.cli.catalog import Class, Parameter
from project.runs import project_root

WIDTH = 100
_PARSERS = {
    "export": "project.export.command",
    "predict BUNDLE": "project.serving.predict",
    "repeat": "project.studies.repeat",
    "search": "project.studies.search",
    "serve": "project.serving.command",
}
MOST_USED = (
    "max_epochs", "max_steps", "max_time", "accelerator", "devices", "strategy", "precision",
    "accumulate_grad_batches", "gradient_clip_val", "check_val_every_n_epoch", "val_check_interval",
    "limit_train_batches", "limit_val_batches", "limit_test_batches", "limit_predict_batches",
    "overfit_batches", "fast_dev_run", "deterministic", "detect_anomaly", "logger", "callbacks",
    "profiler",
)  # fmt: skip
ONLY_WHEN_TRAINING = {
    "max_epochs", "max_steps", "max_time", "accumulate_grad_batches", "gradient_clip_val",
    "check_val_every_n_epoch", "val_check_interval", "limit_train_batches", "overfit_batches",
    "detect_anomaly",
}  # fmt: skip
GROUPS = {
    "fit": (
        "checkpoint",
        "freezing",
        "non_finite",
        "clipping",
        "ema",
        "data_wait",
        "progress",
        "run",
    ),
    "predict": ("predictions", "progress", "run"),
}
WHICH_CHECKPOINT = {
    True: "Start from these weights: a checkpoint, a run's directory (its last), best or last. By "
    "default training starts anew.",
    False: "A checkpoint, a run's directory (its best), best or last of the latest run; by default "
    "best.",
}
MODEL = "The model is the checkpoint's; its options are those of fit."

Row = tuple[str, str]


def overview() -> str:
    """What the program is and how to start; the answer to `python -m project --help`."""
    verbs = {**LIGHTNING_VERBS, **OTHER_VERBS}
    configs = sorted((project_root() / "configs").rglob("*.yaml"))
    parts = [
        "Train, evaluate and export PyTorch models: one config file is one experiment.",
        "usage: python -m project VERB [--config FILE ...] [--KEY VALUE ...]",
        _section("verbs", verbs.items()),
        _section(
            "configs",
            (
                (str(path.relative_to(project_root())), _header(path.read_text(encoding="utf-8")))
                for path in configs
            ),
        ),
        _section(
            "typical",
            [
                ("python -m project fit --config configs/digits.yaml", "train, then test"),
                ("python -m project fit --config configs/digits.yaml --data.batch_size 32", "vary"),
                ("python -m project fit --resume", "go on where the latest run ended"),
            ],
            widest=72,
        ),
        _section(
            "more",
            [
                ("python -m project VERB --help", "the options of a verb, with their defaults"),
                ("README.md, docs/", "how it is built, and why"),
            ],
        ),
    ]
    return "\n\n".join(parts)


def of_verb(verb: str) -> str:
    """The options of a verb; the answer to `python -m project fit --help`."""
    if verb == "runs":
        return _page_of_runs()
    # starter: template
    if verb in ("new", "rename"):
        return import_module("project.starter.command").parser(verb).format_help().rstrip()
    # /starter
    if verb in _PARSERS:
        return import_module(_PARSERS[verb]).parser().format_help().rstrip()
    tree = options.of_verb(verb)
    groups = {name: options.group(tree.parameters[name]) for name in _groups(verb)}
    return "\n\n".join(
        [
            f"{LIGHTNING_VERBS[verb]}\n",
            f"usage: python -m project {verb} [--config FILE ...] [--KEY VALUE ...]",
            _section("options", _own(verb, tree)),
            *(_section(f"--{n}", _rows(c, f"--{n}")) for n, c in groups.items() if c),
            _model(verb, tree),
            _classes("the data", "data", tree.parameters["data"]),
            _trainer(verb),
            textwrap.fill(
                "Every key can stand in a config file as well, where init_args goes between a "
                "class and its arguments. What is typed beats the files, a later file beats an "
                "earlier one. Every value that applies: "
                f"python -m project {verb} --config FILE --print_config",
                WIDTH,
            ),
        ]
    ).replace("\n\n\n", "\n\n")


def _model(verb: str, tree: Class) -> str:
    if verb in ("fit", "check", "tune"):
        return _classes("the problem", "model", tree.parameters["model"])
    return MODEL


def _groups(verb: str) -> tuple[str, ...]:
    return GROUPS.get(verb, ("progress", "run"))


def _own(verb: str, tree: Class) -> list[Row]:
    resume = "Continue a run where it ended: latest (the default), its name or its directory."
    start = "Start with the weights of a run or file and nothing else; short for --run.init_from."
    seed = tree.parameters["seed_everything"]
    return [
        ("--config FILE", "Looked up in the working directory, then in the project's root. May be "
         "repeated; a later file wins key by key."),
        *([("--resume [RUN]", resume), ("--init_from PATH", start)] if verb == "fit" else []),
        *([("--ckpt_path PATH|best|last", WHICH_CHECKPOINT[verb == "fit"])]
          if verb not in ("check", "tune") else []),
        *([(f"--{_left(each, '')[1:]}", each.meaning)
           for name, each in options.own_options(verb).items()
           if name in ("seconds", "write", "lr")]),
        (f"--seed_everything {seed.example}", seed.meaning),
        ("--print_config", "Show the whole config, with every default, and stop."),
    ]  # fmt: skip


def _rows(owner: Class, prefix: str) -> list[Row]:
    """The arguments of a class, those of a group among them below it."""
    rows: list[Row] = []
    for name, parameter in owner.parameters.items():
        group = options.group(parameter)
        if name in options.supplied():
            continue
        if group is not None:
            defaults = _given(parameter)
            inner = _rows(group, f"{prefix}.{name}")
            rows += [(_with_default(left, defaults), right) for left, right in inner]
        else:
            rows.append((_left(parameter, prefix), _plain(parameter.meaning)))
    return rows


def _left(parameter: Parameter, prefix: str) -> str:
    kind = parameter.type.removesuffix(" | None")
    if options.choices(parameter) is not None:
        kind = "CLASS"
    default = f" = {parameter.example}" if parameter.example is not None else ""
    required = "" if parameter.default else " (required)"
    return f"{prefix}.{parameter.name} {kind}{default}{required}"


def _given(parameter: Parameter) -> dict[str, str]:
    """Arguments that the default of a group gives, as in `loader = Loader(num_workers=0)`."""
    call = ast.parse(parameter.default or "None", mode="eval").body
    keywords = call.keywords if isinstance(call, ast.Call) else []
    return {str(keyword.arg): ast.unparse(keyword.value) for keyword in keywords}


def _with_default(left: str, given: dict[str, str]) -> str:
    key, _, default = left.partition(" = ")
    name = key.split(" ")[0].rpartition(".")[2]
    return f"{key} = {given[name]}" if name in given else left if default else key


def _classes(title: str, key: str, parameter: Parameter) -> str:
    """The classes to choose from for a key, each with its arguments, and the choices below them."""
    lines: list[str] = []
    below: dict[str, tuple[str, Parameter]] = {}
    for path, each in (options.choices(parameter) or {}).items():
        name = path if key == "model.network" else path.rpartition(".")[2]
        lines += ["", *_wrapped(f"  {name}: ", _plain(each.summary), 4)]
        lines += _table(_rows(each, f"--{key}"), 4)
        for inner in each.parameters.values():
            if options.choices(inner) is not None:
                below[f"{key}.{inner.name}"] = (inner.name, inner)
    text = "\n".join([f"--{key} CLASS: {title}", *lines[1:]])
    for inner_key, (name, inner) in below.items():
        if inner_key == "model.optimizer":
            text += "\n\n" + _optimizers(inner_key, inner)
        else:
            text += "\n\n" + _classes(f"the {name}", inner_key, inner)
    return text


def _optimizers(key: str, parameter: Parameter) -> str:
    """torch's, by name; the arguments of the default one."""
    found = options.choices(parameter) or {}
    names = ", ".join(path.rpartition(".")[2] for path in found)
    default = found.get(parameter.default or "")
    rows = _rows(default, f"--{key}") if default else []
    rows = [row for row in rows if not row[0].startswith(f"--{key}.params ")]
    head = f"--{key} CLASS: the optimizer, one of torch.optim"
    title = f"  {parameter.default}: the default"
    return "\n".join([head, *_wrapped("  ", names, 2), title, *_table(rows, 4)])


def _trainer(verb: str) -> str:
    trainer = catalog.known("project.trainer.Trainer")
    parameters = trainer.parameters if trainer else {}
    rows = []
    for name in MOST_USED:
        if name in parameters and (verb == "fit" or name not in ONLY_WHEN_TRAINING):
            parameter = parameters[name]
            told = re.search(r"Default: `*([^`]+?)`*\.?$", parameter.meaning)
            default = parameter.example or (told[1].strip("'\"").lower() if told else "none")
            shown = "" if default == "none" else f" = {default}"
            rows.append(
                (f"--trainer.{name}{shown}", _plain(catalog.first_sentence(parameter.meaning)))
            )
    return _section("--trainer (the most used options of Lightning's Trainer)", rows)


def _page_of_runs() -> str:
    from project import compare
    from project.compare.command import OPTIONS

    told = (compare.__doc__ or "").partition("\n\nNothing here")[0]
    return f"{told.strip()}\n\n{_section('options', OPTIONS.items())}"


def _header(text: str) -> str:
    first = text.partition("\n")[0]
    return first.lstrip("# ").strip() if first.startswith("#") else ""


def _plain(text: str) -> str:
    """Without the markup of docstrings."""
    return re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"\1", text).replace("`", "")


def _section(title: str, rows: Iterable[Row], widest: int = 46) -> str:
    return "\n".join([title, *_table(list(rows), 2, widest)])


def _table(rows: list[Row], indent: int, widest: int = 46) -> list[str]:
    """Two columns; a left side too long for its column has a line of its own."""
    lengths = [len(left) for left, _ in rows if len(left) <= widest]
    column = indent + max(lengths, default=0) + 2
    lines: list[str] = []
    for left, right in rows:
        head = " " * indent + left
        if len(head) + 2 > column:
            lines.append(head)
            head = ""
            if not right:
                continue
        lines += _wrapped(head.ljust(column), right, column)
    return lines


def _wrapped(head: str, text: str, indent: int) -> list[str]:
    whole = textwrap.wrap(text, WIDTH, initial_indent=head, subsequent_indent=" " * indent)
    return whole or [head.rstrip()]
