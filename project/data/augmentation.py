"""Augmentation in named strengths, on uint8 images, before the preprocessing.

Start light: an augmentation that is too strong looks like a model that does not learn.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.transforms import v2

from project.errors import UserError

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


_CROP_SHARE = {"light": 0.5, "medium": 0.3, "strong": 0.15}  # smallest share of the area
_COLOUR = {"light": 0.0, "medium": 0.2, "strong": 0.4}
_ROTATION = {"light": 0.0, "medium": 0.0, "strong": 15.0}  # degrees
_ERASING = {"light": 0.0, "medium": 0.0, "strong": 0.25}  # probability
_LARGEST_STRETCH = 4 / 3
_LARGEST_ERASED = 0.2  # of the area
_LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601


def photo_augmentation(strength: Strength, size: tuple[int, int], *, flip: bool) -> nn.Module:
    """Random crop, flip and colour of photos; the result has the network's size.

    `light` crops at least half of the area and flips, `medium` crops more and changes the colours
    as well, `strong` also rotates and erases.

    Args:
        strength: `none` leaves the picture as it is, its size too.
        size: Height and width of the result, in pixels.
        flip: Mirror half of the pictures. Right for photos of things, wrong for text and signs.

    Shapes:
        uint8 [3, H, W] → uint8 [3, *size]
    """
    if strength == "none":
        return nn.Identity()
    return PhotoAugmentation(
        size,
        crop_share=_CROP_SHARE[strength],
        flip=flip,
        colour=_COLOUR[strength],
        rotation=_ROTATION[strength],
        erasing=_ERASING[strength],
    )


class PhotoAugmentation(nn.Module):
    """Cuts out a part, resizes it once, then changes the small picture.

    All that is random is drawn from torch's generator, in one call, so that a picture costs little
    and its augmentation follows from the seed alone.

    Args:
        size: Height and width of the result, in pixels.
        crop_share: Smallest share of the area that is cut out; the largest is 1. The part's aspect
            is that of `size`, stretched by up to 4 : 3 either way.
        flip: Mirror half of the pictures.
        colour: Brightness, contrast and saturation change by up to this share.
        rotation: Rotate by up to so many degrees; what comes into view is mirrored.
        erasing: Probability that a rectangle is made grey, of up to a fifth of the area.

    Shapes:
        uint8 [3, H, W] → uint8 [3, *size]

    Source: Szegedy et al., "Going Deeper with Convolutions", CVPR 2015 (crop); Zhong et al.,
        "Random Erasing Data Augmentation", AAAI 2020.
    """

    def __init__(
        self,
        size: tuple[int, int],
        *,
        crop_share: float,
        flip: bool = True,
        colour: float = 0.0,
        rotation: float = 0.0,
        erasing: float = 0.0,
    ) -> None:
        super().__init__()
        if not 0 < crop_share <= 1:
            raise UserError(f"crop_share is {crop_share}; it must be above 0 and up to 1.")
        self.size = tuple(size)
        self.crop_share = crop_share
        self.flip = flip
        self.colour = colour
        self.rotation = rotation
        self.erasing = erasing

    def forward(self, image: Tensor) -> Tensor:
        draws = torch.rand(14).tolist()
        part = self._part(image, draws[:4])[None]  # [1, 3, h, w]
        small = F.interpolate(part, self.size, mode="bilinear", antialias=True)
        if self.rotation:
            small = _rotated(small, self.rotation * (2 * draws[4] - 1))
        image = small[0]  # [3, *size]
        if self.flip and draws[5] < 0.5:
            image = image.flip(-1)
        if self.colour:
            image = _recoloured(image, *(1 + self.colour * (2 * d - 1) for d in draws[6:9]))
        if draws[9] < self.erasing:
            image = _erased(image, draws[10:])
        return image

    def _part(self, image: Tensor, draws: list[float]) -> Tensor:
        """A part of random area, aspect and place; one that would not fit is cut at the border."""
        height, width = image.shape[1:]
        area = height * width * (self.crop_share + (1 - self.crop_share) * draws[0])
        aspect = self.size[1] / self.size[0] * _LARGEST_STRETCH ** (2 * draws[1] - 1)
        rows = min(height, max(1, round(math.sqrt(area / aspect))))
        columns = min(width, max(1, round(math.sqrt(area * aspect))))
        top = int(draws[2] * (height - rows + 1))
        left = int(draws[3] * (width - columns + 1))
        return image[:, top : top + rows, left : left + columns]


def _rotated(images: Tensor, degrees: float) -> Tensor:
    """uint8 [B, C, H, W] turned about the centre; the corners are filled by reflection."""
    height, width = images.shape[2:]
    sine, cosine = math.sin(math.radians(degrees)), math.cos(math.radians(degrees))
    x = (torch.arange(width) * 2 + 1) / width - 1  # [W], from -1 to 1
    y = ((torch.arange(height) * 2 + 1) / height - 1)[:, None]  # [H, 1]
    from_x = cosine * x - (sine * height / width) * y  # F.affine_grid takes 5 times as long
    from_y = (sine * width / height) * x + cosine * y
    grid = torch.stack([from_x, from_y], dim=-1).expand(len(images), -1, -1, -1)  # [B, H, W, 2]
    turned = F.grid_sample(
        images.float(), grid, mode="bilinear", padding_mode="reflection", align_corners=False
    )
    return turned.round_().to(torch.uint8)


def _recoloured(image: Tensor, brightness: float, contrast: float, saturation: float) -> Tensor:
    """uint8 [3, H, W] with all three changed by factors, as one matrix over the channels.

    Saturation mixes each pixel with its grey, contrast all of them with the mean grey.
    """
    planes = image.to(torch.float32, memory_format=torch.contiguous_format).view(3, -1)
    luma = torch.tensor(_LUMA)
    matrix = torch.eye(3) * saturation + luma * (1 - saturation)  # [to, from]
    grey = (luma @ planes.mean(1)) * (1 - contrast) * brightness
    changed = (matrix * contrast * brightness) @ planes  # [3, H * W]
    return changed.add_(grey + 0.5).clamp_(0, 255).to(torch.uint8).view(image.shape)  # rounded


def _erased(image: Tensor, draws: list[float]) -> Tensor:
    """uint8 [C, H, W] with a rectangle of middle grey."""
    height, width = image.shape[1:]
    share, stretch = _LARGEST_ERASED * draws[0], 2 ** (2 * draws[1] - 1)
    rows = min(height, round(height * math.sqrt(share * stretch)))
    columns = min(width, round(width * math.sqrt(share / stretch)))
    top, left = int(draws[2] * (height - rows + 1)), int(draws[3] * (width - columns + 1))
    image = image.clone()
    image[:, top : top + rows, left : left + columns] = 128
    return image
