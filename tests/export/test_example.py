"""The bundle's own script prepares what a user has as this project does, and says it in words."""

import io
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from project.data import decoding
from project.data.tokens import WORDS, fitted
from project.export import example

TEXTS = ["Don't pay 3,50 € late?", "The  café\nis OPEN", "ﬁne cafe\u0301s"]


def about(unit: str) -> tuple:
    tokenizer = fitted(
        TEXTS, unit=unit, lowercase=True, max_length=12, min_count=1, max_tokens=None
    )
    return tokenizer, {"tokenizer": {**tokenizer.description(), "words": WORDS}}


@pytest.mark.parametrize("unit", ["word", "character"])
@given(text=st.text() | st.sampled_from([*TEXTS, "", "   ", "İstanbul", "unseen words"]))
def test_texts_become_the_same_numbers(unit: str, text: str) -> None:
    tokenizer, contract = about(unit)
    assert example.tokens({"text": text}, contract).tolist() == tokenizer.encode(text)


COLUMNS = [{"name": "rooms", "median": 2.0}, {"name": "kind", "values": ["flat", "house"]}]


def test_a_row_by_the_names_of_its_columns() -> None:
    row = example.features(
        {"kind": " house ", "rooms": "3.5", "colour": "red"}, {"columns": COLUMNS}
    )
    assert row.dtype == np.float32
    assert row.tolist() == [3.5, 1.0]
    missing = example.features({"rooms": "NA", "kind": "castle"}, {"columns": COLUMNS})
    assert np.isnan(missing).all()
    with pytest.raises(ValueError, match=r"rooms must be a number with a decimal point.*'3,5'"):
        example.features({"rooms": "3,5", "kind": ""}, {"columns": COLUMNS})
    with pytest.raises(ValueError, match="the row lacks kind; where none is known, leave it blank"):
        example.features({"rooms": "3.5", "Kind": "flat"}, {"columns": COLUMNS})


def test_a_sequence_of_another_width_is_refused(tmp_path) -> None:
    steps = {"shape": ["batch", "steps", 2]}
    np.save(tmp_path / "steps.npy", np.arange(6.0).reshape(3, 2))
    assert example.sequence({"sequence": tmp_path / "steps.npy"}, steps).shape == (3, 2)
    assert example.sequence({"sequence": np.ones(3)}, {"shape": ["batch", "steps", 1]}).shape == (
        3,
        1,
    )
    (tmp_path / "one.csv").write_text("1,2\n")
    assert example.sequence({"sequence": tmp_path / "one.csv"}, steps).tolist() == [[1, 2]]
    with pytest.raises(ValueError, match=r"numbers \[T, 2\] are needed, but these are \[2, 3\]"):
        example.sequence({"sequence": np.ones((2, 3))}, steps)


def saved(picture: Image.Image, kind: str = "PNG", **options: object) -> io.BytesIO:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "P", "1"])
def test_a_picture_becomes_the_pixels_it_was_trained_on(mode: str, tmp_path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (6, 9, 4), dtype=np.uint8)
    path = tmp_path / "picture.png"
    path.write_bytes(saved(Image.fromarray(noise, "RGBA").convert(mode)).getvalue())
    trained = decoding.decode(path, at_least=(1, 1)).permute(1, 2, 0).numpy()
    found = example.image({"image": path}, {"shape": ["batch", "height", "width", 3]})
    assert np.abs(found.astype(int) - trained.astype(int)).max() <= 1


def test_a_turned_photo_stands_upright() -> None:
    picture = Image.new("RGB", (4, 2))
    exif = picture.getexif()
    exif[0x0112] = 6  # turn by 90 degrees
    found = example.image({"image": saved(picture, "JPEG", exif=exif)}, {"shape": [1, 1, 1, 3]})
    assert found.shape == (4, 2, 3)


def test_answers_in_words() -> None:
    contract = {
        "class_names": ["cat", "dog"],
        "target_names": ["price"],
        "min_score": 0.5,
        "same_place": 0.7,
    }
    one = example.in_words({"probabilities": np.array([0.25, 0.75])}, contract)
    assert (one["prediction"], one["probability"]) == ("dog", 0.75)
    several = example.in_words({"label_probabilities": np.array([0.6, 0.7])}, contract)
    assert several["prediction"] == "cat|dog"
    number = example.in_words({"predictions": np.array([7.5])}, contract)
    assert number == {"prediction": 7.5, "values": {"price": 7.5}}
    logits = np.array([[[0.9, 0.2]], [[0.1, 0.8]]])
    mask = example.in_words({"probabilities": logits}, contract)
    assert mask["mask"].tolist() == [[0, 1]]
    assert mask["shares"] == {"cat": 0.5, "dog": 0.5}
    boxes = {
        "boxes": np.array([[0, 1, 2, 3.1], [4, 5, 6, 7], [0.0, 1, 2, 3], [4, 5, 6, 7]]),
        "scores": np.array([0.6, 0.4, 0.9, 0.0]),  # the first is where the third is
        "labels": np.array([0, 0, 1, 1]),
    }
    found = example.in_words(boxes, contract)
    assert found["boxes"] == [{"label": "dog", "score": 0.9, "box": [0, 1, 2, 3]}]
    assert math.isclose(found["boxes"][0]["score"], 0.9)
