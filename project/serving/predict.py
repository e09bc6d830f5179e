"""`python -m project predict BUNDLE INPUT ...`: a table of what an exported model says."""

import argparse
import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from project.errors import UserError
from project.parsing import Parser
from project.serving.command import bundle_folder

Sample = tuple[str, dict[str, Any]]
_BOX = ("label", "score", "x1", "y1", "x2", "y2")
_TABLES = (".csv", ".tsv", ".txt", ".jsonl", ".xlsx")


def parser() -> Parser:
    """Of the options; `format_help` is the text of `--help`."""
    result = Parser(
        "python -m project predict BUNDLE",
        usage="python -m project predict BUNDLE INPUT ... [--output FILE] [--text_column NAME] ...",
        description="Write a table of what an exported model says of files, texts or rows.",
        add_help=False,
        allow_abbrev=False,
    )
    add = result.add_argument
    add("bundle", help="the folder that export wrote, or a run that has one")
    add("inputs", nargs="+", help="pictures or their folders; tables of texts or rows; .npy files")
    add("--output", default="predictions.csv", help="the table to write, here by default")
    add("--text_column", default="text", help="of a table of texts, by default text")
    add("--image_column", default="file", help="of a table with pictures, by default file")
    return result


def predict(words: list[str]) -> None:
    """Predict, and say where the table is.

    Raises:
        UserError: An input can't be used; what could be predicted is in the table.
    """
    from project.export.example import Model

    typed = parser().parse_args(words)
    model = Model(bundle_folder(typed.bundle, "runs"))
    kinds = set(model.contract["inputs"]) - {"padding"}
    output, failed, rows = Path(typed.output), [], []
    for name, record in _samples(typed, kinds):
        try:
            answer = model.answer(record)
        except (OSError, ValueError, KeyError, SyntaxError) as error:
            failed.append(f"{name}: {type(error).__name__}: {error}")
            continue
        rows += [{"sample": name, **row} for row in _rows(answer, name, output)]
    if rows or not failed:
        _write(rows, output)
        print(f"predictions  {output}")
    if failed:
        told = "\n".join(f"- {each}" for each in failed[:10])
        raise UserError(f"{len(failed)} of the inputs could not be read:\n{told}")


def _samples(typed: argparse.Namespace, kinds: set[str]) -> Iterator[Sample]:
    """Samples with their names, as the bundle's model takes them."""
    paths = [Path(word).expanduser() for word in typed.inputs]
    if missing := [str(path) for path in paths if not path.exists()]:
        raise UserError(f"There is no {', '.join(missing)}.")
    for path in paths:
        if kinds == {"image"}:
            yield from _pictures(path)
        elif kinds == {"sequence"}:
            yield str(path), {"sequence": path}
        elif path.suffix.lower() in _TABLES:
            yield from _of_table(path, typed, kinds)
        else:
            raise UserError(f"{path} is no table ({', '.join(_TABLES)}), which this model takes.")


def _pictures(path: Path) -> Iterator[Sample]:
    from project.data.folders import listed

    if path.is_file():
        yield str(path), {"image": path}
    else:
        for name in listed(path).names:
            yield name, {"image": path / name}


def _of_table(path: Path, typed: argparse.Namespace, kinds: set[str]) -> Iterator[Sample]:
    from project.data.tables import read_table

    table = read_table(path)
    wanted = {"image": typed.image_column, "tokens": typed.text_column}
    named = {kind: wanted[kind] for kind in kinds & set(wanted)}
    if lacking := sorted(set(named.values()) - set(table.columns)):
        raise UserError(
            f"{path} has the columns {table.columns}, but not {', '.join(lacking)}. Name the "
            "columns: --text_column, --image_column."
        )
    for line, cells in zip(table.lines, table.rows, strict=True):
        record: dict[str, Any] = dict(zip(table.columns, cells, strict=True))
        if "tokens" in kinds:
            record["text"] = record[typed.text_column]
        if "image" in kinds:
            record["image"] = path.parent / record[typed.image_column]
        yield f"{path.name}:{line}", record


def _rows(answer: dict[str, Any], name: str, output: Path) -> list[dict[str, Any]]:
    """An answer as rows of a table: one for each box, a mask by the name of its file."""
    if "boxes" in answer:
        return [_box(**each) for each in answer["boxes"]]
    row = {k: v for k, v in answer.items() if not isinstance(v, dict | np.ndarray)}
    row |= {f"prediction_{k}": v for k, v in answer.get("values", {}).items()}
    if "mask" in answer:
        from PIL import Image

        stem = re.sub(r"[^\w.-]+", "_", name)  # with its folder, of which each may have such a file
        file = output.with_name(f"{output.stem}_mask") / f"{stem}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(answer["mask"]).save(file)
        row["mask"] = f"{file.parent.name}/{file.name}"
    return [row]


def _box(label: str, score: float, box: list[float]) -> dict[str, Any]:
    return dict(zip(_BOX, (label, score, *box), strict=True))


def _write(rows: list[dict[str, Any]], output: Path) -> None:
    """The table; of pictures on which no box was found it has no row, but is written."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("w", newline="", encoding="utf-8") as file:
        columns = list(rows[0]) if rows else ["sample", *_BOX]
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
