"""Preprocessing, augmentation, splits, digits."""

import pickle
import warnings

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms.v2 import functional as vision

from project.data import Digits
from project.data.augmentation import (
    PhotoAugmentation,
    _recoloured,
    _rotated,
    image_augmentation,
    photo_augmentation,
)
from project.data.preprocessing import ImagePreprocessing
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


SHAPES = [(1, 50, 40), (2, 40, 90), (3, 33, 33), (2, 8, 9), (2, 200, 31), (1, 2, 3), (3, 7, 500)]
"""Of batches: one and several pictures, portrait, landscape, square, tiny, extreme."""


def pictures(count: int, height: int, width: int, channels: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(height * width)
    shape = (count, channels, height, width)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)


def test_the_centre_is_cut_out_by_hand() -> None:
    image = torch.arange(24, dtype=torch.uint8).view(1, 4, 6) * 10
    whole = ImagePreprocessing((4, 4), mean=[0.0], std=[1.0], crop=1.0)(image) * 255
    assert whole.round().tolist() == image[:, :, 1:5].tolist()
    half = ImagePreprocessing((2, 2), mean=[0.0], std=[1.0], crop=0.5)(image) * 255
    assert half.round().tolist() == image[:, 1:3, 2:4].tolist()
    flat = ImagePreprocessing((2, 6), mean=[0.0], std=[1.0], crop=1.0)(image) * 255
    assert flat.round().tolist() == image[:, 1:3, :].tolist()


@pytest.mark.parametrize("crop", [None, 1.0, 0.875])
@pytest.mark.parametrize("size", [(32, 32), (24, 40)])
def test_resize_is_pillows_within_one_level(size: tuple[int, int], crop: float | None) -> None:
    preprocessing = ImagePreprocessing(size, [0.0] * 3, [1.0] * 3, crop)
    for shape in SHAPES:
        image = pictures(*shape)[0]
        height, width = image.shape[1:]
        box = (0.0, 0.0, width, height)
        if crop is not None:
            tall = min(height, width * size[0] / size[1])
            wide = min(width, height * size[1] / size[0])
            tall, wide = np.ceil(crop * tall - 1e-9), np.ceil(crop * wide - 1e-9)
            left, top = (width - wide) // 2, (height - tall) // 2
            box = (left, top, left + wide, top + tall)
        pillow = Image.fromarray(image.permute(1, 2, 0).numpy()).crop(tuple(map(int, box)))
        expected = np.asarray(pillow.resize(size[::-1], Image.Resampling.BILINEAR))
        got = preprocessing(image).permute(1, 2, 0).numpy() * 255
        assert np.abs(got - expected).max() <= 1.001, shape


@pytest.mark.parametrize("crop", [None, 1.0, 0.875, 0.3])
@pytest.mark.parametrize("size", [(32, 32), (24, 40)])
def test_graphs_hold_the_arithmetic_for_every_size(
    size: tuple[int, int], crop: float | None
) -> None:
    preprocessing = ImagePreprocessing(size, [0.5, 0.4, 0.3], [0.2, 0.3, 0.25], crop)
    example = (pictures(3, size[0] + 2, size[1] + 5),)
    free = dict.fromkeys((0, 2, 3), torch.export.Dim.AUTO)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        traced = torch.jit.trace(preprocessing, example)
    exported = torch.export.export(preprocessing, example, dynamic_shapes=(free,)).module()
    for shape in SHAPES:
        images = pictures(*shape)
        assert torch.equal(traced(images), preprocessing(images)), shape
        if crop != 0.3 or min(shape[1:]) > 6:  # a program of torch.export takes 2 pixels or more
            assert torch.equal(exported(images), preprocessing(images)), shape


