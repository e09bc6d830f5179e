"""Photos and labels as a data module: from files to batches, and through the command line."""

import csv
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import openpyxl
import pytest
import torch

from project.data import Columns, Images, Loader, audit
from project.data.decoding import decode
from project.errors import UserError
from project.runs import Run
from tests.conftest import TINY
from tests.data.photos import flat_folder, folder_of_classes, picture

HERE = Loader(num_workers=0)
CONFIG = "configs/images.yaml"
SMALL = [*TINY, "--model.network.width", "4", "--data.size", "8", "--data.loader.num_workers", "0"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return folder_of_classes(tmp_path / "photos")


@pytest.fixture
def kept_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known of files from earlier tests."""
    monkeypatch.setattr(audit, "FOLDER", tmp_path / "cache")


def ready(root: Path, **options: object) -> Images:
    module = Images(str(root), **{"size": 8, "loader": HERE, **options})
    module.setup("fit")
    return module


def test_a_sample_is_its_file(root: Path) -> None:
    module = ready(root, size=(16, 24), normalization={"mean": [0.0] * 3, "std": [1.0] * 3})
    name, sample = module.names("test")[0], module.datasets["test"][0]
    assert torch.equal(sample["inputs"]["image"], decode(root / name) / 255)  # of that size already
    assert module.class_names[sample["target"]] == name.partition("/")[0]
    assert module.sizes == {"in_channels": 3, "num_outputs": 3}


def test_excel_sheet_beside_a_folder_of_photos(tmp_path: Path) -> None:
    lines = flat_folder(tmp_path / "photos")
    book = openpyxl.Workbook()
    book.active.append(["Image", "Class"])
    for line in lines:
        book.active.append(line.split(","))
    book.save(tmp_path / "labels.xlsx")
    module = Images(str(tmp_path / "photos"), str(tmp_path / "labels.xlsx"), size=8, loader=HERE)
    module.setup("fit")
    assert module.class_names == ["cat", "dog", "owl"]
    assert {split: len(data) for split, data in module.datasets.items()} == {
        "train": 6, "val": 3, "test": 3,
    }  # fmt: skip
    assert module.description()["counts"]["val"] == {"cat": 1, "dog": 1, "owl": 1}


def test_the_mapping_of_labels_is_in_the_checkpoint(tmp_path: Path) -> None:
    lines = flat_folder(tmp_path)
    ids = {"cat": "1", "dog": "2", "owl": "40"}
    rows = [f"{line.split(',')[0]},{ids[line.split(',')[1]]}" for line in lines]
    (tmp_path / "labels.csv").write_text("\n".join(["file,label", *rows]))
    module = Images(table=str(tmp_path / "labels.csv"), loader=HERE)  # root: the table's folder
    assert module.state_dict()["description"]["label_mapping"] == {"1": 0, "2": 1, "40": 2}


def test_statistics_are_those_of_the_training_images_alone(root: Path) -> None:
    module = ready(root, size=(16, 24))
    pixels = torch.stack([decode(root / name) for name in module.names("train")]).double() / 255
    known = module.description()["preprocessing"]
    assert known["mean"] == pytest.approx(pixels.mean((0, 2, 3)).tolist(), abs=1e-6)
    std = pixels.std((0, 2, 3), correction=0).tolist()
    assert known["std"] == pytest.approx(std, abs=1e-6)
    for name in [*module.names("val"), *module.names("test")]:
        picture(0, mode="L").save(root / name)
    assert ready(root, size=(16, 24)).description()["preprocessing"] == known


@pytest.mark.parametrize(
    ("normalization", "mean"),
    [
        ("imagenet", [0.485, 0.456, 0.406]),
        ("half", [0.5] * 3),
        ({"mean": [0.1] * 3, "std": [1.0] * 3}, [0.1] * 3),
    ],
)
def test_given_statistics(root: Path, normalization: object, mean: list[float]) -> None:
    module = Images(str(root), normalization=normalization, loader=HERE)
    assert module.description()["preprocessing"]["mean"] == mean


def test_a_checkpoints_statistics_win(root: Path) -> None:
    module = ready(root)
    state = module.state_dict()
    state["description"]["preprocessing"]["mean"] = [0.25, 0.5, 0.75]
    module.load_state_dict(state)
    assert module.description()["preprocessing"]["mean"] == [0.25, 0.5, 0.75]
    mean = module.datasets["val"].preprocessing.mean.flatten().tolist()
    assert mean == [0.25, 0.5, 0.75]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "data.size is 0"),
        ({"normalization": {"mean": [0.5]}}, "needs mean and std, three of each"),
        ({"table": "labels.csv"}, "--data.table is 'labels.csv'"),
        ({"predict_root": "nowhere"}, "--data.predict_root is 'nowhere'"),
        ({"batch_size": 0}, "batch_size is 0"),
    ],
)
def test_settings_that_can_not_be(root: Path, options: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Images(str(root), **options)


def test_decoding_waits_until_a_sample_is_asked_for(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("decoded")

    monkeypatch.setattr("project.data.decoding.decode", never)
    module = ready(root, normalization="half")
    assert module.class_names == ["cat", "dog", "owl"]
    with pytest.raises(AssertionError, match="decoded"):
        module.datasets["train"][0]


@pytest.fixture
def damaged(root: Path, kept_away: None) -> Path:
    (root / "cat" / "cat_0.jpg").write_bytes(b"")
    (root / "dog" / "dog_0.jpg").write_bytes((root / "dog" / "dog_1.jpg").read_bytes()[:-30])
    (root / "owl" / "page.jpg").write_text("<html>")
    return root


BAD = {"cat/cat_0.jpg", "dog/dog_0.jpg", "owl/page.jpg"}


def test_bad_files_stop_before_the_first_step_and_are_named(damaged: Path) -> None:
    with pytest.raises(UserError, match="images that can't be read") as caught:
        Images(str(damaged), size=8, loader=HERE).prepare_data()
    assert all(name in str(caught.value) for name in BAD)
    assert "--data.on_bad skip" in str(caught.value)


def test_skip_trains_on_the_rest_and_moves_no_other(damaged: Path, root: Path) -> None:
    module = ready(damaged, on_bad="skip", normalization="half")
    used = {split: set(module.names(split)) for split in ("train", "val", "test")}
    assert not set.union(*used.values()) & BAD
    assert sum(map(len, used.values())) == 25 - 3
    whole = module.index
    for split, names in used.items():
        assert names == set(whole.names[whole.split == split].tolist()) - BAD


def test_labels_stop_the_training_too(tmp_path: Path) -> None:
    lines = flat_folder(tmp_path / "photos")
    table = tmp_path / "t.csv"
    table.write_text("\n".join(["file,label", *lines, "ghost.jpg,cat"]))
    module = Images(str(tmp_path / "photos"), str(table), loader=HERE)
    with pytest.raises(UserError, match=r"ghost.jpg \(t.csv line 14\)"):
        module.setup("fit")


def test_similar_labels_can_not_be_skipped(tmp_path: Path) -> None:
    lines = [line.replace("_1.jpg,cat", "_1.jpg,CAT") for line in flat_folder(tmp_path / "photos")]
    table = tmp_path / "t.csv"
    table.write_text("\n".join(["file,label", *lines]))
    arguments = (str(tmp_path / "photos"), str(table))
    with pytest.raises(UserError, match="'CAT' = 'cat'"):
        Images(*arguments, on_bad="skip", loader=HERE).setup("fit")
    merged = Images(*arguments, columns=Columns(merge_similar=True), loader=HERE)
    assert merged.description()["label_mapping"] == {"CAT": 0, "cat": 0, "dog": 1, "owl": 2}


def test_the_dataset_a_worker_receives_holds_no_lists(root: Path) -> None:
    dataset = ready(root).datasets["train"]
    held = [*vars(dataset).values(), *vars(dataset.pixels).values()]
    assert not [value for value in held if isinstance(value, list | dict)]


def run_table(run: Run, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((run.path / name).open()))


@pytest.mark.slow
def test_fit_test_predict(
    damaged: Path, command: Callable[..., int], latest: Callable[[], Run], tmp_path: Path
) -> None:
    options = ["--config", CONFIG, "--data.root", str(damaged), *SMALL]
    assert command("fit", *options) == 2
    assert command("fit", *options, "--data.on_bad", "skip") == 0
    run = latest()
    rows = run_table(run, "audit.csv")
    assert {row["item"] for row in rows if row["left_out"] == "yes"} == BAD
    known = torch.load(run.checkpoint("best"), weights_only=True)["Images"]["description"]
    assert known["class_names"] == ["cat", "dog", "owl"]
    assert set(known["label_mapping"].values()) == {0, 1, 2}
    assert command("test", "--config", CONFIG) == 0

    new = tmp_path / "new"
    new.mkdir()
    for number in (3, 1, 2, 5):
        picture(number, (40, 30)).save(new / f"{number}.jpg")
    (new / "4.jpg").write_bytes(b"broken")
    predict = ["predict", "--config", CONFIG, "--data.predict_root", str(new),
               "--data.batch_size", "2", "--data.on_bad"]  # fmt: skip
    assert command(*predict, "error") == 2
    assert command(*predict, "skip") == 0
    predictions = run_table(run, "predictions.csv")
    assert [row["sample"] for row in predictions] == ["1.jpg", "2.jpg", "3.jpg", "5.jpg"]
    assert {row["prediction"] for row in predictions} <= {"cat", "dog", "owl"}
    assert [row["item"] for row in run_table(run, "predict_audit.csv")] == ["4.jpg"]


def test_check_tells_everything_and_its_code_says_whether_it_is_bad(
    damaged: Path, command: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    options = ["check", "--config", CONFIG, "--data.root", str(damaged), "--seconds", "2"]
    assert command(*options) == 1
    shown = capsys.readouterr().out
    assert "1 failed," in shown
    assert all(name in shown for name in BAD)
    table = list(csv.DictReader((tmp_path / "runs" / "images" / "check.csv").open()))
    assert {row["item"] for row in table if row["severity"] == "error"} == BAD
    assert not list((tmp_path / "runs").glob("*/*/environment.json"))  # it is no run
    for name in BAD:
        (damaged / name).unlink()
    assert command(*options) == 0


@pytest.mark.slow
def test_classes_do_not_change_between_training_and_resuming(
    root: Path, command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--config", CONFIG, "--data.root", str(root), *SMALL]
    assert command("fit", *options) == 0
    shutil.copytree(root / "owl", root / "bat")
    for number, path in enumerate((root / "bat").iterdir()):
        picture(900 + number).save(path)
    assert command("fit", "--resume", "--trainer.max_epochs", "2") == 2
    assert "bat" in capsys.readouterr().err


def test_memory_of_a_worker_is_flat(root: Path) -> None:
    """What is sent to a worker is arrays: their size, not a number of objects, grows."""
    module = ready(root)
    assert isinstance(module.index.names, np.ndarray)
    assert module.datasets["train"].target.dtype == torch.int64
