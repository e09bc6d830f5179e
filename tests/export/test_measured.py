"""What a file is worth is measured on real samples, and said; smaller files are made on demand."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from project.checkpoints import load_task
from project.cli import main
from project.data import Digits
from project.export import measured
from project.runs import runs_in

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that knows its digits, in all precisions."""
    root = tmp_path_factory.mktemp("runs")
    options = ["--trainer.max_epochs", "4", "--model.network.width", "8", "--run.root", str(root)]
    assert main(["fit", "--config", "configs/digits.yaml", *options]) == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measured, "SECONDS", 600)  # all samples, however slow the machine is
        assert main(["export", "--run.root", str(root), "--formats", "int8,fp16"]) == 0
    return runs_in(root)[-1].path / "export"


def test_the_metrics_are_those_of_the_trained_model(bundle: Path) -> None:
    contract = json.loads((bundle / "contract.json").read_text())
    found = contract["measured"]
    rows = list(csv.DictReader((bundle.parent / "metrics.csv").open()))
    best = max(float(row["val_accuracy"]) for row in rows)
    assert found["samples"] == found["of"] == 359
    assert found["onnx"] == found["original"]
    assert found["original"]["val_accuracy"] == pytest.approx(best, abs=1e-5)


def test_reduced_files_are_smaller_and_nearly_as_good(bundle: Path) -> None:
    contract = json.loads((bundle / "contract.json").read_text())
    sizes = {name: entry["bytes"] for name, entry in contract["formats"].items()}
    assert sizes["fp16"] < 0.8 * sizes["onnx"]
    assert sizes["int8"] < 0.8 * sizes["onnx"]
    for name in ("fp16", "int8"):
        assert 0 < contract["formats"][name]["verification"]["largest_difference"] < 0.2
        lost = contract["measured"]["onnx"]["val_accuracy"]
        lost -= contract["measured"][name]["val_accuracy"]
        assert abs(lost) < 0.03
    assert set(contract["milliseconds"]) == {"original", "onnx", "fp16", "int8"}


def test_a_metric_that_is_another_fails_the_command(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    right = measured.runner

    def turned(file: Path) -> measured.Answer:
        answer = right(file)
        return lambda given: {name: value.flip(-1) for name, value in answer(given).items()}

    monkeypatch.setattr(measured, "runner", turned)
    options = ["--ckpt_path", str(bundle.parent), "--formats", "onnx"]
    assert main(["export", *options, "--output", str(tmp_path / "out")]) == 2
    assert "The onnx export has val_accuracy" in capsys.readouterr().err


def test_predict_takes_a_bundle(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    data = Digits()
    data.setup("test")
    for index in range(6):
        Image.fromarray(data.shown("test", index)[:, :, 0]).save(tmp_path / f"{index}.png")
    table = tmp_path / "out" / "predictions.csv"
    assert main(["predict", str(bundle), str(tmp_path), "--output", str(table)]) == 0
    assert str(table) in capsys.readouterr().out
    rows = list(csv.DictReader(table.open()))
    batch = data.collate([{**data.datasets["test"][index], "index": index} for index in range(6)])
    task = load_task(bundle.parent / "checkpoints" / "best.ckpt")
    expected = task.predict_step(batch, 0)
    assert [row["sample"] for row in rows] == [f"{index}.png" for index in range(6)]
    assert [row["prediction"] for row in rows] == expected["prediction"]
    found = [float(row["probability"]) for row in rows]
    assert np.allclose(found, expected["probability"], atol=1e-4)


def test_a_bad_picture_is_named_and_the_rest_is_predicted(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Image.fromarray(np.zeros((8, 8), np.uint8)).save("good.png")
    Path("bad.png").write_bytes(b"\x89PNG\r\n\x1a\nand no more")
    assert main(["predict", str(bundle), "good.png", "bad.png"]) == 2
    assert "1 of the inputs could not be read:\n- bad.png" in capsys.readouterr().err
    assert len(Path("predictions.csv").read_text().splitlines()) == 2
    assert main(["predict", str(bundle), "gone.png"]) == 2
    assert "There is no gone.png" in capsys.readouterr().err
