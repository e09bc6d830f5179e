"""Two processes on the CPU: the numbers are those of one, and only the first writes."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from project.runs import Run
from tests.conftest import ROOT

pytestmark = pytest.mark.slow

TWO = ["--trainer.devices", "2", "--trainer.strategy", "ddp", "--trainer.accelerator", "cpu"]
DIGITS = ["--config", "configs/digits.yaml", "--model.network.width", "4"]


def start(folder: Path, verb: str, *options: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "project", verb, *DIGITS, *options]
    return subprocess.Popen(
        [*command, "--run.root", str(folder)],
        cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
        start_new_session=True, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip


def finish(folder: Path, verb: str, *options: str) -> str:
    process = start(folder, verb, *options)
    _, said = process.communicate(timeout=200)
    assert process.returncode == 0, said
    return said


def test_metrics_are_those_of_one_process(tmp_path: Path) -> None:
    few = ["--trainer.max_epochs", "1", "--run.name", "run", "--run.test_after_fit", "false"]
    said = finish(tmp_path, "fit", *few, *TWO)
    assert said.count("trained 1 epochs") == 1  # one process speaks
    run = Run(tmp_path / "digits" / "run")
    assert len(run.history) == 1
    assert [path.name for path in run.path.parent.glob("r*")] == ["run"]
    # 359 samples do not go evenly into two shares and batches of 64
    finish(tmp_path, "validate", "--ckpt_path", str(run.path))
    one = run.metrics["validate"]
    finish(tmp_path, "validate", "--ckpt_path", str(run.path), *TWO)
    two = run.metrics["validate"]
    assert one.pop("checkpoint") == two.pop("checkpoint")
    assert two == pytest.approx(one, rel=1e-6)


def test_two_killed_processes_resume_to_the_same_bits(tmp_path: Path) -> None:
    options = [*TWO, "--run.name", "run", "--resume", "auto", "--trainer.max_epochs", "3",
               "--checkpoint.every_n_steps", "2", "--run.test_after_fit", "false"]  # fmt: skip
    finish(tmp_path / "whole", "fit", *options)
    process = start(tmp_path / "killed", "fit", *options)
    killed = Run(tmp_path / "killed" / "digits" / "run")
    while not killed.history and process.poll() is None:
        time.sleep(0.05)
    time.sleep(0.3)
    with contextlib.suppress(ProcessLookupError):  # it may have ended by itself
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    finish(tmp_path / "killed", "fit", *options)
    whole = Run(tmp_path / "whole" / "digits" / "run")
    expected, got = (torch.load(r.checkpoint("last"), weights_only=True) for r in (whole, killed))
    for name, value in expected["state_dict"].items():
        assert torch.equal(value, got["state_dict"][name]), name
    assert (whole.path / "metrics.csv").read_bytes() == (killed.path / "metrics.csv").read_bytes()


def test_predict_refuses_several_processes(tmp_path: Path) -> None:
    finish(tmp_path, "fit", "--trainer.max_epochs", "1", "--trainer.limit_train_batches", "1")
    process = start(tmp_path, "predict", *TWO)
    _, said = process.communicate(timeout=200)
    assert process.returncode != 0
    assert "--trainer.devices 1" in said
    assert json.dumps("Traceback") not in said
