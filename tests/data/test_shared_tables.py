"""Acceptance on tables of other people, where PROJECT_SHARED_DATA says that they are."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from project.data import Fields, Mixed, Tabular
from project.runs import Run

SHARED = Path(os.environ.get("PROJECT_SHARED_DATA", "/nowhere"))
CALIFORNIA = SHARED / "california_housing" / "housing.csv"
AMES = SHARED / "ames_housing" / "ames.csv"
EMOJI = SHARED / "emoji_multimodal" / "table.csv"

pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="PROJECT_SHARED_DATA is not set")


def test_columns_of_california() -> None:
    module = Tabular(str(CALIFORNIA), columns=Fields(target="median_house_value"))
    kinds = {field["name"]: "values" in field for field in module.fields}
    assert [name for name, is_category in kinds.items() if is_category] == ["ocean_proximity"]
    assert len(kinds) == 9
    told = {f.title: f.items for f in module.audit(seconds=None)}
    assert told["columns with missing cells in training"] == [("total_bedrooms", "1.0%")]


def test_columns_of_ames() -> None:
    module = Tabular(str(AMES), columns=Fields(target="price"))
    numbers = [field["name"] for field in module.fields if "values" not in field]
    assert {"area", "Lot.Frontage", "Year.Built", "Garage.Yr.Blt"} <= set(numbers)
    categories = {field["name"]: field["values"] for field in module.fields if "values" in field}
    assert "" in categories["Alley"]  # most houses have none
    assert "" in categories["Mas.Vnr.Type"]
    assert len(module.fields) >= 70


def test_columns_of_emoji() -> None:
    module = Mixed(table=str(EMOJI))
    assert module.found.file == "file"
    assert module.found.texts == ["name", "keywords"]
    assert module.found.others == ["added_in", "n_names"]
    assert len(module.class_names) == 6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "target", "reach"),
    [(CALIFORNIA, "median_house_value", 48_000), (AMES, "price", 30_000)],
    ids=["california", "ames"],
)
def test_houses(
    table: Path,
    target: str,
    reach: float,
    command: Callable[..., int],
    latest: Callable[[], Run],
) -> None:
    options = ("--data.table", str(table), "--data.columns.target", target)
    assert command("fit", "--config", "configs/tabular.yaml", *options) == 0
    assert json.loads((latest().path / "metrics.json").read_text())["test"]["test_rmse"] <= reach


@pytest.mark.slow
def test_emoji_by_image_text_and_numbers(
    command: Callable[..., int], latest: Callable[[], Run]
) -> None:
    weights = SHARED / "weights" / "tf_efficientnet_lite0_fp16.safetensors"
    options = {
        "data.table": EMOJI, "data.size": 96, "data.augmentation": "none",
        "data.normalization": "half", "model.network.backbone": "timm/tf_efficientnet_lite0",
        "model.network.weights": weights, "freezing.freeze": "[encoders.image.body]",
        "trainer.max_epochs": 20,
    }  # fmt: skip
    typed = [f"--{name}={value}" for name, value in options.items()]
    assert command("fit", "--config", "configs/multimodal.yaml", *typed) == 0
    reached = json.loads((latest().path / "metrics.json").read_text())["test"]["test_accuracy"]
    assert reached > 0.645  # a linear model of all three
