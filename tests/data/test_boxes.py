"""Boxes in every way people write them down, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from project.data import Boxes, Columns, Loader, Splits
from project.data.annotations import annotations
from project.data.scenes import COUNTS, scene
from project.errors import UserError

HEADER = "file,label,xmin,ymin,xmax,ymax"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ten images of 40 x 20 pixels (wide x high)."""
    (tmp_path / "images").mkdir()
    for number in range(10):
        pixels = np.full((20, 40, 3), 20 * number, np.uint8)
        Image.fromarray(pixels).save(tmp_path / "images" / f"{number}.png")
    return tmp_path


def table(folder: Path, *rows: str, header: str = HEADER) -> str:
    """A table of these rows, and of one box on every image that they do not name."""
    named = {row.partition(",")[0] for row in rows}
    others = [f"{n}.png,cell,1,2,11,12" for n in range(10) if f"{n}.png" not in named]
    path = folder / "boxes.csv"
    path.write_text("\n".join([header, *rows, *others]) + "\n")
    return str(path)


def module(folder: Path, boxes: str, **options: object) -> Boxes:
    settings = {"size": (10, 10), "augmentation": "none", "normalization": "half",
                "batch_size": 2, "loader": Loader(num_workers=0)}  # fmt: skip
    return Boxes(str(folder / "images"), boxes, **{**settings, **options})


def sample(data: Boxes, name: str) -> dict:
    data.setup("fit")
    for split in data.datasets:
        if name in data.names(split):
            return data.datasets[split][data.names(split).index(name)]
    raise LookupError(name)


def test_boxes_are_stretched_with_their_image(folder: Path) -> None:
    data = module(folder, table(folder, "3.png,cell,4,2,20,10", "3.png,dot,0,0,40,20"))
    assert data.class_names == ["cell", "dot"]
    found = sample(data, "3.png")
    # 40 x 20 becomes 10 x 10: a quarter across, half down
    assert found["target"]["boxes"].tolist() == [[1.0, 1.0, 5.0, 5.0], [0.0, 0.0, 10.0, 10.0]]
    assert found["target"]["labels"].tolist() == [0, 1]
    assert found["size"].tolist() == [20, 40]
    assert found["inputs"]["image"].shape == (3, 10, 10)


def test_an_image_may_have_no_box(folder: Path) -> None:
    data = module(folder, table(folder, "3.png,,,,,"))
    found = sample(data, "3.png")["target"]
    assert found["boxes"].shape == (0, 4)
    assert found["labels"].dtype == torch.int64
    assert not [each for each in data.index.findings if each.severity == "error"]


@pytest.mark.parametrize(
    ("row", "title", "detail"),
    [
        ("3.png,cell,4,2,4,10", "without width or height", "boxes.csv line 2: 4, 2, 4, 10"),
        ("3.png,cell,20,2,4,10", "without width or height", "boxes.csv line 2: 20, 2, 4, 10"),
        ("3.png,cell,nan,2,4,10", "are no numbers", "boxes.csv line 2: nan"),
        ("3.png,cell,,2,4,10", "are no numbers", "boxes.csv line 2: , 2"),
        ("3.png,cell,4,2,41,10", "beyond their image", "line 2: 4, 2, 41, 10 of 40 x 20"),
        ("3.png,cell,-1,2,4,10", "beyond their image", "line 2: -1, 2"),
        ("3.png,,1,2,4,10", "without a label", "boxes.csv line 2"),
        ("30.png,cell,1,2,4,10", "whose image does not exist", "boxes.csv line 2"),
    ],
)
def test_what_no_box_is(folder: Path, row: str, title: str, detail: str) -> None:
    data = module(folder, table(folder, row))
    errors = [each for each in data.index.findings if each.severity == "error"]
    assert [title in each.title for each in errors] == [True]
    assert errors[0].items[0][0] == row.partition(",")[0]
    assert detail in errors[0].items[0][1]
    with pytest.raises(UserError, match="can't be used as they are"):
        data.setup("fit")


