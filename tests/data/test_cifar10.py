"""The downloaded data set, on a small stand-in for its files."""

from pathlib import Path

import numpy as np
import pytest

from project.data import CIFAR10
from project.errors import UserError
from tests.data.photos import fake_cifar10


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    return str(fake_cifar10(tmp_path / "cifar10", monkeypatch))


def test_splits(root: str) -> None:
    module = CIFAR10(root)
    module.prepare_data()  # the files are there: nothing is downloaded
    module.setup("fit")
    assert {name: len(split) for name, split in module.datasets.items()} == {
        "train": 180, "val": 20, "test": 40,
    }  # fmt: skip
    for name in ("train", "val", "test"):
        counts = np.bincount(module.datasets[name].target.numpy())
        assert len(set(counts.tolist())) == 1  # stratified, as the data are balanced
    assert module.names("test")[3] == "cifar10/test[3]"
    image = module.datasets["val"][0]["inputs"]["image"]
    assert image.shape == (3, 32, 32)


def test_pixels_are_where_they_were(root: str) -> None:
    module = CIFAR10(root)
    module.setup("fit")
    row = int(module.names("train")[0].removeprefix("cifar10/train[").rstrip("]"))
    data = np.random.default_rng(1 + row // 40).integers(0, 256, (40, 3072), dtype=np.uint8)
    images = module.datasets["train"].images
    assert np.array_equal(images[0].numpy().reshape(-1), data[row % 40])


def test_without_files(tmp_path: Path) -> None:
    module = CIFAR10(str(tmp_path / "nothing"))
    with pytest.raises(UserError, match=r"no CIFAR-10 in .*nothing; fit downloads it"):
        module.setup("test")


def test_without_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: object, **__: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr("torchvision.datasets.cifar.download_and_extract_archive", offline)
    with pytest.raises(UserError, match=r"could not be downloaded to .*: no route to host"):
        CIFAR10(str(tmp_path)).prepare_data()
