"""Preprocessing, augmentation, splits, digits."""

import numpy as np
import pytest
import torch

from project.data import Digits
from project.data.augmentation import image_augmentation
from project.data.preprocessing import ImagePreprocessing
from project.data.splits import stratified
from project.errors import UserError


def test_normalised_by_hand() -> None:
    preprocessing = ImagePreprocessing((1, 1), mean=[0.5, 0.0], std=[0.25, 2.0])
    image = torch.tensor([[[255]], [[51]]], dtype=torch.uint8)  # 1.0 and 0.2
    assert preprocessing(image).flatten().tolist() == pytest.approx([2.0, 0.1])


def test_same_size_is_left_alone_and_batches_equal_single_images() -> None:
    images = torch.randint(0, 256, (4, 3, 9, 7), dtype=torch.uint8)
    preprocessing = ImagePreprocessing((9, 7), mean=[0.0] * 3, std=[1.0] * 3)
    assert torch.equal(preprocessing(images), images / 255)
    assert torch.equal(preprocessing(images)[2], preprocessing(images[2]))


def test_resize_is_antialiased() -> None:
    stripes = torch.zeros(1, 16, 16, dtype=torch.uint8)
    stripes[:, :, ::2] = 255
    small = ImagePreprocessing((4, 4), mean=[0.0], std=[1.0])(stripes)
    assert small.min() > 0.35  # without antialiasing it would pick single stripes: 0 or 1
    assert small.max() < 0.65


def test_statistics_of_the_images_it_was_fitted_on() -> None:
    images = torch.randint(0, 256, (50, 2, 6, 6), dtype=torch.uint8)
    normalised = ImagePreprocessing.fitted(images, (6, 6))(images)
    assert normalised.mean((0, 2, 3)).tolist() == pytest.approx([0, 0], abs=1e-4)
    assert normalised.std((0, 2, 3)).tolist() == pytest.approx([1, 1], abs=1e-4)


def test_description_makes_it_again() -> None:
    first = ImagePreprocessing((5, 4), mean=[0.1], std=[0.2])
    again = ImagePreprocessing(**first.description())
    image = torch.randint(0, 256, (1, 8, 8), dtype=torch.uint8)
    assert torch.equal(first(image), again(image))


def test_a_constant_channel_is_refused() -> None:
    with pytest.raises(UserError, match="every std must be above 0"):
        ImagePreprocessing((1, 1), mean=[0.5], std=[0.0])


@pytest.mark.parametrize("strength", ["light", "medium", "strong"])
def test_augmentation_changes_images_and_keeps_their_kind(strength: str) -> None:
    image = torch.randint(0, 256, (1, 16, 16), dtype=torch.uint8)
    torch.manual_seed(0)
    changed = image_augmentation(strength, flip=False)(image)
    assert changed.dtype == torch.uint8
    assert changed.shape == image.shape
    assert not torch.equal(changed, image)


def test_strengths_are_ordered() -> None:
    torch.manual_seed(0)
    images = torch.randint(0, 256, (200, 1, 16, 16), dtype=torch.uint8)

    def change(strength: str) -> float:
        augmentation = image_augmentation(strength, flip=False)
        changed = torch.stack([augmentation(image) for image in images])
        return (changed.float() - images.float()).abs().mean().item()

    changes = [change(strength) for strength in ("none", "light", "medium", "strong")]
    assert changes[0] == 0
    assert changes == sorted(changes)


def test_split_is_stratified_disjoint_and_repeatable() -> None:
    labels = np.array([0] * 60 + [1] * 40)
    rows = stratified(labels, {"train": 0.5, "val": 0.3, "test": 0.2}, seed=3)
    assert {k: np.bincount(labels[v]).tolist() for k, v in rows.items()} == {
        "train": [30, 20], "val": [18, 12], "test": [12, 8],
    }  # fmt: skip
    assert sorted(np.concatenate(list(rows.values()))) == list(range(100))
    again = stratified(labels, {"train": 0.5, "val": 0.3, "test": 0.2}, seed=3)
    assert all(np.array_equal(rows[k], again[k]) for k in rows)
    other = stratified(labels, {"train": 0.5, "val": 0.3, "test": 0.2}, seed=4)
    assert not np.array_equal(rows["test"], other["test"])


def test_split_of_too_few_or_wrong_shares_is_refused() -> None:
    with pytest.raises(UserError, match=r"\['7'\] have fewer samples than there are splits \(3\)"):
        stratified(np.array([1] * 9 + [7]), {"train": 0.6, "val": 0.2, "test": 0.2}, seed=0)
    with pytest.raises(UserError, match="must sum to 1"):
        stratified(np.arange(4) % 2, {"train": 0.6, "test": 0.6}, seed=0)


def test_digits_are_the_real_ones() -> None:
    digits = Digits()
    digits.setup("fit")
    assert {name: len(split) for name, split in digits.datasets.items()} == {
        "train": 1078, "val": 359, "test": 360,
    }  # fmt: skip
    assert digits.datasets["train"].images.max() == 255  # 16 grey levels spread over 0-255
    sample = digits.datasets["test"][0]
    assert sample["inputs"]["image"].shape == (1, 8, 8)
    assert digits.names("test")[0].startswith("digits[")


def test_statistics_come_from_the_training_split() -> None:
    digits = Digits()
    digits.setup("fit")
    pixels = digits.datasets["train"].images.double() / 255
    assert digits.description()["preprocessing"]["mean"] == [round(pixels.mean().item(), 6)]
