"""A search: its space, its trials, those that fail, and those that are stopped early."""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from project import runs
from project.cli import main
from project.errors import Interrupted, UserError
from project.studies import space
from tests.conftest import ROOT, TINY

LR = "--model.optimizer.lr"
SPACE = """
trials: 4
space:
  model.optimizer.lr: {low: 1.0e-4, high: 1.0e-1, log: true}
  model.network.depths: {choices: [[1], [1, 2]]}
"""


@pytest.fixture
def optuna() -> Any:
    return pytest.importorskip("optuna", reason="optuna is an extra: pip install -e '.[search]'")


def search(tmp_path: Path, *words: str, content: str = SPACE) -> int:
    (tmp_path / "space.yaml").write_text(content)
    config = ["--config", "configs/digits.yaml", "--run.root", str(tmp_path)]
    return main(["search", *config, "--search", str(tmp_path / "space.yaml"), *words])


def result(tmp_path: Path, name: str) -> list[dict[str, Any]]:
    return json.loads((tmp_path / "digits" / "search" / f"{name}.json").read_text())["trials"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("space: 3", "'space' is 3"),
        ("spaces: {}", "Did you mean 'space'"),
        ("space: {a: 3}", "space a is 3"),
        ("space: {a: {choices: [1]}}", "two or more"),
        ("space: {a: {low: 1e-4, high: 1.0}}", "Write 1.0e-4, with a point"),
        ("space: {a: {low: 2, high: 1}}", "low must be below high"),
        ("space: {a: {low: 0, high: 1, log: true}}", "with log above 0"),
        ("space: {a: {low: 0, high: 1, lgo: true}}", "has 'lgo'"),
        ("space: {a: {low: 0, high: 1}}\ntrials: 0", "trials is 0"),
        ("space: {a: {low: 0, high: 1}}\npruning: median", "pruning is 'median'"),
    ],
)
def test_a_space_that_can_not_be_meant(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    path.write_text(content)
    with pytest.raises(UserError, match=message):
        space.read(str(path))


def test_whole_numbers_stay_whole(tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    path.write_text("space:\n  a: {low: 1, high: 3}\n  b: {low: 1, high: 3.0}\npruning: false\n")
    found = space.read(str(path))
    assert [setting.is_whole for setting in found.settings] == [True, False]
    assert found.pruning is None
    assert found.trials == 20


@pytest.mark.parametrize("path", sorted((ROOT / "configs" / "search").glob("*.yaml")), ids=str)
def test_shipped_spaces_can_be_read(path: Path) -> None:
    assert space.read(str(path)).settings


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("model.optimzer.lr: {low: 0.1, high: 0.2}", "Did you mean 'optimizer'"),
        ("model.optimizer: {choices: [AdamW, AdamX]}", "'AdamX'"),
    ],
)
def test_a_wrong_key_or_class_in_the_space_is_said_before_anything_is_trained(
    setting: str,
    message: str,
    tmp_path: Path,
    pretend: Callable,
    capsys: pytest.CaptureFixture,
) -> None:
    pretended = pretend(lambda options: 0.5)
    assert search(tmp_path, content=f"space:\n  {setting}\n") == 2
    assert message in capsys.readouterr().err
    assert pretended.trained == []


def test_without_optuna_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert search(tmp_path) == 2
    assert 'pip install -e ".[search]"' in capsys.readouterr().err


def test_the_best_is_found_and_more_trials_can_follow(
    optuna: Any, tmp_path: Path, pretend: Callable, capsys: pytest.CaptureFixture
) -> None:
    first = pretend(lambda options: 1 - float(options[LR]))
    assert search(tmp_path, "--name", "s") == 0
    assert first.trained == [f"s_trial{n}" for n in range(4)]
    trials = result(tmp_path, "s")
    assert {trial["state"] for trial in trials} == {"COMPLETE"}
    best = max(trials, key=lambda trial: trial["value"])  # val_accuracy: the higher, the better
    printed = capsys.readouterr().out
    assert f"--ckpt_path {tmp_path}/digits/{best['run']}" in printed
    assert f"{LR} {best['settings']['model.optimizer.lr']!r}" in printed
    second = pretend(lambda options: 1 - float(options[LR]))
    assert search(tmp_path, "--name", "s", "--trials", "6") == 0
    assert second.trained == ["s_trial4", "s_trial5"]
    values = [trial["settings"]["model.optimizer.lr"] for trial in result(tmp_path, "s")]
    assert len(set(values)) == 6


