"""Convolutions over tokens: which short phrases occur in a text, wherever they stand."""

import torch
from torch import Tensor, nn

from project.errors import UserError
from project.models.initialization import initialize
from project.models.pooling import masked, mean_and_max


class TokenEncoder(nn.Module):
    """One vector per text: embedding, convolutions of several widths side by side, mean and max.

    Args:
        num_tokens: Different tokens, padding (0) among them.
        embedding: Numbers that a token becomes.
        width: Channels of each convolution.
        kernel_sizes: Tokens that each convolution looks at together.
        dropout: Share of the embeddings dropped in training, 0 to below 1.

    Shapes:
        tokens: int64 [B, T]; padding: bool [B, T] → float [B, num_features]

    Source: Kim, "Convolutional neural networks for sentence classification", 2014
        (arXiv:1408.5882); the mean beside the maximum is ours.
    """

    def __init__(
        self,
        num_tokens: int,
        *,
        embedding: int = 128,
        width: int = 128,
        kernel_sizes: tuple[int, ...] = (1, 2, 3),
        dropout: float = 0.3,
    ) -> None:
        super().__init__()
        if min(embedding, width) < 1 or not kernel_sizes or min(kernel_sizes) < 1:
            raise UserError(
                f"The token encoder was given embedding={embedding}, width={width}, "
                f"kernel_sizes={kernel_sizes}: all must be 1 or more, of the sizes at least one."
            )
        if not 0 <= dropout < 1:
            raise UserError(f"dropout is {dropout}; allowed is 0 to below 1.")
        self.num_features = 2 * width * len(kernel_sizes)
        self.embedding = nn.Embedding(num_tokens, embedding, padding_idx=0)
        self.dropout = nn.Dropout(dropout)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(embedding, width, size, padding=size // 2) for size in kernel_sizes
        )
        self.activation = nn.ReLU()
        initialize(self)
        nn.init.normal_(self.embedding.weight, std=embedding**-0.5)  # vectors of length 1

    def forward(self, tokens: Tensor, padding: Tensor) -> Tensor:
        embedded = masked(self.dropout(self.embedding(tokens)), padding)  # [B, T, E]
        channels_first = embedded.transpose(1, 2)  # [B, E, T]
        length = tokens.shape[1]  # an even width gives one step more
        convolved = [conv(channels_first)[..., :length] for conv in self.convolutions]
        phrases = torch.cat(convolved, dim=1)  # [B, width · sizes, T]
        return mean_and_max(self.activation(phrases).transpose(1, 2), padding)


class TokenCNN(nn.Module):
    """A `TokenEncoder` with a linear head.

    Args:
        num_tokens: Different tokens, padding (0) among them.
        num_outputs: Numbers predicted per text.
        embedding: Numbers that a token becomes.
        width: Channels of each convolution.
        kernel_sizes: Tokens that each convolution looks at together.
        embedding_dropout: Share of the embeddings dropped in training, 0 to below 1.
        dropout: Share of the pooled features dropped in training, 0 to below 1.

    Shapes:
        tokens: int64 [B, T]; padding: bool [B, T] → float [B, num_outputs]
    """

    def __init__(
        self,
        num_tokens: int,
        num_outputs: int,
        *,
        embedding: int = 128,
        width: int = 128,
        kernel_sizes: tuple[int, ...] = (1, 2, 3),
        embedding_dropout: float = 0.3,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.encoder = TokenEncoder(
            num_tokens, embedding=embedding, width=width, kernel_sizes=kernel_sizes,
            dropout=embedding_dropout,
        )  # fmt: skip
        self.head = nn.Sequential(
            nn.Dropout(dropout), nn.Linear(self.encoder.num_features, num_outputs)
        )
        initialize(self.head)

    def forward(self, tokens: Tensor, padding: Tensor) -> Tensor:
        return self.head(self.encoder(tokens, padding))