def test_skip_leaves_the_image_of_a_bad_box_out(folder: Path) -> None:
    boxes = table(folder, "3.png,cell,4,2,4,10", "3.png,cell,1,1,5,5")
    data = module(folder, boxes, on_bad="skip")
    data.setup("fit")
    assert "3.png" not in {name for split in data.datasets for name in data.names(split)}
    assert sum(len(data.names(split)) for split in data.datasets) == 9


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ("0.1,0.2,0.5,0.6", "boxes are shares of their image, from 0 to 1"),
        ("0,0,1,1", "boxes are shares of their image, from 0 to 1"),
        ("20,10,12,8", "boxes look like x, y, width, height"),
    ],
)
def test_another_way_to_write_boxes_is_seen(folder: Path, numbers: str, said: str) -> None:
    path = folder / "boxes.csv"
    path.write_text("\n".join([HEADER, *(f"{n}.png,cell,{numbers}" for n in range(10))]))
    if said.endswith("height"):
        with pytest.raises(UserError, match=f"no box that can be used. {said}"):
            module(folder, str(path))
        return
    errors = [f.title for f in module(folder, str(path)).index.findings if f.severity == "error"]
    assert errors == [said]


def test_how_to_say_that_an_image_shows_nothing(folder: Path) -> None:
    data = module(folder, table(folder, "3.png,cell,0,0,0,0"))
    told = next(f for f in data.index.findings if f.severity == "error")
    assert "an image that shows nothing has a row with its file alone" in told.advice


def test_boxes_that_vanish_are_told(folder: Path) -> None:
    # 40 x 20 becomes 10 x 10: a quarter across, half down
    data = module(folder, table(folder, "3.png,cell,4,2,7.5,10", "4.png,cell,4,2,8,4"))
    told = [f for f in data.index.findings if "less than a pixel" in f.title]
    assert [f.items for f in told] == [[("3.png", "0.88 x 4")]]


def test_a_class_that_a_split_lacks_is_told(folder: Path) -> None:
    data = module(folder, table(folder, "3.png,dot,4,2,20,10"))
    absent = {f.title: f.items for f in data.index.findings if f.title.startswith("class without")}
    without = [split for split, counts in data.counts().items() if not counts["dot"]]
    assert len(without) == 2
    names = {"train": "a training box", "val": "a val box", "test": "a test box"}
    assert absent == {f"class without {names[split]}": [("dot", "")] for split in without}


def test_an_image_that_no_box_names_is_told(folder: Path) -> None:
    Image.new("RGB", (40, 20)).save(folder / "images" / "forgotten.png")
    data = module(folder, table(folder))
    errors = {each.title: each.items for each in data.index.findings if each.severity == "error"}
    assert errors == {"images that no box names": [("forgotten.png", "")]}


def test_equal_boxes_are_told(folder: Path) -> None:
    row = "3.png,cell,4,2,20,10"
    data = module(folder, table(folder, row, row))
    warnings = {f.title: f.items for f in data.index.findings if f.severity == "warning"}
    found = warnings["equal boxes on one image"]
    assert found == [("3.png", "boxes.csv line 2"), ("3.png", "boxes.csv line 3")]


def test_stated_splits(folder: Path) -> None:
    rows = [
        f"{n}.png,cell,1,2,11,12,{s}" for n, s in enumerate(["train"] * 6 + ["val", "test"] * 2)
    ]
    data = module(folder, table(folder, *rows, header=f"{HEADER},split"))
    data.setup("fit")
    assert data.names("val") == ["6.png", "8.png"]
    assert data.names("test") == ["7.png", "9.png"]


def test_an_image_in_two_splits_is_refused(folder: Path) -> None:
    rows = [f"{n}.png,cell,1,2,11,12,train" for n in range(10)]
    rows.append("3.png,cell,5,5,9,9,test")
    data = module(folder, table(folder, *rows, header=f"{HEADER},split"))
    with pytest.raises(UserError, match=r"images in several splits: 3\.png \(test, train\)"):
        data.setup("fit")


