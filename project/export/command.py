"""`python -m project export`: what is typed, and what is shown.

Nothing here imports torch before the options are known to be right.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from project import runs
from project.errors import UserError, suggestion
from project.export import FORMATS, REDUCED
from project.parsing import Parser


@dataclass(frozen=True)
class Options:
    """What is typed after `export`.

    Args:
        output: The bundle's folder; None for `export` in the run's directory.
        formats: The formats to make.
    """

    output: Path | None
    formats: list[str]


def parser() -> Parser:
    """Of the options; `format_help` is the text of `--help`."""
    result = Parser(
        "python -m project export",
        description="Write a trained model as files that run without this project.",
        epilog="formats: "
        + "; ".join(f"{name}: {what}" for name, what in {**FORMATS, **REDUCED}.items()),
        add_help=False,
        allow_abbrev=False,
    )
    add = result.add_argument
    add("--ckpt_path", help="best, last, a run or a checkpoint; by default the best of the latest")
    add("--output", help="the bundle's folder, by default `export` in the run's directory")
    add("--formats", default=",".join(FORMATS), help=f"with commas, by default {','.join(FORMATS)}")
    add("--run.root", default="runs", help="where all runs lie, by default runs")
    add("--run.experiment", help="take the latest run of this experiment")
    add("--config", help="take the latest run of this config's experiment")
    return result


def parsed(words: list[str]) -> Options:
    """The options that were typed.

    Raises:
        UserError: One is unknown, or a format is.
    """
    typed = parser().parse_args(words)
    formats = [name.strip() for name in typed.formats.split(",") if name.strip()]
    allowed = {**FORMATS, **REDUCED}
    for name in formats:
        if name not in allowed:
            raise UserError(f"There is no format {name!r}.{suggestion(name, allowed)}")
    if not formats:
        raise UserError(f"--formats names none. Allowed: {', '.join(allowed)}.")
    if set(formats) & set(REDUCED):
        formats = ["onnx", *formats]  # which the others are made of
    output = Path(typed.output).expanduser().resolve() if typed.output else None
    return Options(output, list(dict.fromkeys(formats)))


def run(options: Options, checkpoint: Path) -> None:
    """Export a checkpoint and print how it went.

    Args:
        options: What was typed.
        checkpoint: The file.

    Raises:
        UserError: The model can't be exported.
    """
    from project.export.bundle import export

    of_run = runs.of_checkpoint(checkpoint)
    output = options.output or (of_run.path if of_run else checkpoint.parent) / "export"
    contract = export(checkpoint, output, options.formats)
    print(f"checkpoint  {checkpoint}")
    print(f"tried on    {contract['tried_on']}")
    print(_table(contract["formats"]))
    print(_measured(contract))
    print(f"bundle      {_shown(output)}")
    if contract["formats"].get("onnx", {}).get("file"):
        print(f"use         python {_shown(output / 'example.py')} {_input(contract)}")


def _table(made: dict[str, dict[str, Any]]) -> str:
    lines = [f"{'format':12}{'size':>10}{'difference':>12}{'agreement':>16}{'seconds':>9}"]
    for name, entry in made.items():
        if entry["file"] is None:
            lines.append(f"{name:12}not made: {entry['reason']}")
            continue
        check = entry["verification"]
        agreement = f"{check['agreeing']}/{check['rows']}" if check.get("rows") else "-"
        lines.append(
            f"{name:12}{entry['bytes'] / 1e6:>7.2f} MB{check['largest_difference']:>12.1e}"
            f"  {agreement:>14}{entry['seconds']:>9.1f}  {entry.get('how', '')}".rstrip()
        )
    return "\n".join(lines)


def _input(contract: dict[str, Any]) -> str:
    """What the bundle's example is given, such as a picture."""
    kinds = set(contract["inputs"]) - {"padding"}
    typed = {"image": "picture.png", "tokens": '"some words"', "sequence": "steps.npy"}
    return typed.get(*kinds, "rows.csv") if len(kinds) == 1 else "rows.csv"


def _measured(contract: dict[str, Any]) -> str:
    """What the files are worth, a line each."""
    found, times = contract.get("measured"), contract.get("milliseconds", {})
    if not found:
        return "measured    nothing, for want of validation samples"
    lines = [f"measured    on {found['samples']} of {found['of']} validation samples"]
    for name, time in times.items():
        metrics = "  ".join(f"{n} {value:.4g}" for n, value in found[name].items())
        lines.append(f"  {name:10}{metrics}  {time:.2f} ms a sample")
    return "\n".join(lines)


def _shown(path: Path) -> str:
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative
