"""Every config trains, tests and predicts; each is a complete record."""

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml

from project.runs import Run
from tests.conftest import CONFIGS, OFFLINE_CONFIGS, ROOT, TINY, needs_network


def test_there_are_configs() -> None:
    assert CONFIGS


@pytest.mark.parametrize("config", [c for c in CONFIGS if needs_network(c)], ids=str)
def test_what_needs_a_network_is_parsed(
    config: Path, command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command("fit", "--config", str(config), "--print_config")
    assert ended.value.code in (0, None)
    shown, written = (
        yaml.safe_load(capsys.readouterr().out),
        yaml.safe_load((ROOT / config).read_text()),
    )
    assert shown["data"]["class_path"] == written["data"]["class_path"]


@pytest.mark.slow
@pytest.mark.parametrize("config", OFFLINE_CONFIGS, ids=str)
def test_fit_test_predict(
    config: Path, command: Callable[..., int], latest: Callable[[], Run]
) -> None:
    assert command("fit", "--config", str(config), *TINY) == 0
    run = latest()
    assert run.experiment == config.stem
    for which in ("best", "last"):
        checkpoint = torch.load(run.checkpoint(which), weights_only=True)
        assert checkpoint["global_step"] == 2
    rows = list(csv.DictReader((run.path / "metrics.csv").open()))
    assert len(rows) == 1
    assert {"epoch", "step", "train_loss", "val_loss", "lr"} <= set(rows[0])
    assert (run.path / "figures" / "learning_curves.png").stat().st_size > 1000
    assert list(run.path.glob("events.out.tfevents*"))
    after_fit = json.loads((run.path / "metrics.json").read_text())
    assert after_fit["fit"]["steps"] == 2

    assert command("test", "--config", str(config), *TINY) == 0
    assert command("validate", "--config", str(config), *TINY) == 0
    assert command("predict", "--config", str(config), *TINY) == 0
    results = json.loads((run.path / "metrics.json").read_text())
    # the best checkpoint, tested in a new process, gives what the run itself reported
    assert results["test"]["test_loss"] == after_fit["test"]["test_loss"]
    assert results["validate"]["val_loss"] == pytest.approx(float(rows[0]["val_loss"]), rel=1e-5)
    header = (run.path / "predictions.csv").read_text().splitlines()[0].split(",")
    assert header[0] == "sample"
    assert len(header) > 1

    # the export is compared with the trained network on validation samples, in another process
    assert command("export", "--formats", "onnx,safetensors", "--config", str(config)) == 0
    contract = json.loads((run.path / "export" / "contract.json").read_text())
    assert "validation split" in contract["tried_on"]
    assert contract["measured"]["onnx"] == pytest.approx(contract["measured"]["original"], abs=1e-3)


EXPECTED = re.compile(r"Expect (test_\w+) ([\d.]+) or (more|less)")


@pytest.mark.slow
@pytest.mark.parametrize("config", OFFLINE_CONFIGS, ids=str)
def test_what_the_header_expects_is_reached(
    config: Path, command: Callable[..., int], latest: Callable[[], Run]
) -> None:
    name, bound, side = EXPECTED.findall((ROOT / config).read_text())[0]
    assert command("fit", "--config", str(config)) == 0
    reached = json.loads((latest().path / "metrics.json").read_text())["test"][name]
    assert reached >= float(bound) if side == "more" else reached <= float(bound)


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_header_says_how_to_run_it_and_what_to_expect(config: Path) -> None:
    header = [line for line in (ROOT / config).read_text().splitlines() if line.startswith("#")]
    text = "\n".join(header)
    assert f"--config {config}" in text
    assert EXPECTED.search(text) or needs_network(config)
    assert "Expect" in text