def test_voc_and_coco_say_the_same_as_a_table(folder: Path) -> None:
    rows = ["3.png,cell,4,2,20,10", "3.png,dot,0,0,40,20", "4.png,,,,,"]
    of_table = module(folder, table(folder, *rows))
    (folder / "voc").mkdir()
    coco: dict = {"images": [], "annotations": [],
                  "categories": [{"id": 7, "name": "cell"}, {"id": 9, "name": "dot"}]}  # fmt: skip
    for number in range(10):
        lines = (folder / "boxes.csv").read_text().splitlines()[1:]
        own = [row.split(",")[1:] for row in lines if row.startswith(f"{number}.png")]
        objects = ""
        coco["images"].append({"id": number, "file_name": f"{number}.png"})
        for label, *corners in own:
            if not label:
                continue
            names = ("xmin", "ymin", "xmax", "ymax")
            box = "".join(f"<{n}>{c}</{n}>" for n, c in zip(names, corners, strict=True))
            objects += f"<object><name>{label}</name><bndbox>{box}</bndbox></object>"
            x1, y1, x2, y2 = map(float, corners)
            coco["annotations"].append(
                {"image_id": number, "bbox": [x1, y1, x2 - x1, y2 - y1],
                 "category_id": {"cell": 7, "dot": 9}[label]}
            )  # fmt: skip
        xml = f"<annotation><filename>{number}.png</filename>{objects}</annotation>"
        (folder / "voc" / f"{number}.xml").write_text(xml)
    (folder / "coco.json").write_text(json.dumps(coco))
    for source in ("voc", "coco.json"):
        found = module(folder, str(folder / source))
        assert found.class_names == of_table.class_names
        for name in ("boxes", "labels", "starts", "sizes"):
            ours, theirs = (getattr(each.annotations, name) for each in (found, of_table))
            np.testing.assert_array_equal(ours, theirs)
        assert found.index.split.tolist() == of_table.index.split.tolist()


def test_a_box_of_coco_is_named_by_its_annotation(folder: Path) -> None:
    content = {
        "images": [{"id": n, "file_name": f"{n}.png"} for n in range(10)],
        "categories": [{"id": 1, "name": "cell"}],
        "annotations": [
            {"id": 50, "image_id": 0, "category_id": 1, "bbox": [1, 1, 5, 5]},
            {"id": 51, "image_id": 3, "category_id": 1, "bbox": [4, 2, 0, 8]},
        ],
    }
    path = folder / "coco.json"
    path.write_text(json.dumps(content))
    found = annotations(folder / "images", path, Columns(), Splits())
    errors = [each for each in found.index.findings if each.severity == "error"]
    assert errors[0].items == [("3.png", "coco.json annotation 51: 4.0, 2.0, 4.0, 10.0")]


def test_a_column_of_corners_that_is_missing(folder: Path) -> None:
    header = "file,label,xmin,ymin,width,height"
    with pytest.raises(UserError, match=r"one column for xmax .* found file, label, xmin"):
        module(folder, table(folder, header=header))


def test_images_alone_are_not_enough(folder: Path) -> None:
    with pytest.raises(UserError, match=r"data\.boxes is not given"):
        Boxes(str(folder / "images"))


def test_predicting_on_images_without_boxes(folder: Path) -> None:
    data = module(folder, table(folder), predict_root=str(folder / "images"))
    data.setup("fit")
    data.setup("predict")
    batch = next(iter(data.predict_dataloader()))
    assert set(batch) == {"inputs", "index", "size"}
    assert batch["size"].tolist() == [[20, 40], [20, 40]]
    assert data.names("predict")[0] == "0.png"


def test_another_box_is_another_fingerprint(folder: Path) -> None:
    first = module(folder, table(folder, "3.png,cell,4,2,20,10")).fingerprint()
    assert module(folder, table(folder, "3.png,cell,4,2,20,10")).fingerprint() == first
    assert module(folder, table(folder, "3.png,cell,4,2,20,11")).fingerprint() != first


def test_scenes_are_known_to_the_pixel() -> None:
    digits = 0
    for number in range(30):
        picture, mask, boxes = scene("train", number)
        again = scene("train", number)
        assert (picture == again[0]).all()
        assert boxes == again[2]
        for left, top, right, bottom, digit in boxes:
            inside = mask[top:bottom, left:right]
            assert (inside == digit + 1).any()
            assert (mask[top, left:right] != 0).any()
            assert (mask[top:bottom, left] != 0).any()
            digits += 1
        outside = mask.copy()
        for left, top, right, bottom, _ in boxes:
            outside[top:bottom, left:right] = 0
        assert not outside.any()
    assert digits > 30
    assert not (scene("train", 0)[0] == scene("val", 0)[0]).all()
    assert set(COUNTS) == {"train", "val", "test"}
