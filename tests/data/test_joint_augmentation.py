"""A box and a mask stay on what they are about, whatever happens to the image."""

import pytest
import torch
from torch import Tensor, nn

from project.batches import IGNORED
from project.data.joint_augmentation import (
    JointAugmentation,
    area,
    joint_augmentation,
    nearest,
    scaled,
)

SIZE = (60, 80)
STRENGTHS = ("light", "medium", "strong")


def bright_rectangle(left: int, top: int, right: int, bottom: int) -> Tensor:
    """uint8 [3, 120, 160], black but for a rectangle."""
    image = torch.zeros(3, 120, 160, dtype=torch.uint8)
    image[:, top:bottom, left:right] = 255
    return image


def bounds(bright: Tensor) -> Tensor:
    """Left, top, right, bottom of what is True in [H, W]."""
    y, x = bright.nonzero(as_tuple=True)
    return torch.stack([x.min(), y.min(), x.max() + 1, y.max() + 1]).float()


@pytest.mark.parametrize("flip", ["none", "horizontal", "both"])
@pytest.mark.parametrize("strength", STRENGTHS)
def test_box_and_mask_stay_on_their_object(strength: str, flip: str) -> None:
    augmentation = joint_augmentation(strength, SIZE, flip=flip)
    box = torch.tensor([[40.0, 30.0, 100.0, 90.0]])
    image = bright_rectangle(40, 30, 100, 90)
    target = {"boxes": box, "labels": torch.tensor([3]), "mask": (image[0] == 255).byte()}
    moved = 0
    for seed in range(40):
        torch.manual_seed(seed)
        changed, found = augmentation(image, target)
        assert changed.shape == (3, *SIZE)
        assert changed.dtype == torch.uint8
        assert found["mask"].shape == SIZE
        assert set(found["mask"].unique().tolist()) <= {0, 1}
        if not len(found["boxes"]):
            continue
        assert found["labels"].tolist() == [3]
        brightest = changed.float().mean(0)
        seen = bounds(brightest > brightest.max() / 2)
        # half a pixel of each side may be blurred or cut away
        torch.testing.assert_close(found["boxes"][0], seen, rtol=0, atol=1.0)
        torch.testing.assert_close(bounds(found["mask"] == 1), seen, rtol=0, atol=1.01)
        moved += not torch.allclose(found["boxes"][0], box[0] / 2)
    assert moved > 20


def test_what_is_hardly_in_view_is_dropped_with_its_label() -> None:
    augmentation = JointAugmentation((50, 50), crop_share=0.3, flip="none")
    image = torch.zeros(3, 100, 100, dtype=torch.uint8)
    boxes = torch.tensor([[0.0, 0.0, 10.0, 10.0], [45.0, 45.0, 55.0, 55.0]])
    dropped = 0
    for seed in range(60):
        torch.manual_seed(seed)
        target = {"boxes": boxes, "labels": torch.tensor([7, 8])}
        _, found = augmentation(image, target)
        assert len(found["boxes"]) == len(found["labels"])
        assert (area(found["boxes"]) > 0).all()
        assert found["boxes"].min() >= 0
        assert found["boxes"].max() <= 50
        dropped += 7 not in found["labels"]
    assert 0 < dropped < 60


def test_an_image_without_boxes_is_augmented() -> None:
    augmentation = joint_augmentation("medium", SIZE, flip="both")
    none = {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0, dtype=torch.int64)}
    _, found = augmentation(bright_rectangle(0, 0, 5, 5), none)
    assert found["boxes"].shape == (0, 4)
    assert found["labels"].shape == (0,)


@pytest.mark.parametrize("strength", STRENGTHS)
def test_masks_hold_only_the_values_they_had(strength: str) -> None:
    augmentation = joint_augmentation(strength, SIZE, flip="both")
    values = torch.tensor([0, 7, 200, IGNORED], dtype=torch.uint8)
    mask = values[torch.randint(0, 4, (120, 160))]
    for seed in range(20):
        torch.manual_seed(seed)
        _, found = augmentation(bright_rectangle(0, 0, 9, 9), {"mask": mask})
        assert set(found["mask"].unique().tolist()) <= set(values.tolist())


def test_none_is_nothing() -> None:
    assert isinstance(joint_augmentation("none", SIZE, flip="both"), nn.Identity)


def test_nearest_by_hand() -> None:
    mask = torch.tensor([[1, 2], [3, 255]], dtype=torch.uint8)
    larger = nearest(mask, (4, 2))
    assert larger.tolist() == [[1, 2], [1, 2], [3, 255], [3, 255]]
    assert larger.dtype == torch.uint8
    assert nearest(larger, (2, 2)).tolist() == mask.tolist()


def test_scaled_by_hand() -> None:
    box = torch.tensor([[10.0, 20.0, 30.0, 40.0]])
    assert scaled(box, (100, 200), (50, 400)).tolist() == [[20.0, 10.0, 60.0, 20.0]]
