"""Masks: paired, understood, never mixed."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from project.batches import IGNORED
from project.data import Loader, Masks
from project.data.collate import bordered
from project.data.mask_files import read_mask
from project.data.mask_values import meanings, numbers_of
from project.errors import UserError


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("project.data.mask_files.FOLDER", tmp_path / "remembered")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ten images of growing width, each with a mask whose right half is 255."""
    for name in ("images", "masks"):
        (tmp_path / name).mkdir()
    for number in range(10):
        width = 20 + 2 * number
        Image.fromarray(np.full((16, width, 3), 20 * number, np.uint8)).save(
            tmp_path / "images" / f"{number}.jpg"
        )
        mask = np.zeros((16, width), np.uint8)
        mask[:, width // 2 :] = 255
        Image.fromarray(mask).save(tmp_path / "masks" / f"{number}.png")
    return tmp_path


def module(folder: Path, **options: object) -> Masks:
    settings = {"size": (8, 8), "augmentation": "none", "normalization": "half", "batch_size": 4,
                "loader": Loader(num_workers=0)}  # fmt: skip
    sources = {"root": str(folder / "images"), "masks": str(folder / "masks")}
    return Masks(**{**sources, **settings, **options})


def errors(data: Masks) -> dict[str, list[tuple[str, str]]]:
    return {f.title: f.items for f in data.index.findings if f.severity == "error"}


def change(folder: Path, number: int, values: np.ndarray) -> None:
    Image.fromarray(values).save(folder / "masks" / f"{number}.png")


def test_trained_at_the_networks_size_measured_at_the_images_own(folder: Path) -> None:
    data = module(folder, classes={0: "back", 255: "cell"})
    data.setup("fit")
    assert data.class_names == ["back", "cell"]
    train = next(iter(data.train_dataloader()))
    assert train["target"].shape == (4, 8, 8)
    assert train["target"].tolist() == [[[0] * 4 + [1] * 4] * 8] * 4
    assert "size" not in train
    test = next(iter(data.test_dataloader()))
    widths = [20 + 2 * int(Path(name).stem) for name in data.names("test")]
    assert test["size"].tolist() == [[16, width] for width in widths]
    assert test["target"].shape == (len(widths), 16, max(widths))
    for row, width in enumerate(widths):
        half = [0] * (width // 2) + [1] * (width - width // 2)
        assert test["target"][row, 0].tolist() == half + [IGNORED] * (max(widths) - width)


def test_a_class_that_is_nowhere_is_told(folder: Path) -> None:
    data = module(folder, classes={0: "back", 255: "cell", 7: "never"})
    absent = {f.title: f.items for f in data.index.findings if f.title.startswith("class without")}
    assert absent == {
        f"class without a {s} pixel": [("never", "")] for s in ("training", "val", "test")
    }
    assert not errors(data)


def test_nothing_but_ignored_pixels_is_an_error(folder: Path) -> None:
    for number in range(10):
        change(folder, number, np.full((16, 20 + 2 * number), IGNORED, np.uint8))
    assert "no training pixel has a class" in errors(module(folder, classes={0: "back", 1: "cell"}))


def test_counts_are_of_the_pixels(folder: Path) -> None:
    data = module(folder, classes={0: "back", 255: "cell"})
    widths = [20 + 2 * n for n in range(10)]
    total = np.array([sum(each.values()) for each in data.counts().values()]).sum()
    assert total == 16 * sum(widths)
    assert data.class_counts == list(data.counts()["train"].values())


@pytest.mark.parametrize(
    ("values", "classes", "ignored"),
    [
        ([0, 128, 255], {0: "0", 128: "128", 255: "255"}, False),
        ([0, 255], {0: "0", 255: "255"}, False),
        ([0, 1, 2, 255], {0: "0", 1: "1", 2: "2"}, True),
        ([0, 1, 2], {0: "0", 1: "1", 2: "2"}, False),
        ([0, 7, 30, 255], {0: "0", 7: "7", 30: "30"}, True),
    ],
)
def test_found_meanings(values: list[int], classes: dict[int, str], ignored: bool) -> None:
    pixels = np.zeros((1, 256), np.int64)
    pixels[0, values] = 5
    found, findings, holds = meanings(pixels, ["a.png"], None)
    assert found == classes
    assert not holds.any()
    assert any("ignored" in each.title for each in findings) == ignored
    lookup = numbers_of(found)
    assert lookup[list(classes)].tolist() == list(range(len(classes)))
    assert (np.delete(lookup, list(classes)) == IGNORED).all()


def test_values_of_one_name_are_one_class(folder: Path) -> None:
    mask = np.zeros((16, 26), np.uint8)
    mask[:, 6:] = 7
    change(folder, 3, mask)
    data = module(folder, classes={0: "back", 7: "cell", 255: "cell"})
    assert data.class_names == ["back", "cell"]
    assert data.pixels[3].tolist() == [16 * 6, 16 * 20]
    assert numbers_of(data.classes)[[0, 7, 255]].tolist() == [0, 1, 1]


def test_a_value_that_stands_for_nothing_is_named(folder: Path) -> None:
    mask = np.zeros((16, 26), np.uint8)
    mask[0, :3] = 9
    change(folder, 3, mask)
    data = module(folder, classes={0: "back", 255: "cell"})
    title = "masks with values that stand for no class"
    assert errors(data) == {title: [("3.png", "9: 3 pixels")]}
    with pytest.raises(UserError, match="9: 3 pixels"):
        data.setup("fit")
    skipping = module(folder, classes={0: "back", 255: "cell"}, on_bad="skip")
    skipping.setup("fit")
    assert "3.jpg" not in {n for split in skipping.datasets for n in skipping.names(split)}


def test_a_mask_of_another_size_is_named(folder: Path) -> None:
    change(folder, 3, np.zeros((15, 26), np.uint8))
    detail = "is 26 x 15 pixels, its image 26 x 16"
    assert errors(module(folder)) == {"masks that can't be used": [("3.png", detail)]}


def test_a_mask_in_colour_is_named(folder: Path) -> None:
    colours = np.zeros((16, 26, 3), np.uint8)
    colours[:8, :, 0] = 200
    change(folder, 3, colours)
    found = errors(module(folder))["masks that can't be used"]
    assert found[0][0] == "3.png"
    assert "is in colour (2 different ones)" in found[0][1]


def test_masks_and_images_without_the_other_are_named(folder: Path) -> None:
    (folder / "masks" / "3.png").rename(folder / "masks" / "33.png")
    assert errors(module(folder)) == {
        "images without a mask": [("3.jpg", "")],
        "masks without an image": [("33.png", "")],
    }


def test_masks_with_a_suffix_beside_their_images(folder: Path) -> None:
    for number in range(10):
        mask = folder / "masks" / f"{number}.png"
        mask.rename(folder / "images" / f"{number}_mask.png")
    (folder / "masks").rmdir()
    (folder / "images" / "masks").mkdir()
    for mask in (folder / "images").glob("*_mask.png"):
        mask.rename(folder / "images" / "masks" / mask.name)
    data = module(folder, masks=str(folder / "images" / "masks"))
    assert data.index.names.tolist() == [f"{n}.jpg" for n in range(10)]
    assert not errors(data)


def test_a_table_of_files_and_masks(folder: Path) -> None:
    split = ["train"] * 6 + ["val", "test"] * 2
    rows = [f"{n}.jpg,masks/{n}.png,{s}" for n, s in enumerate(split)]
    (folder / "table.csv").write_text("\n".join(["file,mask,split", *rows]))
    data = module(folder, masks=str(folder / "table.csv"))
    data.setup("fit")
    assert data.names("test") == ["7.jpg", "9.jpg"]
    assert not errors(data)


@pytest.mark.parametrize(
    ("mode", "expected"), [("L", [0, 128]), ("1", [0, 255]), ("P", [0, 128]), ("RGB", [0, 128])]
)
def test_values_are_taken_as_they_are(tmp_path: Path, mode: str, expected: list[int]) -> None:
    grey = Image.fromarray(np.array([[0, 128]], np.uint8))
    if mode == "P":
        image = Image.fromarray(np.array([[0, 128]], np.uint8), "P")
        image.putpalette([200, 10, 10] * 256)
    else:
        image = grey.convert(mode, dither=Image.Dither.NONE) if mode == "1" else grey.convert(mode)
    image.save(tmp_path / "mask.png")
    assert read_mask(tmp_path / "mask.png").tolist() == [expected]


def test_values_beyond_a_byte_are_refused(tmp_path: Path) -> None:
    Image.fromarray(np.array([[0, 300]], np.uint16)).save(tmp_path / "mask.png")
    with pytest.raises(UserError, match="values from 0 to 300"):
        read_mask(tmp_path / "mask.png")


def test_what_was_looked_at_is_remembered_until_a_file_changes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = module(folder)
    with monkeypatch.context() as patch:
        patch.setattr("project.data.mask_files.read_mask", None)  # calling it would fail
        again = module(folder)
    np.testing.assert_array_equal(first.pixels, again.pixels)
    change(folder, 3, np.full((16, 26), 255, np.uint8))
    assert module(folder).pixels.tolist() != first.pixels.tolist()


def test_borders_are_ignored() -> None:
    masks = [torch.zeros(2, 3, dtype=torch.int64), torch.ones(3, 1, dtype=torch.int64)]
    batch = bordered([{"inputs": {}, "target": m, "index": n} for n, m in enumerate(masks)])
    x = IGNORED
    assert batch["target"].tolist() == [
        [[0, 0, 0], [0, 0, 0], [x, x, x]],
        [[1, x, x], [1, x, x], [1, x, x]],
    ]
    assert batch["index"].tolist() == [0, 1]


def test_both_sources_or_none(folder: Path) -> None:
    with pytest.raises(UserError, match="give both"):
        Masks(root=str(folder / "images"))
