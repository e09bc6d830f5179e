"""The table of predictions can be matched with the inputs."""

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from project.checkpoints import load_task
from project.data import Digits
from project.runs import Run
from tests.conftest import TINY


@pytest.mark.slow
def test_rows_are_in_input_order_and_match_the_model(
    command: Callable[..., int], latest: Callable[[], Run], tmp_path: Path
) -> None:
    table = tmp_path / "out" / "table.csv"
    config = ["--config", "configs/digits.yaml"]
    assert command("fit", *config, "--model.network.width", "4", *TINY) == 0
    assert command("predict", *config, "--predictions.path", str(table)) == 0
    rows = list(csv.DictReader(table.open()))
    digits = Digits()
    digits.setup("predict")
    assert [row["sample"] for row in rows] == digits.names("test")

    # the name leads back to the pixels, and the pixels to the prediction
    pixels = load_digits().images[int(rows[5]["sample"].removeprefix("digits[").rstrip("]"))]
    image = torch.from_numpy(np.rint(pixels * (255 / 16)).astype(np.uint8))[None]
    with torch.no_grad():
        logits = load_task(latest().checkpoint("best"))(image=digits.preprocessing(image)[None])
    probability, number = logits.softmax(1).max(1)
    assert rows[5]["prediction"] == str(number.item())
    assert abs(float(rows[5]["probability"]) - probability.item()) < 1e-5
