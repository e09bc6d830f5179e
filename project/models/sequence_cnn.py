"""Residual convolutions over steps: signals, sounds, movements of any length."""

from torch import Tensor, nn

from project.errors import UserError
from project.models.initialization import initialize
from project.models.pooling import masked, mean_and_max


class SequenceEncoder(nn.Module):
    """One vector per sequence: residual convolutions over time, then mean and maximum.

    Each block looks twice as far as the one before, at every step, every second, every fourth, …
    A step is normalised by itself, so that neither batch mates nor padding matter.

    Args:
        num_channels: Numbers at each step.
        width: Channels of the blocks.
        depth: Number of blocks.
        kernel_size: Steps that each block looks at, an odd number.
        dropout: Share of each block's result dropped in training, 0 to below 1.

    Shapes:
        sequence: float [B, T, num_channels]; padding: bool [B, T] → float [B, 2 · width]

    Source: the growing steps are those of Bai et al., "An empirical evaluation of generic
        convolutional and recurrent networks for sequence modeling", 2018 (arXiv:1803.01271).
    """

    def __init__(
        self,
        num_channels: int,
        *,
        width: int = 64,
        depth: int = 4,
        kernel_size: int = 5,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        if width < 1 or depth < 1 or kernel_size < 1 or kernel_size % 2 == 0:
            raise UserError(
                f"The sequence encoder was given width={width}, depth={depth}, kernel_size="
                f"{kernel_size}: all must be 1 or more, the kernel's size an odd number."
            )
        if not 0 <= dropout < 1:
            raise UserError(f"dropout is {dropout}; allowed is 0 to below 1.")
        self.num_features = 2 * width
        self.stem = nn.Conv1d(num_channels, width, kernel_size, padding=kernel_size // 2)
        self.blocks = nn.ModuleList(
            Block(width, kernel_size, 2**number, dropout) for number in range(depth)
        )
        self.norm = nn.LayerNorm(width)
        self.activation = nn.ReLU()
        initialize(self)
        for block in self.blocks:
            # each block starts as the identity (arXiv:1706.02677, section 5.1)
            nn.init.zeros_(block.get_parameter("convolution.weight"))

    def forward(self, sequence: Tensor, padding: Tensor) -> Tensor:
        features = over_time(self.stem, sequence, padding)  # [B, T, width]
        for block in self.blocks:
            features = block(features, padding)
        return mean_and_max(self.activation(self.norm(features)), padding)


class Block(nn.Module):
    """Features + convolution(ReLU(norm(features))).

    Args:
        width: Channels.
        kernel_size: Steps that are looked at together.
        dilation: How far apart they are.
        dropout: Share of what is added that is dropped in training.

    Shapes:
        features: float [B, T, width]; padding: bool [B, T] → float [B, T, width]
    """

    def __init__(self, width: int, kernel_size: int, dilation: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.activation = nn.ReLU()
        self.convolution = nn.Conv1d(
            width, width, kernel_size, padding=kernel_size // 2 * dilation, dilation=dilation
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, features: Tensor, padding: Tensor) -> Tensor:
        active = self.activation(self.norm(features))
        return features + self.dropout(over_time(self.convolution, active, padding))


class SequenceCNN(nn.Module):
    """A `SequenceEncoder` with a linear head.

    Args:
        num_channels: Numbers at each step.
        num_outputs: Numbers predicted per sequence.
        width: Channels of the blocks.
        depth: Number of blocks.
        kernel_size: Steps that each block looks at, an odd number.
        dropout: Share of the features dropped in training, 0 to below 1.

    Shapes:
        sequence: float [B, T, num_channels]; padding: bool [B, T] → float [B, num_outputs]
    """

    def __init__(
        self,
        num_channels: int,
        num_outputs: int,
        *,
        width: int = 64,
        depth: int = 4,
        kernel_size: int = 5,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        self.encoder = SequenceEncoder(
            num_channels, width=width, depth=depth, kernel_size=kernel_size, dropout=dropout
        )
        self.head = nn.Sequential(
            nn.Dropout(dropout), nn.Linear(self.encoder.num_features, num_outputs)
        )
        initialize(self.head)

    def forward(self, sequence: Tensor, padding: Tensor) -> Tensor:
        return self.head(self.encoder(sequence, padding))


def over_time(convolution: nn.Module, features: Tensor, padding: Tensor) -> Tensor:
    """A convolution over the steps that sees zeros where a sequence has ended.

    Shapes:
        features: float [B, T, C]; padding: bool [B, T] → float [B, T, C']
    """
    return convolution(masked(features, padding).transpose(1, 2)).transpose(1, 2)
