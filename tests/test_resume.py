"""A run killed anywhere and resumed ends as if nothing had happened."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.conftest import ROOT

KILLER = """
import os, signal, sys
import lightning as L

class Killer(L.Callback):
    def __init__(self, hook: str, step: int) -> None:
        def kill(trainer, *rest):
            if trainer.global_step >= step and not trainer.sanity_checking:
                os.kill(os.getpid(), signal.SIGKILL)
        setattr(self, hook, kill)
"""
OPTIONS = [
    "--trainer.max_epochs", "4", "--model.network.width", "4", "--model.network.dropout", "0.2",
    "--trainer.limit_train_batches", "7", "--trainer.accumulate_grad_batches", "2",
    "--checkpoint.every_n_steps", "1", "--run.test_after_fit", "false",
]  # fmt: skip


def fit(folder: Path, *options: str) -> int:
    command = [sys.executable, "-m", "project", "fit", "--config", "configs/digits.yaml", *OPTIONS]
    environment = {**os.environ, "PYTHONPATH": str(folder), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [*command, "--run.root", str(folder / "runs"), *options],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("uninterrupted")
    assert fit(folder, "--run.name", "run") == 0
    return folder / "runs" / "digits" / "run"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hook", "step", "workers"),
    [
        ("on_train_batch_end", 6, 0),  # in mid-epoch, within an accumulation window
        ("on_train_batch_start", 9, 2),
        ("on_validation_batch_end", 8, 0),
        ("on_train_epoch_end", 12, 2),
    ],
)
def test_killed_and_resumed_equals_uninterrupted(
    uninterrupted: Path, tmp_path: Path, hook: str, step: int, workers: int
) -> None:
    (tmp_path / "killer.py").write_text(KILLER)
    killer = ["--trainer.callbacks+=killer.Killer", f"--trainer.callbacks.hook={hook}",
              f"--trainer.callbacks.step={step}"]  # fmt: skip
    assert fit(tmp_path, "--run.name", "run", *killer) == -signal.SIGKILL
    resumed = ["--resume", "run", "--trainer.callbacks", "null"]
    assert fit(tmp_path, *resumed, "--data.loader.num_workers", str(workers)) == 0

    run = tmp_path / "runs" / "digits" / "run"
    assert (run / "metrics.csv").read_bytes() == (uninterrupted / "metrics.csv").read_bytes()
    for which in ("best", "last"):
        expected, got = (
            torch.load(folder / "checkpoints" / f"{which}.ckpt", weights_only=True)
            for folder in (uninterrupted, run)
        )
        for name, value in expected["state_dict"].items():
            assert torch.equal(value, got["state_dict"][name]), name
        first, second = (c["optimizer_states"][0]["state"] for c in (expected, got))
        for number, state in first.items():
            assert all(torch.equal(state[k], second[number][k]) for k in state)
