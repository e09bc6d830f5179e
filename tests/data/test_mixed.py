"""Tables of several modalities: what is found, what may be missing, and any part alone."""

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from project.data import Loader, Mixed, MixedFields
from project.errors import UserError

LOADER = Loader(num_workers=0)
FEATURES = ["weight", "shop"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """30 rows: a picture, a text, a number and a category, two classes."""
    draw = np.random.default_rng(0)
    (tmp_path / "pictures").mkdir()
    with (tmp_path / "table.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["photo", "title", "weight", "shop", "label"])
        for row in range(30):
            pixels = draw.integers(0, 255, (10, 12, 3), dtype=np.uint8)
            name = f"pictures/{row}.png"
            Image.fromarray(pixels).save(tmp_path / name)
            title = f"thing number {row} of this shop"
            writer.writerow([name, title, draw.normal(), "ab"[row % 2], ("cat", "dog")[row // 15]])
    return tmp_path


def mixed(folder: Path, **options) -> Mixed:
    return Mixed(table=str(folder / "table.csv"), size=8, loader=LOADER, **options)


def change(folder: Path, row: int, column: str, cell: str) -> None:
    path = folder / "table.csv"
    rows = list(csv.reader(path.open(newline="")))
    rows[row + 1][rows[0].index(column)] = cell
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)


def test_columns_are_found(folder: Path) -> None:
    module = mixed(folder)
    assert (module.found.file, module.found.texts, module.found.others) == (
        "photo", ["title"], FEATURES,
    )  # fmt: skip
    assert module.inputs == ("image", "text", "features")
    assert set(module.sizes) == {"in_channels", "num_tokens", "num_features", "num_outputs"}


@pytest.mark.parametrize(
    ("inputs", "names", "size"),
    [
        (("image",), {"image"}, "in_channels"),
        (("text",), {"tokens", "padding"}, "num_tokens"),
        (("features",), {"features"}, "num_features"),
    ],
)
def test_each_part_alone(folder: Path, inputs: tuple, names: set, size: str) -> None:
    module = mixed(folder, inputs=inputs)
    module.setup("fit")
    assert set(module.sizes) == {size, "num_outputs"}
    assert set(next(iter(module.val_dataloader()))["inputs"]) == names


def test_a_row_may_lack_its_image_and_its_text(folder: Path) -> None:
    row = int(mixed(folder).rows.of_split["val"][0])
    change(folder, row, "photo", "")
    change(folder, row, "title", "")
    module = mixed(folder)
    module.setup("fit")
    position = module.names("val").index(f"table.csv:{row + 2}")
    inputs = module.datasets["val"][position]["inputs"]
    assert inputs["image"].abs().max() < 0.01  # the mean colour, as near as bytes come
    assert inputs["tokens"].tolist() == [1]  # unknown
    told = {f.title: f for f in module.audit(seconds=None)}
    assert told["rows without an image"].items == [(f"table.csv:{row + 2}", "")]
    assert isinstance(module.shown("val", position), str)
    assert module.shown("val", 1 - position).shape == (10, 12, 3)


def test_a_file_that_is_not_there_is_refused_or_its_row_left_out(folder: Path) -> None:
    change(folder, 3, "photo", "pictures/none.png")
    with pytest.raises(UserError, match=r"file does not exist: pictures/none.png \(table.csv:5\)"):
        mixed(folder).setup("fit")
    module = mixed(folder, on_bad="skip")
    module.setup("fit")
    names = [name for split in module.datasets for name in module.names(split)]
    assert len(names) == 29
    assert "table.csv:5" not in names


def test_each_row_keeps_its_own_image(folder: Path) -> None:
    for row in (0, 7):
        change(folder, row, "photo", "")
    module = mixed(folder)
    module.setup("fit")
    for split in ("train", "val", "test"):
        for position, name in enumerate(module.names(split)):
            row = int(name.partition(":")[2]) - 2
            shown = module.shown(split, position)
            if row in (0, 7):
                assert isinstance(shown, str)
            else:
                pixels = np.asarray(Image.open(folder / f"pictures/{row}.png"))
                assert np.array_equal(shown, pixels)


def test_prediction_needs_no_target(folder: Path) -> None:
    with (folder / "new.csv").open("w") as file:
        file.write("photo,title,weight,shop\npictures/4.png,a thing,1.5,c\n,,2.0,\n")
    module = mixed(folder, predict_table=str(folder / "new.csv"))
    module.setup("predict")
    batch = next(iter(module.predict_dataloader()))
    assert "target" not in batch
    assert batch["inputs"]["image"].shape == (2, 3, 8, 8)
    assert module.names("predict") == ["new.csv:2", "new.csv:3"]
    module.load_state_dict(module.state_dict())  # as happens after setup
    again = next(iter(module.predict_dataloader()))["inputs"]
    assert all(torch.equal(again[name], value) for name, value in batch["inputs"].items())
    assert len(module.datasets["train"]) == len(module.names("train"))


def test_a_part_that_the_table_lacks_is_refused(folder: Path) -> None:
    columns = MixedFields(ignored=("photo",))
    with pytest.raises(UserError, match=r"inputs asks for \['image'\].*has \['text', 'features'\]"):
        mixed(folder, columns=columns, inputs=("image", "text"))
    with pytest.raises(UserError, match=r"columns\.texts names 'words'"):
        mixed(folder, columns=MixedFields(texts=("words",)))
