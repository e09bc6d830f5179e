"""`python -m project search`: hyper-parameters that do best, found by Optuna."""

import argparse
import hashlib
import json
import math
import os
import shlex
from typing import Any

from project import runs
from project.cli.arguments import Arguments
from project.cli.config_errors import checked
from project.compare import layout
from project.compare.summary import Summary, lower_is_better
from project.errors import ChecksFailed, UserError
from project.parsing import Parser
from project.studies import space as spaces
from project.studies.space import Setting, Space
from project.studies.trainings import Trainings, refuse_other

SHOWN = 10
"""Trials listed at the end."""


def parser() -> argparse.ArgumentParser:
    """Of the options; `format_help` is the text of `--help`."""
    result = Parser(
        "python -m project search",
        description="Train a config with other and other settings, chosen by Optuna from a search "
        "space (configs/search has an example). Every trial is a run of its own; those that do "
        "worse than the median are stopped early; the same command goes on where it ended.",
        epilog="All options of fit go with it: python -m project fit --help.",
        usage="python -m project search --config FILE --search FILE [--trials N] [--KEY VALUE ...]",
        add_help=False,
        allow_abbrev=False,
    )
    add = result.add_argument
    add("--search", metavar="FILE", help="the search space, a YAML file")
    add("--trials", type=int, metavar="N", help="trials in all; by default as the space says")
    add("--name", help="what the runs' names begin with; by default search- and a digest of the "
        "settings and the space")  # fmt: skip
    return result


def search(words: list[str]) -> None:
    """Carry out the trials that are left, and say which was best.

    Args:
        words: As typed after `search`.

    Raises:
        UserError: Something in them, or in the search space, can be put right.
        ChecksFailed: Not one trial came to its end.
    """
    given, rest = parser().parse_known_args(words)
    if given.search is None:
        raise UserError("search needs a search space: --search configs/search/learning_rate.yaml.")
    space = spaces.read(given.search)
    trainings = Trainings("search", rest)
    for setting in space.settings:
        for value in setting.examples():  # a wrong key is answered now, not by a trial
            checked(Arguments(["fit", *rest, f"--{setting.key}", layout.typed(value)]))
    found = Search(trainings, space, given.name)
    found.carry_out(space.trials if given.trials is None else given.trials)
    print(found.report())
    if found.best is None:
        raise ChecksFailed


