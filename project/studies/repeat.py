"""`python -m project repeat`: the same config with several seeds, on several folds, or both."""

import argparse
import csv
import json
import math
import statistics
from typing import Any

from project.compare.layout import aligned, number
from project.compare.summary import Summary
from project.errors import ChecksFailed, UserError
from project.parsing import Parser
from project.studies.trainings import Trainings, refuse_other

VARIED = ("--seed_everything", "--data.splits.fold", "--data.splits.num_folds")
"""What differs between the repetitions."""


def parser() -> argparse.ArgumentParser:
    """Of the options; `format_help` is the text of `--help`."""
    result = Parser(
        "python -m project repeat",
        description="Train the same config several times; mean and standard deviation of all "
        "metrics. Every repetition is a run of its own; the same command goes on where it ended.",
        epilog="All options of fit go with it: python -m project fit --help.",
        usage="python -m project repeat --config FILE [--seeds N] [--folds N] [--KEY VALUE ...]",
        add_help=False,
        allow_abbrev=False,
    )
    add = result.add_argument
    add("--seeds", default="", metavar="N", help="as many seeds, from --seed_everything on; or a "
        "list such as 1,7,42")  # fmt: skip
    add("--folds", type=int, metavar="N", help="cross-validation: each of N parts of what is not "
        "test is validated on once (data.splits.fold)")  # fmt: skip
    add("--name", help="what the runs' names begin with; by default repeat- and a digest of the "
        "settings")  # fmt: skip
    return result


def repeat(words: list[str]) -> None:
    """Train all repetitions that are not done, and say what came out.

    Args:
        words: As typed after `repeat`.

    Raises:
        UserError: Something in them can be put right.
        ChecksFailed: A repetition failed; the others were trained.
    """
    typed, rest = parser().parse_known_args(words)
    trainings = Trainings("repeat", rest)
    fingerprint = trainings.fingerprint(without=VARIED)
    name = typed.name or f"repeat-{fingerprint}"
    first = trainings.setting("seed_everything")
    seeds = _seeds(typed.seeds, 0 if first is None else first)
    repetitions = _repetitions(name, seeds, typed.folds)
    path = trainings.folder / f"{name}.json"
    refuse_other(path, fingerprint)
    failed = []
    for position, (run, options) in enumerate(repetitions.items(), 1):
        print(f"{position} of {len(repetitions)}: {run}", flush=True)
        code = trainings.train(run, options)
        if code == 2:
            raise UserError(f"{run} could not be trained; the reason is given above.")
        if code:
            failed.append(run)
            print(f"{run} failed with exit code {code}", flush=True)
    rows = [_row(trainings, run, options) for run, options in repetitions.items()]
    found = metrics([row for row in rows if row["run"] not in failed])
    record = {"fingerprint": fingerprint, "metrics": found, "runs": rows}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    _write_csv(trainings, name, rows)
    print(table(found))
    print(f"each run: {path.with_suffix('.csv')}")
    if failed:
        told = f"{len(failed)} of {len(rows)} failed: {', '.join(failed)}."
        print(f"{told} The same command tries them again.")
        raise ChecksFailed


def metrics(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Mean, standard deviation (n − 1) and range of every metric over the runs that have it."""
    names = dict.fromkeys(name for row in rows for name in row if name.startswith(("val", "test")))
    found = {}
    for name in names:
        values = [row[name] for row in rows if name in row and math.isfinite(row[name])]
        if values:
            found[name] = {
                "mean": statistics.fmean(values),
                "sd": statistics.stdev(values) if len(values) > 1 else None,
                "min": min(values),
                "max": max(values),
                "n": len(values),
            }
    return found


def table(found: dict[str, dict[str, Any]]) -> str:
    """One line per metric."""
    rows = [["metric", "mean ± sd", "min", "max", "n"]]
    for name, each in found.items():
        spread = "" if each["sd"] is None else f" ± {number(each['sd'])}"
        middle = f"{number(each['mean'])}{spread}"
        rows.append([name, middle, number(each["min"]), number(each["max"]), str(each["n"])])
    return "\n".join(aligned(rows))


def _seeds(typed: str, first: Any) -> list[int]:
    words = typed.split(",") if typed else []
    if not all(word.strip().isdigit() for word in words) or words == ["0"]:
        raise UserError(
            f"--seeds is {typed!r}; it is a number from 1 on, or a list such as 1,7,42."
        )
    if len(words) > 1:
        return list(dict.fromkeys(int(word) for word in words))
    if not str(first).isdigit():
        raise UserError(f"seed_everything is {first!r}; to repeat a run it must be a number.")
    return list(range(int(first), int(first) + int(words[0] if words else 1)))


def _repetitions(name: str, seeds: list[int], folds: int | None) -> dict[str, list[str]]:
    """The options of each repetition, by the name of its run."""
    if folds is not None and folds < 2:
        raise UserError(f"--folds is {folds}; a cross-validation has 2 or more.")
    if folds is None and len(seeds) < 2:
        raise UserError("repeat needs --seeds N, or --folds N, with N of 2 or more.")
    found = {}
    for fold in range(folds or 1):
        for seed in seeds:
            part = f"_fold{fold}of{folds}" if folds else ""
            chosen = ["--data.splits.fold", str(fold), "--data.splits.num_folds", str(folds)]
            options = ["--seed_everything", str(seed), *(chosen if folds else [])]
            found[f"{name}{part}_seed{seed}"] = options
    return found


def _row(trainings: Trainings, name: str, options: list[str]) -> dict[str, Any]:
    """A repetition in short."""
    summary = Summary(trainings.run(name))
    varied = {key.rpartition(".")[2].lstrip("-"): int(value)
              for key, value in zip(options[::2], options[1::2], strict=True)}  # fmt: skip
    results = summary.results if summary.finished else {}
    best = {"best_epoch": summary.best[1]} if summary.finished else {}
    return {"run": name, "state": summary.state, **varied, **best, **results}


def _write_csv(trainings: Trainings, name: str, rows: list[dict[str, Any]]) -> None:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    with (trainings.folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
