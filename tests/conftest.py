"""Fixtures for all tests. No test needs a network, and each makes its own data and directories."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from project.runs import Run

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")  # the same numbers on every machine
os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the processes that tests start
torch.set_num_threads(1)  # tests are small, and a shared machine's second core is often busy

ROOT = Path(__file__).resolve().parent.parent
CONFIGS = sorted(path.relative_to(ROOT) for path in (ROOT / "configs").glob("*.yaml"))


def needs_network(config: Path) -> bool:
    """Whether the config says in its header that it downloads something."""
    return "# needs: network" in (ROOT / config).read_text()


OFFLINE_CONFIGS = [config for config in CONFIGS if not needs_network(config)]

TINY = ["--trainer.max_epochs", "1", "--trainer.limit_train_batches", "2",
        "--trainer.limit_val_batches", "1", "--trainer.limit_test_batches", "1",
        "--trainer.limit_predict_batches", "1"]  # fmt: skip
"""Options that make any config run in a moment."""


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs `python -m project` in this process, with its runs below `tmp_path`."""
    from project.cli import main

    monkeypatch.setattr("sys.argv", ["project"])

    def run(*args: str) -> int:
        # the preflight has tests of its own
        quiet = ["--run.preflight", "false"] if args[0] == "fit" else []
        return main([*args, *quiet, "--run.root", str(tmp_path / "runs")])

    return run


@pytest.fixture
def latest(tmp_path: Path) -> Callable[[], Run]:
    """The newest run below `tmp_path`."""
    from project.runs import runs_in

    return lambda: runs_in(tmp_path / "runs")[-1]