class Search:
    """A study of Optuna's, with its trials as runs of this project.

    Args:
        trainings: What all trials have in common.
        space: What they differ in.
        name: What their names begin with; None takes a digest of both.

    Raises:
        UserError: Optuna is not installed, or the name is that of another search.
    """

    def __init__(self, trainings: Trainings, space: Space, name: str | None) -> None:
        optuna = _optuna()
        self.trainings, self.space = trainings, space
        fingerprint = trainings.fingerprint() + _digest(space)
        self.name = name or f"search-{fingerprint[:6]}"
        folder = trainings.folder / "search"
        folder.mkdir(parents=True, exist_ok=True)
        self.journal, self.result = folder / f"{self.name}.journal", folder / f"{self.name}.json"
        refuse_other(self.result, fingerprint)
        self.fingerprint = fingerprint
        self.monitor = trainings.setting("checkpoint.monitor") or "val_loss"
        mode = trainings.setting("checkpoint.mode") or "auto"
        lower = lower_is_better(self.monitor) if mode == "auto" else mode == "min"
        backend = optuna.storages.journal.JournalFileBackend(str(self.journal))
        self.study = optuna.create_study(
            storage=optuna.storages.JournalStorage(backend),
            study_name=self.name,
            direction="minimize" if lower else "maximize",
            load_if_exists=True,
        )
        # a function of the seed, and going on with other draws where it was interrupted
        seed = int(trainings.setting("seed_everything") or 0) + len(self.study.get_trials())
        self.study.sampler = optuna.samplers.TPESampler(seed=seed)
        self.state = optuna.trial.TrialState
        self._write()

    def carry_out(self, trials: int) -> None:
        """Train until so many trials are done, failed ones among them."""
        self._take_up_interrupted()
        ended = ("COMPLETE", "PRUNED", "FAIL")
        while (done := sum(t.state.name in ended for t in self._trials())) < trials:
            trial = self.study.ask()
            values = {s.key: _suggested(trial, s) for s in self.space.settings}
            run = trial.user_attrs.get("run", f"{self.name}_trial{trial.number}")
            trial.set_user_attr("run", run)
            shown = "  ".join(f"{key} {_shown(value)}" for key, value in values.items())
            print(f"trial {done + 1} of {trials}: {run}  {shown}", flush=True)
            self._train(trial, run, values)
            self._write()

    @property
    def best(self) -> Any:
        """The best finished trial; None if there is none."""
        finished = any(trial.state.name == "COMPLETE" for trial in self._trials())
        return self.study.best_trial if finished else None

    def report(self) -> str:
        """The best trials, and the commands to go on with the best of all."""
        trials = self._trials()
        counts = {name: sum(t.state.name == name for t in trials)
                  for name in ("COMPLETE", "PRUNED", "FAIL")}  # fmt: skip
        lines = [
            f"{counts['COMPLETE']} trials finished, {counts['PRUNED']} stopped early, "
            f"{counts['FAIL']} failed; in full: {self.result}"
        ]
        if self.best is None:
            return lines[0]
        sign = 1 if self.study.direction.name == "MINIMIZE" else -1
        ranked = sorted((t for t in trials if t.value is not None and t.state.name == "COMPLETE"),
                        key=lambda t: sign * t.value)[:SHOWN]  # fmt: skip
        keys = [setting.key for setting in self.space.settings]
        rows = [["run", self.monitor, *keys]]
        for trial in ranked:
            values = [_shown(trial.params[key]) for key in keys]
            rows.append([trial.user_attrs["run"], layout.number(trial.value), *values])
        fit = shlex.join(["fit", *self.trainings.words, *_options(self.best.params)])
        place = self.trainings.run(self.best.user_attrs["run"]).shown()
        lines += [*layout.aligned(rows), "next", f"  train it again   python -m project {fit}"]
        return "\n".join([*lines, f"  test it once     python -m project test --ckpt_path {place}"])

    def _train(self, trial: Any, run: str, values: dict[str, Any]) -> None:
        about = {"journal": str(self.journal), "study": self.name, "trial": trial._trial_id}
        os.environ[runs.TRIAL] = json.dumps({**about, "pruning": self.space.pruning})
        options = [
            word for key, value in values.items() for word in (f"--{key}", layout.typed(value))
        ]
        # the test split is not for choosing
        options += ["--run.test_after_fit", "false"]
        try:
            code = self.trainings.train(run, options)
        finally:
            del os.environ[runs.TRIAL]
        known = self.study.get_trials(deepcopy=False)[trial.number].user_attrs  # the run's as well
        if code == 2 and not known.get("begun"):
            self.study.tell(trial, state=self.state.FAIL)
            raise UserError(f"{run} could not be trained; the reason is given above.")
        value = Summary(self.trainings.run(run)).best[0] if not code else None
        if value is None or not math.isfinite(value):
            trial.set_user_attr("exit_code", code)
            self.study.tell(trial, state=self.state.FAIL)
            print(f"{run} failed with exit code {code}; the search goes on", flush=True)
        elif known.get("pruned"):
            self.study.tell(trial, state=self.state.PRUNED)
        else:
            self.study.tell(trial, value)

    def _take_up_interrupted(self) -> None:
        """Trials of an interrupted search are tried again, and their runs go on."""
        for trial in self.study.get_trials(deepcopy=False, states=(self.state.RUNNING,)):
            run = trial.user_attrs.get("run")
            self.study.tell(trial.number, state=self.state.FAIL)
            if run and set(trial.params) == {setting.key for setting in self.space.settings}:
                self.study.enqueue_trial(trial.params, user_attrs={"run": run})

    def _trials(self) -> list[Any]:
        """One for each run: the last, where an interrupted one was taken up again."""
        every = self.study.get_trials(deepcopy=False)
        return list({t.user_attrs["run"]: t for t in every if "run" in t.user_attrs}.values())

    def _write(self) -> None:
        record = {
            "fingerprint": self.fingerprint,
            "monitor": self.monitor,
            "trials": [
                {"run": t.user_attrs["run"], "state": t.state.name, "value": t.value,
                 "settings": t.params, "validations": t.intermediate_values}
                for t in self._trials()
            ],
        }  # fmt: skip
        self.result.write_text(layout.as_json(record) + "\n", encoding="utf-8")


def _suggested(trial: Any, setting: Setting) -> Any:
    """The value that Optuna chooses for a key."""
    if setting.choices:  # as typed, for Optuna takes no lists
        return trial.suggest_categorical(setting.key, [layout.typed(c) for c in setting.choices])
    low, high = setting.low, setting.high
    if setting.is_whole:
        return trial.suggest_int(setting.key, low, high, log=setting.log, step=setting.step or 1)
    return trial.suggest_float(setting.key, low, high, log=setting.log, step=setting.step)


def _options(values: dict[str, Any]) -> list[str]:
    """Settings as typed."""
    return [word for key, value in values.items() for word in (f"--{key}", layout.typed(value))]


def _shown(value: Any) -> str:
    return layout.number(value) if isinstance(value, float) else layout.typed(value)


def _digest(space: Space) -> str:
    return hashlib.sha256(repr(space.settings).encode()).hexdigest()[:6]


def _optuna() -> Any:
    """Optuna, where it is installed."""
    try:
        import optuna
        import optuna.storages.journal
    except ImportError:
        raise UserError(
            'search needs the package optuna, an optional part: pip install -e ".[search]"'
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
