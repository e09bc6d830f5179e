"""Training in a moment: what a run leaves, without the run."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from project.studies import trainings


@dataclass
class Pretended:
    """Takes the place of the process that trains.

    Args:
        outcome: Says of a run's options, by key, what comes out: its monitored metric, or an exit
            code, or an exception.
    """

    outcome: Callable[[dict[str, str]], Any]
    trained: list[str] = field(default_factory=list)

    def __call__(self, words: list[str]) -> int:
        """Leave a run's files, as `fit` does."""
        verb, *rest = words
        options = dict(zip(rest[::2], rest[1::2], strict=True))
        if verb == "test":
            self._write(Path(options["--ckpt_path"]), "test", {"test_accuracy": 0.5})
            return 0
        name = options["--run.name"]
        self.trained.append(name)
        outcome = self.outcome(options)
        if isinstance(outcome, Exception):
            raise outcome
        if isinstance(outcome, int):
            return outcome
        run = Path(options["--run.root"]) / "digits" / name
        run.mkdir(parents=True, exist_ok=True)
        tests = options.get("--run.test_after_fit") != "false"
        (run / "config.yaml").write_text(json.dumps({"run": {"test_after_fit": tests}}))
        best = {"epochs": 1, "best_epoch": 0, "best_val_accuracy": outcome}
        self._write(run, "fit", best)
        (run / "metrics.csv").write_text(f"epoch,val_accuracy\n0,{outcome}\n")
        return 0

    def _write(self, run: Path, verb: str, values: dict[str, Any]) -> None:
        path = run / "metrics.json"
        known = json.loads(path.read_text()) if path.is_file() else {}
        path.write_text(json.dumps({**known, verb: values}))


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Pretended]:
    """Let trainings be pretended."""

    def install(outcome: Callable[[dict[str, str]], Any]) -> Pretended:
        pretended = Pretended(outcome)
        monkeypatch.setattr(trainings, "carried_out", pretended)
        return pretended

    return install