def test_the_same_seed_searches_the_same(optuna: Any, tmp_path: Path, pretend: Callable) -> None:
    pretend(lambda options: 1 - float(options[LR]))
    for name in ("a", "b"):
        assert search(tmp_path, "--name", name) == 0
    first, second = ([t["settings"] for t in result(tmp_path, name)] for name in ("a", "b"))
    assert first == second


def test_a_failed_trial_is_recorded_and_the_search_goes_on(
    optuna: Any, tmp_path: Path, pretend: Callable
) -> None:
    outcomes = iter([0.5, 1, float("nan"), 0.7])
    pretend(lambda options: next(outcomes))
    assert search(tmp_path, "--name", "s") == 0
    states = [trial["state"] for trial in result(tmp_path, "s")]
    assert states == ["COMPLETE", "FAIL", "FAIL", "COMPLETE"]


def test_if_all_fail_the_command_fails(optuna: Any, tmp_path: Path, pretend: Callable) -> None:
    pretend(lambda options: 1)
    assert search(tmp_path) == 1


@pytest.mark.parametrize("begun", [False, True])
def test_a_mistake_stops_the_search_unless_training_had_begun(
    begun: bool, optuna: Any, tmp_path: Path, pretend: Callable
) -> None:
    def outcome(options: dict[str, str]) -> int:
        if begun:
            trial(optuna).set_user_attr("begun", True)
        return 2

    pretended = pretend(outcome)
    assert search(tmp_path) == (1 if begun else 2)
    assert len(pretended.trained) == (4 if begun else 1)


def test_an_interrupted_trial_goes_on_with_the_same_settings(
    optuna: Any, tmp_path: Path, pretend: Callable
) -> None:
    seen = []

    def outcome(options: dict[str, str]) -> Any:
        seen.append((options["--run.name"], options[LR]))
        return Interrupted(signal.SIGINT) if len(seen) == 2 else 0.5

    pretend(outcome)
    assert search(tmp_path, "--name", "s") == 128 + signal.SIGINT
    assert search(tmp_path, "--name", "s") == 0
    assert seen[2] == seen[1]
    assert len({run for run, _ in seen}) == 4
    assert [trial["state"] for trial in result(tmp_path, "s")] == ["COMPLETE"] * 4


def trial(optuna: Any) -> Any:
    """What the run of the trial under way sees of it."""
    from project.callbacks.pruning import joined

    return joined(json.loads(os.environ[runs.TRIAL]))


@pytest.mark.slow
def test_a_run_worse_than_the_others_is_stopped_early(
    optuna: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Callable[..., int]
) -> None:
    journal = str(tmp_path / "journal")
    backend = optuna.storages.journal.JournalFileBackend(journal)
    study = optuna.create_study(
        storage=optuna.storages.JournalStorage(backend), study_name="s", direction="maximize"
    )
    good = study.ask()
    for step in range(4):
        good.report(0.99, step)
    study.tell(good, 0.99)
    pruning = {"startup_trials": 1, "warmup_validations": 1}
    number = study.ask()._trial_id
    about = {"journal": journal, "study": "s", "trial": number, "pruning": pruning}
    monkeypatch.setenv(runs.TRIAL, json.dumps(about))
    small = [word if word != "1" else "4" for word in TINY]  # four epochs of four batches
    fit = ["fit", "--config", "configs/digits.yaml", "--run.name", "bad", *small]
    assert command(*fit, "--model.network.width", "4", "--run.test_after_fit", "false") == 0
    trained = runs.Run(tmp_path / "runs" / "digits" / "bad")
    assert trained.metrics["fit"]["epochs"] == 2  # the first is not looked at
    stopped = study.get_trials()[1]
    assert stopped.user_attrs == {"begun": True, "pruned": True}
    assert list(stopped.intermediate_values) == [0, 1]
