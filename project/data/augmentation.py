"""Augmentation in named strengths, on uint8 images, before the preprocessing.

Start light: an augmentation that is too strong looks like a model that does not learn.
"""

from typing import Literal

from torch import nn
from torchvision.transforms import v2

Strength = Literal["none", "light", "medium", "strong"]

_DEGREES = {"light": 8, "medium": 15, "strong": 25}
_SHIFT_FRACTION = {"light": 0.08, "medium": 0.12, "strong": 0.2}
_ZOOM_FRACTION = {"light": 0.08, "medium": 0.15, "strong": 0.3}


def image_augmentation(strength: Strength, *, flip: bool) -> nn.Module:
    """Random shift, rotation and zoom, and a horizontal flip where that keeps the label.

    Args:
        strength: `none` leaves the image as it is.
        flip: Mirror half of the images. Right for photos of things, wrong for digits and letters.

    Shapes:
        uint8 [C, H, W] → uint8 [C, H, W]
    """
    if strength == "none":
        return nn.Identity()
    zoom = _ZOOM_FRACTION[strength]
    steps: list[nn.Module] = [
        v2.RandomAffine(
            degrees=(-_DEGREES[strength], _DEGREES[strength]),
            translate=(_SHIFT_FRACTION[strength], _SHIFT_FRACTION[strength]),
            scale=(1 - zoom, 1 + zoom),
            interpolation=v2.InterpolationMode.BILINEAR,
        )
    ]
    if flip:
        steps.append(v2.RandomHorizontalFlip())
    return v2.Compose(steps)
