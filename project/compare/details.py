"""Everything about one run, and what differs between two."""

from typing import Any

from project.compare.layout import aligned, indented, number, typed
from project.compare.summary import PLACES, Summary
from project.runs import flat

FILES = ("checkpoints/*.ckpt", "figures/*", "*.csv", "git.diff")


def record(run: Summary) -> dict[str, Any]:
    """All that is known of one run, as plain values."""
    environment = {key: value for key, value in run.environment.items() if key != "resumed"}
    for count, start in enumerate(run.environment.get("resumed", []), start=1):
        environment[f"resumed {count}"] = f"{start.get('started')}  {start.get('command')}"
    files = [path for pattern in FILES for path in sorted(run.run.path.glob(pattern))]
    return {
        **run.line(),
        "settings": run.settings,
        "metrics": run.metrics,
        "environment": environment,
        "history": run.history[-5:],
        "files": [str(path) for path in files],
    }


def text_of_record(content: dict[str, Any]) -> str:
    """The same for a reader, section by section."""
    lines = [_head(content), content["path"]]
    for section in ("settings", "metrics", "environment"):
        pairs = [[key, typed(value)] for key, value in flat(content[section]).items()]
        lines += ["", section, *indented(aligned(pairs or [["nothing"]]))]
    rows = [list(row) for row in content["history"][:1]]
    rows += [[number(value) for value in row.values()] for row in content["history"]]
    lines += ["", "last rows of metrics.csv, which counts epochs from 0"]
    lines += indented(aligned(rows or [["nothing"]]))
    return "\n".join([*lines, "", "files", *indented(content["files"] or ["nothing"])])


def difference(a: Summary, b: Summary) -> dict[str, Any]:
    """Both values of each setting and condition that differs, and of all results if one does."""
    settings = _pairs(a.settings, b.settings)
    results = _pairs(*({"best at epoch": _one_based(r.best[1]), **r.results} for r in (a, b)))
    conditions = _pairs(a.conditions(), b.conditions())
    return {
        "runs": [a.line(), b.line()],
        "settings": _differing({k: v for k, v in settings.items() if k not in PLACES}),
        "results": results if _differing(results) else {},
        "environment": _differing(conditions),
    }


def _one_based(epoch: int | None) -> int | None:
    return None if epoch is None else epoch + 1  # as the progress counts


def _pairs(a: dict[str, Any], b: dict[str, Any]) -> dict[str, list[Any]]:
    return {key: [a.get(key), b.get(key)] for key in {**a, **b}}


def _differing(pairs: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {
        key: pair for key, pair in pairs.items() if repr(pair[0]) != repr(pair[1])
    }  # NaN is NaN


def text_of_difference(content: dict[str, Any]) -> str:
    """The same for a reader, side by side."""
    lines = [f"{name}  {_head(run)}" for name, run in zip("AB", content["runs"], strict=True)]
    for section in ("settings", "results", "environment"):
        if not content[section]:
            lines += ["", f"{section}: nothing differs"]
            continue
        rows = [[section, "A", "B", "B − A" if section == "results" else ""]]
        for key, (x, y) in content[section].items():
            if section == "results":
                by = "" if x is None or y is None else f"{y - x:+.4g}"
                rows.append([key, number(x), number(y), by])
            else:
                rows.append([key, typed(x), typed(y), ""])
        lines += ["", *aligned(rows)]
    return "\n".join(lines)


def _head(line: dict[str, Any]) -> str:
    return f"{line['run']}  {', '.join([line['state'], *line['notes']])}"
