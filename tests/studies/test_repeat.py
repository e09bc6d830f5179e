"""Several seeds and folds: what is trained, what is not trained again, and the numbers."""

import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from project.cli import main
from project.errors import Interrupted
from project.runs import Run
from project.studies import trainings
from project.studies.repeat import metrics, table
from tests.conftest import TINY

SEED = "--seed_everything"


def repeat(tmp_path: Path, *words: str) -> int:
    config = ["--config", "configs/digits.yaml", "--run.root", str(tmp_path)]
    return main(["repeat", *config, *words])


def test_mean_and_standard_deviation_by_hand() -> None:
    rows = [{"run": n, "val_loss": v} for n, v in enumerate([1.0, 2.0, 6.0, float("nan")])]
    rows[0]["test_accuracy"] = 0.5
    found = metrics(rows)
    assert found["val_loss"] == {
        "mean": 3.0, "sd": pytest.approx(7**0.5), "min": 1.0, "max": 6.0, "n": 3,
    }  # fmt: skip
    assert found["test_accuracy"]["sd"] is None
    lines = table(found).splitlines()
    assert lines[1].split() == ["val_loss", "3", "±", "2.646", "1", "6", "3"]
    assert lines[2].split() == ["test_accuracy", "0.5", "0.5", "0.5", "1"]


def test_only_what_is_not_done_is_trained(
    tmp_path: Path, pretend: Callable, capsys: pytest.CaptureFixture
) -> None:
    broken = pretend(lambda options: 1 if options[SEED] == "1" else float(options[SEED]) / 10)
    assert repeat(tmp_path, "--seeds", "3", "--name", "a") == 1
    assert "1 of 3 failed: a_seed1." in capsys.readouterr().out
    assert broken.trained == ["a_seed0", "a_seed1", "a_seed2"]
    whole = pretend(lambda options: float(options[SEED]) / 10)
    assert repeat(tmp_path, "--seeds", "4", "--name", "a") == 0
    assert whole.trained == ["a_seed1", "a_seed3"]
    found = json.loads((tmp_path / "digits" / "a.json").read_text())
    assert found["metrics"]["val_accuracy"]["mean"] == pytest.approx(0.15)
    assert found["metrics"]["test_accuracy"]["n"] == 4
    with (tmp_path / "digits" / "a.csv").open() as file:
        assert [row["seed_everything"] for row in csv.DictReader(file)] == ["0", "1", "2", "3"]


def test_every_fold_with_every_seed(tmp_path: Path, pretend: Callable) -> None:
    chosen = []
    key = "--data.splits.fold"
    pretend(lambda options: chosen.append((options[key], options[SEED])) or 0.5)
    assert repeat(tmp_path, "--folds", "2", "--seeds", "7,9") == 0
    assert chosen == [("0", "7"), ("0", "9"), ("1", "7"), ("1", "9")]


def test_other_settings_are_other_runs(tmp_path: Path, pretend: Callable) -> None:
    first = pretend(lambda options: 0.5)
    assert repeat(tmp_path, "--seeds", "2") == 0
    again = pretend(lambda options: 0.5)
    assert repeat(tmp_path, "--seeds", "2", "--data.batch_size", "32") == 0
    assert len({*first.trained, *again.trained}) == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seeds", "some"], "--seeds is 'some'"),
        (["--seeds", "1"], "needs --seeds N, or --folds N"),
        (["--folds", "1"], "--folds is 1"),
        (["--seeds", "2", "--run.name", "x"], "--run.name does not go with repeat"),
        (["--seeds", "2", "--trainer.max_epoch", "3"], "Did you mean 'max_epochs'"),
        (["--seeds", "2", "--name", "taken"], "taken.json is of other settings"),
    ],
)
def test_mistakes_are_said_before_anything_is_trained(
    words: list[str],
    message: str,
    tmp_path: Path,
    pretend: Callable,
    capsys: pytest.CaptureFixture,
) -> None:
    pretended = pretend(lambda options: 0.5)
    (tmp_path / "digits").mkdir()
    (tmp_path / "digits" / "taken.json").write_text('{"fingerprint": "other"}')
    assert repeat(tmp_path, *words) == 2
    assert message in capsys.readouterr().err
    assert pretended.trained == []


def test_a_mistake_that_only_training_finds_ends_it(tmp_path: Path, pretend: Callable) -> None:
    pretended = pretend(lambda options: 2)
    assert repeat(tmp_path, "--seeds", "3") == 2
    assert len(pretended.trained) == 1


def test_a_command_in_a_process_of_its_own() -> None:
    assert trainings.carried_out(["--version"]) == 0
    assert trainings.carried_out(["no_such_verb"]) == 2


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="signals as on Unix")
def test_a_signal_is_passed_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    got = tmp_path / "got"
    code = (
        "import os, pathlib, signal, sys, time\n"
        f"handle = lambda *_: sys.exit(pathlib.Path({str(got)!r}).write_text('saved') and 0)\n"
        "signal.signal(signal.SIGTERM, handle)\n"
        f"os.kill({os.getpid()}, signal.SIGTERM)\n"
        "time.sleep(60)\n"
    )
    start = subprocess.Popen
    monkeypatch.setattr(
        trainings.subprocess, "Popen", lambda words, **more: start([sys.executable, "-c", code])
    )
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Interrupted, match="15"):
        trainings.carried_out(["fit"])
    assert got.read_text() == "saved"
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.slow
def test_a_repetition_is_the_run_that_fit_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["project"])
    monkeypatch.setattr(trainings, "carried_out", main)
    small = [*TINY, "--model.network.width", "4"]
    assert repeat(tmp_path, SEED, "1", "--folds", "2", "--name", "r", *small) == 0
    alone = ["--run.name", "alone", SEED, "1", "--data.splits", '{"fold": 1, "num_folds": 2}']
    config = ["--config", "configs/digits.yaml", "--run.root", str(tmp_path)]
    assert main(["fit", *config, *alone, *small]) == 0

    def weights(name: str) -> dict[str, torch.Tensor]:
        path = Run(tmp_path / "digits" / name).checkpoint("last")
        return torch.load(path, weights_only=True)["state_dict"]

    expected, others = weights("alone"), weights("r_fold0of2_seed1")
    found = weights("r_fold1of2_seed1")
    assert all(torch.equal(tensor, found[name]) for name, tensor in expected.items())
    assert not all(torch.equal(tensor, others[name]) for name, tensor in expected.items())
