"""A network that predicts for every pixel."""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from project.errors import UserError
from project.models.initialization import initialize


class UNet(nn.Module):
    """Down to a coarse map that sees far, up again with what each scale has seen on the way.

    Args:
        in_channels: Channels of the image.
        num_outputs: Numbers predicted per pixel, such as one per class.
        width: Channels at full resolution; they double as the resolution halves.
        depth: How many times the resolution halves. An object wider than about 2 to the power of
            `depth` times 8 pixels is not seen as a whole.

    Shapes:
        image: float [B, in_channels, H, W] → float [B, num_outputs, H, W], any H and W

    Source: Ronneberger et al., "U-Net: Convolutional networks for biomedical image segmentation",
        2015 (arXiv:1505.04597), with padding, batch normalisation, and bilinear upsampling.
    """

    def __init__(
        self, in_channels: int, num_outputs: int, *, width: int = 16, depth: int = 4
    ) -> None:
        super().__init__()
        if width < 1 or depth < 1:
            raise UserError(f"UNet was given width={width}, depth={depth}; both are 1 or more.")
        channels = [width * 2**level for level in range(depth + 1)]
        before = [in_channels, *channels]
        self.down = nn.ModuleList(_convolutions(before[n], c) for n, c in enumerate(channels))
        pairs = list(pairwise(channels))
        self.up = nn.ModuleList(_convolutions(fine + coarse, fine) for fine, coarse in pairs[::-1])
        self.pool = nn.MaxPool2d(2, ceil_mode=True)  # no row or column is left out
        self.head = nn.Conv2d(width, num_outputs, 1)
        initialize(self)
        nn.init.normal_(self.head.weight, std=0.01)  # every class starts as likely as any other

    def forward(self, image: Tensor) -> Tensor:
        features = self.down[0](image)  # [B, width, H, W]
        seen = [features]
        for convolutions in self.down[1:]:
            features = convolutions(self.pool(features))
            seen.append(features)
        for convolutions, fine in zip(self.up, seen[-2::-1], strict=True):
            larger = F.interpolate(features, fine.shape[-2:], mode="bilinear")
            features = convolutions(torch.cat([fine, larger], dim=1))
        return self.head(features)  # [B, num_outputs, H, W]


def _convolutions(in_channels: int, out_channels: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for channels in (in_channels, out_channels):
        layers += [
            nn.Conv2d(channels, out_channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers)
