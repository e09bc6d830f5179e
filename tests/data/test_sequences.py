"""Sequences of files and of .ts files: what is read, refused and told."""

import io
import math
import wave
from pathlib import Path

import numpy as np
import pytest
import torch

from project.data import Columns, Sequences, Sound, Splits
from project.data.curves import LONGEST, SHORTEST, curves
from project.data.sequence_files import read_sequence
from project.data.sequence_preprocessing import SequenceAugmentation, fitted
from project.data.sounds import LogMel, read_wav
from project.data.ts_files import read_ts
from project.errors import UserError

TS = """# a comment
@problemName Test
@timeStamps false
@classLabel true a b
@data
1,2,3:4,5,6:a
7,8:9,10:b
"""


def npy(array: np.ndarray) -> bytes:
    """The content of a file."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def arrays(folder: Path, per_class: int = 8) -> Path:
    """Rising and falling lines of 3 to 10 steps and two channels."""
    for sign, name in ((1, "up"), (-1, "down")):
        (folder / name).mkdir(parents=True)
        for n in range(per_class):
            line = sign * np.arange(3 + n, dtype=np.float32) + n
            np.save(folder / name / f"{n}.npy", np.stack([line, line + 1], axis=1))
    return folder


def write_wav(path: Path, samples: np.ndarray, rate: int = 8000, width: int = 2) -> Path:
    whole = np.round(samples * (2 ** (8 * width - 1) - 1)).astype("<i4")
    content = whole.astype("<i2").tobytes() if width == 2 else (whole + 128).astype("u1").tobytes()
    if width == 3:
        content = b"".join(int(each).to_bytes(3, "little", signed=True) for each in whole)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(content)
    return path


def make(root: Path, **options: object) -> Sequences:
    settings = {"batch_size": 4, "augmentation": "none", "splits": Splits(0.25, 0.25), **options}
    return Sequences(str(root), **settings)


def errors(module: Sequences) -> dict[str, int]:
    found = module.audit(seconds=None)
    return {f.title: len(f.items) for f in found if f.severity == "error"}


def test_a_folder_of_arrays(tmp_path: Path) -> None:
    module = make(arrays(tmp_path))
    assert module.sizes == {"num_channels": 2, "num_outputs": 2}
    module.setup("fit")
    train = torch.cat([sample["inputs"]["sequence"] for sample in module.datasets["train"]])
    torch.testing.assert_close(train.mean(0), torch.zeros(2), atol=1e-5, rtol=0)
    torch.testing.assert_close(train.std(0, correction=0), torch.ones(2))
    for split in ("train", "val", "test"):
        for number, name in enumerate(module.names(split)):
            sample = module.datasets[split][number]
            assert module.class_names[sample["target"]] == name.split("/")[0]
            assert len(sample["inputs"]["sequence"]) == len(np.load(tmp_path / name))


def test_a_table_of_files_in_the_same_folder(tmp_path: Path) -> None:
    for n in range(12):
        text = "\n".join(f"{n + step};{step}" for step in range(3 + n % 4))
        (tmp_path / f"{n}.csv").write_text(f"x;y\n{text}\n")
    table = tmp_path / "labels.csv"
    table.write_text("file,kind\n" + "".join(f"{n},{'ab'[n % 2]}\n" for n in range(12)))
    module = Sequences(table=str(table), columns=Columns(label="kind"), splits=Splits(0.25, 0.25))
    module.setup("fit")
    assert not errors(module)  # the table itself is no sequence
    assert module.class_names == ["a", "b"]
    assert module.lengths("train").tolist() == [
        3 + int(n.split(".")[0]) % 4 for n in module.names("train")
    ]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("1,2\n3,4\n", [[1, 2], [3, 4]]),
        ("a,b\n1,2\n", [[1, 2]]),
        ("1\n2\n\n", [[1], [2]]),
        ("1\t-2.5e3\n", [[1, -2500]]),
        ("1 2\n3 4\n", [[1, 2], [3, 4]]),
    ],
)
def test_text_files(tmp_path: Path, content: str, expected: list) -> None:
    path = tmp_path / "x.txt"
    path.write_text(content)
    assert read_sequence(path, Sound()).values.tolist() == expected


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.csv", b"1,2\n3\n", "inhomogeneous"),
        ("x.csv", b"1,2\n3,?\n", "could not convert"),
        ("x.csv", b"1,nan\n", "NaN"),
        ("x.csv", b"", "empty"),
        ("x.npy", b"nothing", "pickle"),
        ("x.npy", npy(np.zeros((0, 2))), "it is empty"),
        ("x.wav", b"RIFF", "no sound"),
        ("x.mp3", b"", "no known kind"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=said):
        read_sequence(tmp_path / name, Sound())


def test_what_is_wrong_stops_or_is_left_out(tmp_path: Path) -> None:
    root = arrays(tmp_path)
    (root / "up" / "broken.npy").write_bytes(b"no array")
    np.save(root / "up" / "wide.npy", np.zeros((4, 3), np.float32))
    np.save(root / "down" / "nan.npy", np.full((4, 2), np.nan, np.float32))
    module = make(root)
    assert errors(module) == {
        "sequences that can't be read": 2,
        "sequences with another number of channels": 1,
    }
    with pytest.raises(UserError, match=r"up/broken.npy.*\n.*up/wide.npy \(3, not 2\)"):
        module.setup("fit")
    skipping = make(root, on_bad="skip")
    skipping.setup("fit")
    assert sum(len(skipping.names(split)) for split in ("train", "val", "test")) == 16


def test_equal_sequences_in_two_splits(tmp_path: Path) -> None:
    for split, classes in {"train": "aabb", "val": "ab", "test": "ab"}.items():
        for n, name in enumerate(classes):
            (tmp_path / split / name).mkdir(parents=True, exist_ok=True)
            value = {"train": n, "val": 10 + n, "test": n}[split]  # the first two of train again
            np.save(tmp_path / split / name / f"{n}.npy", np.full((3, 1), value, np.float32))
    assert errors(make(tmp_path)) == {"equal sequences in several splits": 2}
    module = make(tmp_path, on_bad="skip")
    module.setup("fit")
    assert (len(module.names("train")), len(module.names("test"))) == (2, 2)


def test_sequences_to_predict_on(tmp_path: Path) -> None:
    root = arrays(tmp_path / "known")
    new = tmp_path / "new"
    new.mkdir()
    np.save(new / "one.npy", np.zeros((5, 2), np.float32))
    np.save(new / "two.npy", np.zeros((5, 7), np.float32))
    module = make(root, predict_root=str(new), on_bad="skip")
    module.setup("predict")
    assert module.names("predict") == ["one.npy"]
    assert "target" not in next(iter(module.predict_dataloader()))
    with pytest.raises(UserError, match=r"unlike those trained on: two.npy \(7 channels"):
        make(root, predict_root=str(new)).setup("predict")


def test_what_was_measured_in_training_holds(tmp_path: Path) -> None:
    module = make(arrays(tmp_path))
    module.setup("fit")
    state = module.state_dict()
    state["description"]["preprocessing"] = {"mean": [1.0, 2.0], "std": [2.0, 4.0]}
    module.load_state_dict(state)
    raw = torch.from_numpy(np.load(tmp_path / module.names("val")[0]))
    expected = (raw - torch.tensor([1.0, 2.0])) / torch.tensor([2.0, 4.0])
    torch.testing.assert_close(module.datasets["val"][0]["inputs"]["sequence"], expected)


def test_a_channel_that_never_changes_is_left_as_it_is() -> None:
    steps = torch.stack([torch.arange(4.0), torch.full((4,), 7.0)], dim=1)
    assert fitted(steps).description()["std"] == [pytest.approx(1.25**0.5), 1.0]


def test_ts_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "X_TRAIN.ts"
    path.write_text(TS)
    series = read_ts(path)
    assert series.values[0].tolist() == [[1, 4], [2, 5], [3, 6]]
    assert series.values[1].tolist() == [[7, 9], [8, 10]]
    assert series.labels == ["a", "b"]
    assert series.lines == [6, 7]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("@data", "", "no line @data"),
        ("@timeStamps false", "@timeStamps true", "a time for every value"),
        ("@classLabel true a b", "@classLabel false", "no classes"),
        ("7,8:9,10:b", "7,8:9:b", "line 7: .* Every channel needs as many"),
        ("1,2,3", "1,?,3", "line 6: could not convert"),
        ("1,2,3", "1,NaN,3", "line 6: NaN"),
        ("1,2,3:4,5,6:a\n7,8:9,10:b\n", "", "no sequence after @data"),
    ],
)
def test_ts_files_that_are_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "x.ts"
    path.write_text(TS.replace(old, new))
    with pytest.raises(UserError, match=said):
        read_ts(path)


def test_ts_files_are_the_splits(tmp_path: Path) -> None:
    lines = [f"{n},{n + 1}:{'ab'[n % 2]}" for n in range(20)]
    head = TS.partition("1,2,3")[0]
    for name, part in {"train": lines[:14], "test": lines[14:]}.items():
        (tmp_path / f"{name}.ts").write_text(head + "\n".join(part) + "\n")
    train, test = str(tmp_path / "train.ts"), str(tmp_path / "test.ts")
    module = Sequences(table=train, test_table=test, splits=Splits(0.3, 0.3))
    module.setup("fit")
    assert module.names("test") == [f"test.ts:{line}" for line in range(6, 12)]
    assert len(module.names("train")) + len(module.names("val")) == 14
    with pytest.raises(UserError, match=r"test_table are for .ts files"):
        make(arrays(tmp_path / "arrays"), test_table=test)


@pytest.mark.parametrize("width", [1, 2, 3])
def test_sounds_of_every_width(tmp_path: Path, width: int) -> None:
    samples = np.array([0.0, 0.5, -0.5, 0.99])
    waveform, rate = read_wav(write_wav(tmp_path / "x.wav", samples, width=width))
    assert rate == 8000
    expected = torch.tensor(samples, dtype=torch.float32)[:, None]
    torch.testing.assert_close(waveform, expected, atol=2 / 2 ** (8 * width - 1), rtol=0)


@pytest.mark.parametrize("hertz", [300, 1000, 3000])
def test_a_tone_is_loudest_in_its_band(hertz: int) -> None:
    sound = Sound(num_mels=20)
    seconds = torch.arange(8000) / 8000
    spectrogram = LogMel(8000, sound)(torch.sin(2 * math.pi * hertz * seconds))
    assert spectrogram.shape == (101, 20)  # a step every 10 ms, both ends among them
    mel = 2595 * math.log10(1 + hertz / 700)
    band = mel / (2595 * math.log10(1 + 4000 / 700)) * 21 - 1
    assert abs(int(spectrogram[50].argmax()) - band) <= 1


def test_sounds_become_spectrograms_or_stay_raw(tmp_path: Path) -> None:
    path = write_wav(tmp_path / "x.wav", np.sin(np.arange(800)))
    assert read_sequence(path, Sound()).values.shape == (11, 40)
    assert read_sequence(path, Sound(features="raw")).values.shape == (800, 1)
    short = write_wav(tmp_path / "short.wav", np.array([0.1]))
    assert read_sequence(short, Sound()).values.shape == (1, 40)
    with pytest.raises(UserError, match="num_mels 0"):
        Sound(num_mels=0)


@pytest.mark.parametrize("length", [1, 2, 50])
def test_augmentation_keeps_a_sequence_of_any_length(length: int) -> None:
    torch.manual_seed(0)
    augmentation = SequenceAugmentation("strong")
    lengths = {len(augmentation(torch.zeros(length, 3))) for _ in range(50)}
    assert min(lengths) >= max(1, round(0.7 * length))
    assert max(lengths) <= round(1.3 * length)
    assert len(lengths) > 5 or length < 10


def test_the_curves_are_the_same_each_time() -> None:
    (first, kinds), (second, _) = curves(), curves()
    assert all(map(torch.equal, first, second))
    assert {SHORTEST <= len(curve) <= LONGEST for curve in first} == {True}
    assert len(set(kinds)) == 8
