"""A residual network for small images."""

from torch import Tensor, nn

from project.errors import UserError
from project.models.initialization import initialize


class ResNet(nn.Module):
    """Stem, stages of residual blocks, global average, linear head.

    The first stage keeps the image's size, each further one halves it and doubles the channels. Any
    image size of at least one pixel works.

    Args:
        in_channels: Channels of the image.
        num_outputs: Numbers predicted per image.
        width: Channels of the first stage.
        depths: Residual blocks of each stage.
        dropout: Share of the pooled features dropped in training, 0 to below 1.

    Shapes:
        image: float [B, in_channels, H, W] → float [B, num_outputs]

    Source: He et al., "Deep residual learning for image recognition", 2015 (arXiv:1512.03385); the
        blocks are those of section 4.2 with a projection where the shape changes.
    """

    def __init__(
        self,
        in_channels: int,
        num_outputs: int,
        *,
        width: int = 32,
        depths: tuple[int, ...] = (1, 1, 1),
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if width < 1 or not depths or min(depths) < 1 or not 0 <= dropout < 1:
            raise UserError(
                f"ResNet was given width={width}, depths={depths}, dropout={dropout}: width and "
                "every depth must be 1 or more, dropout from 0 to below 1."
            )
        self.stem = nn.Sequential(
            nn.Conv2d(in_channels, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
        )
        blocks: list[ResidualBlock] = []
        channels = width
        for stage, depth in enumerate(depths):
            for position in range(depth):
                stride = 2 if stage and not position else 1
                blocks.append(ResidualBlock(channels, width * 2**stage, stride))
                channels = width * 2**stage
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Dropout(dropout),
            nn.Linear(channels, num_outputs),
        )
        initialize(self)
        for block in blocks:
            # each block starts as the identity (arXiv:1706.02677, section 5.1)
            nn.init.zeros_(block.residual[-1].get_parameter("weight"))

    def forward(self, image: Tensor) -> Tensor:
        features = self.stem(image)  # [B, width, H, W]
        features = self.blocks(features)  # [B, C, H', W']
        return self.head(features)  # [B, num_outputs]


class ResidualBlock(nn.Module):
    """ReLU(shortcut + two convolutions), each convolution with batch normalisation.

    Args:
        in_channels: Channels coming in.
        out_channels: Channels going out.
        stride: 2 halves height and width.

    Shapes:
        float [B, in_channels, H, W] → float [B, out_channels, H / stride, W / stride]
    """

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            nn.Conv2d(in_channels, out_channels, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(),
            nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or in_channels != out_channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_channels, out_channels, 1, stride=stride, bias=False),
                nn.BatchNorm2d(out_channels),
            )
        self.activation = nn.ReLU()

    def forward(self, features: Tensor) -> Tensor:
        return self.activation(self.shortcut(features) + self.residual(features))
