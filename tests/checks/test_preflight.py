"""The quick checks before training: said in a line, without a trace, and not on a resume."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from project.cli import main
from project.runs import Run
from tests.conftest import TINY

DIGITS = ["--config", "configs/digits.yaml", "--model.network.width", "4", *TINY]


@pytest.mark.slow
def test_results_are_the_same_with_and_without_it(
    tmp_path: Path, latest: Callable[[], Run], capsys: pytest.CaptureFixture[str]
) -> None:
    weights = []
    for preflight in ("true", "false"):
        options = ["--run.preflight", preflight, "--run.root", str(tmp_path / "runs")]
        assert main(["fit", *DIGITS, *options]) == 0
        weights.append(torch.load(latest().checkpoint("last"), weights_only=True)["state_dict"])
        said = [line for line in capsys.readouterr().err.splitlines() if "preflight" in line]
        assert len(said) == (preflight == "true")
    assert all(torch.equal(weights[1][name], tensor) for name, tensor in weights[0].items())
    options = ["--resume", "--trainer.max_epochs", "2", "--run.root", str(tmp_path / "runs")]
    assert main(["fit", *DIGITS, *options]) == 0
    assert "preflight: " not in capsys.readouterr().err


@pytest.mark.slow
def test_it_stops_at_what_would_spoil_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--run.root", str(tmp_path / "runs"), "--model.optimizer.lr", "0.0"]
    assert main(["fit", *DIGITS, *options]) == 2
    said = capsys.readouterr().err
    assert "rate.usual: AdamW at 0: nothing is learnt" in said
    assert "--run.preflight false" in said
    assert not list((tmp_path / "runs").glob("*/*/checkpoints"))
    assert main(["fit", *DIGITS, *options, "--run.preflight", "false"]) == 0
