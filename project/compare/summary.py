"""What the files of one run say."""

import hashlib
import math
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from project.errors import UserError
from project.runs import Run, flat

LOWER_IS_BETTER = {"loss", "error", "mae", "mse", "rmse", "perplexity"}
PLACES = ("run.root", "run.experiment", "run.name")
"""Settings that say where a run lies, not what it does."""


class Summary:
    """One run as its files tell it, however far it got; epochs are counted from 0 as in them.

    What cannot be read counts as not there, and is said in `notes`.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.notes: list[str] = []
        self.config = flat(self._read("config", "config.yaml"))
        self.metrics = self._read("metrics", "metrics.json")
        self.environment = self._read("environment", "environment.json")
        self.history = self._read("history", "metrics.csv") or []
        self.fit = self.metrics.get("fit", {})
        self.test = {k: v for k, v in self.metrics.get("test", {}).items() if k != "checkpoint"}
        if "resumed" in self.environment:
            self.notes.append("resumed")
        if not any(run.checkpoint(which).is_file() for which in ("best", "last")):
            self.notes.append("no checkpoint")

    def _read(self, what: str, file: str) -> Any:
        try:
            return getattr(self.run, what)
        except UserError:
            self.notes.append(f"{file} broken")
            return {}

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The config by its keys on the command line, where a class is the value of its place."""
        return {key.removesuffix(".class_path"): value for key, value in self.config.items()}

    @property
    def epochs(self) -> int:
        """How many were trained."""
        rows = [row["epoch"] + 1 for row in self.history if row.get("epoch") is not None]
        return max([self.fit.get("epochs") or 0, *rows])

    @property
    def finished(self) -> bool:
        """Whether training came to its end, and has not gone on since by a resume."""
        return bool(self.fit) and self.epochs <= (self.fit.get("epochs") or 0)

    @property
    def state(self) -> str:
        """How far the run got, for a reader."""
        verb = self.environment.get("command", "").split()[3:4]
        if verb not in ([], ["fit"]) and not self.epochs:
            return f"{verb[0]} only"  # of a checkpoint from elsewhere
        wanted = self.settings.get("trainer.max_epochs")
        limited = wanted is not None and wanted >= 0
        word = "finished" if self.finished else "unfinished"
        if self.finished and limited and self.epochs < wanted:
            word = "stopped"  # early, by steps or by time; or a resume has not done an epoch yet
        return f"{word} {self.epochs}{f'/{wanted}' if limited else ''}"

    @property
    def monitor(self) -> str:
        """The metric that chooses the best epoch."""
        recorded = [name[5:] for name in self.fit if name[:5] == "best_" and name != "best_epoch"]
        if self.finished and recorded:  # a resume that did no epoch may have set another
            return recorded[0]
        return self.settings.get("checkpoint.monitor") or "val_loss"

    @cached_property
    def best(self) -> tuple[float | None, int | None]:
        """The monitored metric's best value, and its epoch."""
        if self.finished:
            return self.fit.get(f"best_{self.monitor}"), self.fit.get("best_epoch")
        mode = self.settings.get("checkpoint.mode", "auto")
        lower = lower_is_better(self.monitor) if mode == "auto" else mode == "min"
        values = [(row.get(self.monitor), row.get("epoch")) for row in self.history]
        finite = [pair for pair in values if pair[0] is not None and math.isfinite(pair[0])]
        choose = min if lower else max
        return choose(finite, key=lambda pair: pair[0], default=(None, None))

    @cached_property
    def results(self) -> dict[str, float]:
        """Metrics of the best epoch, and of the test."""
        value, epoch = self.best
        row = next((row for row in self.history if row.get("epoch") == epoch), {})
        names = [name for name in row if name not in ("epoch", "step") and name[:2] != "lr"]
        values = {**{name: row[name] for name in names}, self.monitor: value, **self.test}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def test_metric(self) -> str:
        """The test's counterpart of the monitored metric, else the first of the test."""
        same = f"test_{self.monitor.partition('_')[2]}"
        return same if same in self.test else next(iter(self.test), "")

    @property
    def commit(self) -> str:
        """The commit's first letters, with a star when the checkout differed from it."""
        git = self.environment.get("git") or {}
        return git.get("commit", "")[:7] + ("*" if git.get("dirty") else "")

    @property
    def started(self) -> datetime | None:
        """When the run began, in UTC as in its name."""
        try:
            return datetime.fromisoformat(self.environment["started"]).astimezone(UTC)
        except (KeyError, ValueError):
            return None

    def line(self) -> dict[str, Any]:
        """The run in short, as plain values."""
        value, epoch = self.best
        return {
            "run": self.run.name,
            "path": str(self.run.path),
            "started": self.environment.get("started"),
            "state": self.state,
            "finished": self.finished,
            "epochs": self.epochs,
            "max_epochs": self.settings.get("trainer.max_epochs"),
            "seconds": self.fit.get("seconds"),
            "monitor": self.monitor,
            "best": value,
            "best_epoch": epoch,
            "results": self.results,
            "git": self.environment.get("git"),
            "seed": self.environment.get("seed"),
            "notes": self.notes,
        }

    def conditions(self) -> dict[str, Any]:
        """What results depend on besides the settings, and the time they took."""
        recorded = {key: self.environment.get(key) for key in ("seed", "python", "platform")}
        packages = flat({"packages": self.environment.get("packages", {})})
        changes = self.run.path / "git.diff"
        digest = hashlib.sha256(changes.read_bytes()).hexdigest()[:7] if changes.is_file() else None
        code = {"git": self.commit or None, "git.diff": digest}
        return {**code, **recorded, **packages, "seconds": self.fit.get("seconds")}


def lower_is_better(metric: str) -> bool:
    """What the name says of a metric whose class is not at hand."""
    return not LOWER_IS_BETTER.isdisjoint(metric.split("_"))
