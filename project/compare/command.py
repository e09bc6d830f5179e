"""The command: its options, and which runs it is about."""

import math

from project.compare import details, layout, listing
from project.compare.summary import Summary, lower_is_better
from project.errors import UserError, suggestion
from project.runs import find, none_yet, rooted, runs_in

OPTIONS = {
    "--root": "the directory of all runs",
    "--experiment": "the name of one experiment",
    "--sort": "the metric to sort by",
    "--json": "JSON, for scripts",
}


def report(args: list[str]) -> str:
    """What `python -m project runs` prints.

    Args:
        args: Arguments as typed after `runs`.

    Raises:
        UserError: An option, a run, an experiment or a metric does not exist.
    """
    request = Request(args)
    if not request.names:
        groups = listing.by_experiment(_listed(request))
        if request.as_json:
            return layout.as_json([line for group in groups for line in listing.lines(group)])
        return "\n\n".join(map(listing.table, groups))
    chosen = [Summary(find(request.root, name, request.experiment)) for name in request.names]
    if len(chosen) == 1:
        record = details.record(*chosen)
        return layout.as_json(record) if request.as_json else details.text_of_record(record)
    between = details.difference(*chosen)
    return layout.as_json(between) if request.as_json else details.text_of_difference(between)


class Request:
    """The arguments, taken apart.

    Args:
        args: Arguments as typed after `runs`.

    Raises:
        UserError: An option is unknown or has no value, or they do not go together.
    """

    def __init__(self, args: list[str]) -> None:
        self.names: list[str] = []
        values: dict[str, str] = {}
        rest = list(args)
        while rest:
            option, equals, value = rest.pop(0).partition("=")
            if not option.startswith("-"):
                self.names.append(option + equals + value)
            elif option not in OPTIONS:
                raise UserError(f"runs has no option {option!r}.{suggestion(option, OPTIONS)}")
            elif option == "--json" or equals:
                values[option] = value
            elif rest:
                values[option] = rest.pop(0)
            else:
                raise UserError(f"{option} needs a value: {OPTIONS[option]}.")
        self.root = rooted(values.get("--root", "runs"))
        self.experiment = values.get("--experiment")
        self.sort = values.get("--sort")
        self.as_json = "--json" in values
        if len(self.names) > 2:
            raise UserError(f"runs compares two runs, not {len(self.names)}.")
        if self.names and self.sort:
            raise UserError("--sort goes with the list of all runs, not with the name of one.")


def _listed(request: Request) -> list[Summary]:
    runs = runs_in(request.root, request.experiment)
    experiments = {run.experiment for run in runs_in(request.root)} if not runs else set()
    if experiments:
        raise UserError(
            f"There are no runs of {request.experiment!r} in {request.root}."
            + suggestion(str(request.experiment), experiments)
        )
    if not runs:
        raise none_yet(request.root)
    found = [Summary(run) for run in runs]
    metric = request.sort
    if metric is None:
        return found
    metrics = {name for run in found for name in run.results}
    if metric not in metrics:
        raise UserError(f"No run has the metric {metric!r}.{suggestion(metric, metrics)}")
    return sorted(found, key=lambda run: _rank(run.results.get(metric), metric))


def _rank(value: float | None, metric: str) -> float:
    """The smaller, the better; what has no finite value comes last."""
    if value is None or not math.isfinite(value):
        return math.inf
    return value if lower_is_better(metric) else -value
