"""Augmentation in named strengths that keeps an image, its boxes and its mask in step."""

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional

from project.data.augmentation import Strength

Flip = Literal["none", "horizontal", "both"]
"""`both` also turns upside down, for what has no up: views from above, microscopy."""

VISIBLE = 0.3
"""A box of which less than this share is still in view is dropped: what is left of the object may
not be enough to know it by."""

# smallest share of the area; larger than for classes of whole photos, since what surrounds an
# object and how large it looks tell what it is
_CROP_SHARE = {"light": 0.7, "medium": 0.5, "strong": 0.3}
_COLOUR = {"light": 0.0, "medium": 0.2, "strong": 0.4}
_LARGEST_STRETCH = 4 / 3


def joint_augmentation(strength: Strength, size: tuple[int, int], *, flip: Flip) -> nn.Module:
    """Random crop, flip and colour; the result has the network's size.

    `light` crops at least 0.7 of the area and flips, `medium` crops more and changes the colours as
    well, `strong` more of both.

    Args:
        strength: `none` leaves everything as it is, its size too.
        size: Height and width of the result, in pixels.
        flip: Along which axes half of the images are mirrored.
    """
    if strength == "none":
        return nn.Identity()
    return JointAugmentation(
        size, crop_share=_CROP_SHARE[strength], flip=flip, colour=_COLOUR[strength]
    )


class JointAugmentation(nn.Module):
    """Cuts out a part, resizes it, mirrors it, and changes its colours, with all that lies on it.

    Args:
        size: Height and width of the result, in pixels.
        crop_share: Smallest share of the area that is cut out; the largest is 1. The part's aspect
            is that of `size`, stretched by up to 4 : 3 either way.
        flip: Along which axes half of the images are mirrored.
        colour: Brightness, contrast and saturation change by up to this share.

    Shapes:
        image: uint8 [3, H, W] → uint8 [3, *size]
        boxes: float [N, 4] in pixels, with labels [N] → those still in view, in the new pixels
        mask: uint8 [H, W] → uint8 [*size], by the nearest pixel
    """

    def __init__(
        self, size: tuple[int, int], *, crop_share: float, flip: Flip, colour: float = 0.0
    ) -> None:
        super().__init__()
        self.size = (size[0], size[1])
        aspect = size[1] / size[0]
        self.crop = v2.RandomResizedCrop(
            self.size,
            scale=(crop_share, 1.0),
            ratio=(aspect / _LARGEST_STRETCH, aspect * _LARGEST_STRETCH),
        )
        self.flip = flip
        self.colour: nn.Module = nn.Identity()
        if colour:
            self.colour = v2.ColorJitter(colour, colour, colour)

    def forward(self, image: Tensor, target: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        across, down = torch.rand(2).tolist()
        part = self.crop.make_params([tv_tensors.Image(image)])
        place = [part[name] for name in ("top", "left", "height", "width")]
        mirrors = []
        if self.flip != "none" and across < 0.5:
            mirrors.append(functional.horizontal_flip)
        if self.flip == "both" and down < 0.5:
            mirrors.append(functional.vertical_flip)

        moved = functional.resize(functional.crop(image, *place), list(self.size), antialias=True)
        for mirror in mirrors:
            moved = mirror(moved)
        found: dict[str, Tensor] = {}
        if "mask" in target:
            mask = nearest(functional.crop(target["mask"][None], *place)[0], self.size)
            for mirror in mirrors:
                mask = mirror(mask[None])[0]
            found["mask"] = mask
        if "boxes" in target:
            height, width = image.shape[-2:]
            boxes = tv_tensors.BoundingBoxes(  # ty: ignore[no-matching-overload]
                target["boxes"], format="XYXY", canvas_size=(height, width)
            )
            inside = functional.crop(boxes, *place)  # cut at the border
            seen = area(inside) / area(boxes) >= VISIBLE
            inside = functional.resize(inside, list(self.size))
            for mirror in mirrors:
                inside = mirror(inside)
            found["boxes"] = inside.as_subclass(Tensor)[seen]
            found["labels"] = target["labels"][seen]
        return self.colour(moved), found


def area(boxes: Tensor) -> Tensor:
    """Of boxes [N, 4], in pixels: [N]; 0 for what has no inside."""
    sides = (boxes[:, 2:] - boxes[:, :2]).clamp(min=0).as_subclass(Tensor)
    return sides.prod(dim=1)


def nearest(mask: Tensor, size: tuple[int, int]) -> Tensor:
    """A mask [H, W] at another size, each pixel that of the nearest one: no value is mixed."""
    if tuple(mask.shape) == tuple(size):
        return mask
    return F.interpolate(mask[None, None].float(), size, mode="nearest-exact")[0, 0].to(mask.dtype)


def scaled(boxes: Tensor, before: tuple[int, int], after: tuple[int, int]) -> Tensor:
    """Boxes [N, 4] of a picture that was stretched.

    Args:
        boxes: Left, top, right, bottom, in pixels.
        before: Height and width of the picture.
        after: The same once it was stretched.
    """
    x, y = after[1] / before[1], after[0] / before[0]
    if math.isclose(x, 1) and math.isclose(y, 1):
        return boxes
    return boxes * boxes.new_tensor([x, y, x, y])