def test_a_traced_graph_is_bound_to_no_device() -> None:
    preprocessing = ImagePreprocessing((8, 8), [0.5], [0.2], crop=0.9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        graph = torch.jit.trace(preprocessing, (pictures(2, 9, 11, 1),)).inlined_graph
    devices = [node for node in graph.nodes() if "Device" in str(node.output().type())]
    assert devices == []


def test_without_a_crop_everything_is_as_before() -> None:
    images = pictures(3, 20, 30)
    scaled = torch.nn.functional.interpolate(
        images.float() / 255, (7, 9), mode="bilinear", antialias=True
    )
    mean, std = torch.full((3, 1, 1), 0.5), torch.full((3, 1, 1), 0.25)
    got = ImagePreprocessing((7, 9), [0.5] * 3, [0.25] * 3)(images)
    torch.testing.assert_close(got, (scaled - mean) / std)


def test_memory_layout_does_not_matter() -> None:
    rows = pictures(1, 20, 30)[0].permute(1, 2, 0).contiguous().permute(2, 0, 1)
    for size in ((20, 30), (8, 8)):
        preprocessing = ImagePreprocessing(size, [0.5] * 3, [0.25] * 3)
        first, second = preprocessing(rows), preprocessing(rows.contiguous())
        torch.testing.assert_close(first, second)
        assert first.is_contiguous() or size == (8, 8)


@pytest.mark.parametrize("crop", [0.0, -0.5, 1.5])
def test_a_crop_that_is_no_share_is_refused(crop: float) -> None:
    with pytest.raises(UserError, match=f"crop is {crop}; it must be a share"):
        ImagePreprocessing((1, 1), mean=[0.5], std=[1.0], crop=crop)


def test_description_tells_the_crop_only_if_there_is_one() -> None:
    first = ImagePreprocessing((5, 4), mean=[0.1], std=[0.2], crop=0.875)
    again = ImagePreprocessing(**first.description())
    image = pictures(1, 30, 20, 1)
    assert torch.equal(first(image), again(image))
    assert "crop" not in ImagePreprocessing((5, 4), mean=[0.1], std=[0.2]).description()


@pytest.mark.parametrize("strength", ["light", "medium", "strong"])
def test_photos_of_any_size_come_out_in_one_size(strength: str) -> None:
    augmentation = pickle.loads(pickle.dumps(photo_augmentation(strength, (24, 32), flip=True)))
    for shape in SHAPES:
        for number, image in enumerate(pictures(*shape)):
            torch.manual_seed(number)
            changed = augmentation(image)
            assert changed.dtype == torch.uint8
            assert changed.shape == (3, 24, 32)
            torch.manual_seed(number)
            assert torch.equal(augmentation(image), changed)
            assert not torch.equal(augmentation(image), changed)


def test_no_photo_augmentation_leaves_the_picture_alone() -> None:
    image = pictures(1, 9, 7)[0]
    assert photo_augmentation("none", (4, 4), flip=True)(image) is image


def test_photo_strengths_are_ordered() -> None:
    image = pictures(1, 40, 40)[0] // 4 + torch.arange(40, dtype=torch.uint8) * 4

    def change(strength: str) -> float:
        torch.manual_seed(0)
        augmentation = photo_augmentation(strength, (40, 40), flip=False)
        changed = torch.stack([augmentation(image) for _ in range(100)])
        return (changed.float() - image.float()).abs().mean().item()

    changes = [change(strength) for strength in ("none", "light", "medium", "strong")]
    assert changes[0] == 0
    assert changes == sorted(changes)


def test_half_are_flipped_if_that_is_asked_for() -> None:
    gradient = (torch.arange(30, dtype=torch.uint8) * 8).expand(3, 30, 30)
    torch.manual_seed(0)
    for flip, (least, most) in {False: (0, 0), True: (70, 130)}.items():
        augmentation = PhotoAugmentation((30, 30), crop_share=1.0, flip=flip)
        flipped = [bool(augmentation(gradient)[0, 0].float().diff().mean() < 0) for _ in range(200)]
        assert least <= sum(flipped) <= most


@pytest.mark.parametrize("crop_share", [0.25, 1.0])
def test_areas_and_aspects_are_in_their_ranges(crop_share: float) -> None:
    augmentation = PhotoAugmentation((30, 30), crop_share=crop_share)
    image = pictures(1, 300, 300)[0]
    torch.manual_seed(0)
    sizes = [augmentation._part(image, torch.rand(4).tolist()).shape[1:] for _ in range(300)]
    areas = [height * width / 300**2 for height, width in sizes]
    # at the border a part of full area and another aspect is cut, to 3 / 4 ** 0.5 of it at most
    assert min(areas) > crop_share * 0.75**0.5 - 0.02
    assert max(areas) > 0.9
    assert all(0.7 < height / width < 1.4 for height, width in sizes)


def test_colours_change_as_torchvision_changes_them() -> None:
    image = pictures(1, 20, 30)[0]
    for factors in ((1.3, 1.0, 1.0), (1.0, 0.7, 1.0), (1.0, 1.0, 0.5), (0.9, 0.9, 0.9)):
        expected = vision.adjust_brightness(image, factors[0])
        expected = vision.adjust_contrast(expected, factors[1])
        expected = vision.adjust_saturation(expected, factors[2])
        difference = (_recoloured(image, *factors).int() - expected.int()).abs()
        assert difference.max() <= 3  # torchvision rounds down, three times
    assert torch.equal(_recoloured(image, 1, 1, 1), image)


def test_rotation_is_about_the_centre_and_leaves_no_black_corner() -> None:
    image = pictures(1, 16, 16)[0] // 2 + 100
    assert torch.equal(_rotated(image[None], 0.0)[0], image)
    quarter = _rotated(image[None], 90.0)[0]
    assert torch.equal(quarter, image.rot90(-1, (1, 2))) or torch.equal(
        quarter, image.rot90(1, (1, 2))
    )
    wide = pictures(1, 12, 30)[0] // 2 + 100
    assert _rotated(wide[None], 15.0).min() >= 100


def test_only_strong_erases() -> None:
    image = torch.zeros(3, 40, 40, dtype=torch.uint8)

    def share_erased(strength: str) -> float:
        torch.manual_seed(0)
        augmentation = photo_augmentation(strength, (40, 40), flip=True)
        return sum(bool((augmentation(image) == 128).any()) for _ in range(200)) / 200

    assert share_erased("medium") == 0
    assert 0.15 < share_erased("strong") < 0.35


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


def test_digits_are_the_real_ones() -> None:
    digits = Digits()
    digits.setup("fit")
    assert {name: len(split) for name, split in digits.datasets.items()} == {
        "train": 1079, "val": 359, "test": 359,
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
