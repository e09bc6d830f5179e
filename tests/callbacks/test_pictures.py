"""Pictures to look at: there, right, and without a trace in the run."""

import numpy as np
import torch
from PIL import Image
from torch import nn

from project.callbacks.pictures import _augmented, _augments_images
from project.data import Digits
from project.data.loader import Seeded
from project.figures import _TILE, _tile, augmentation_grid


def digits(**options: object) -> Digits:
    torch.manual_seed(3)
    data = Digits(**options)
    data.setup("fit")
    return data


def test_a_run_shows_what_augmentation_does(command, latest) -> None:
    options = ["--trainer.max_epochs", "1", "--trainer.limit_train_batches", "2"]
    assert command("fit", "--config", "configs/digits.yaml", *options) == 0
    with Image.open(latest().path / "figures" / "augmentation.png") as picture:
        assert picture.width > picture.height > 300


def test_drawing_it_leaves_the_generators_alone() -> None:
    data = digits()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    _augmented(data)
    assert torch.equal(torch.rand(3), expected)


def test_it_shows_the_very_pictures_of_the_first_epochs() -> None:
    data = digits()
    drawn = _augmented(data).axes[0].images[0].get_array()
    train = data.datasets["train"]
    assert np.array_equal(drawn[:_TILE, :_TILE, 0], _tile(train.images[0, 0].numpy())[:, :, 0])
    seen = Seeded(train, data.seed)[(1, 0)]["inputs"]["image"]
    numbers = data.preprocessing
    pixels = ((seen * numbers.std + numbers.mean) * 255).round()[0]
    tile = _tile(pixels.to(torch.uint8).numpy())
    assert np.array_equal(drawn[:_TILE, 2 * _TILE : 3 * _TILE, 0], tile[:, :, 0])


def test_nothing_to_show_without_augmentation_or_images() -> None:
    assert _augments_images(digits())
    assert not _augments_images(digits(augmentation="none"))
    data = digits()
    data.datasets = {"train": nn.Identity()}
    assert not _augments_images(data)


def test_a_tile_keeps_the_aspect_and_is_white_around() -> None:
    tile = _tile(np.zeros((10, 20, 3), np.uint8))
    assert tile.shape == (_TILE, _TILE, 3)
    dark = (tile == 0).all(axis=2)
    assert dark.any(axis=1).sum() == _TILE // 2
    assert dark.any(axis=0).sum() == _TILE
    assert _tile(np.zeros((1, 1000), np.uint8)).shape == (_TILE, _TILE, 3)


def test_a_grid_takes_pictures_of_different_sizes() -> None:
    row = [np.zeros((4, 4, 3), np.uint8), np.zeros((9, 5), np.uint8)]
    figure = augmentation_grid([row, row], ["original", "epoch 1"])
    assert figure.axes[0].images[0].get_array().shape == (2 * _TILE, 2 * _TILE, 3)
