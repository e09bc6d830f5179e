"""Several inputs at once: an encoder for each, and one head for all."""

import torch
from torch import Tensor, nn

from project.errors import UserError
from project.models.backbone import Backbone
from project.models.initialization import initialize
from project.models.mlp import MLP
from project.models.resnet import ResNet
from project.models.token_cnn import TokenEncoder


class Fusion(nn.Module):
    """One vector per input, side by side, then a linear head (late fusion).

    Which encoders there are follows from the sizes that are given, once and for all: data without
    texts have no number of tokens, and the network no encoder of texts. `inputs` are the parameters
    of `forward` that it takes; the others are left out.

    Args:
        num_outputs: Numbers predicted per sample.
        in_channels: Channels of the image; None for no images.
        num_tokens: Different tokens of the texts, padding (0) among them; None for no texts.
        num_features: Numbers of the table; None for none.
        width: Numbers that each encoder gives.
        image_width: Channels of the first stage of the image's `ResNet`.
        backbone: Take a `Backbone` of this name for the image instead.
        weights: Where the backbone's first values come from, as `Backbone` has it.
        dropout: Share of the vectors' numbers dropped in training, 0 to below 1.
        input_dropout: Share of whole vectors dropped in training, where there are several: none may
            be relied on alone, and each has to learn.

    Shapes:
        image: float [B, in_channels, H, W]; tokens: int64 [B, T]; padding: bool [B, T];
        features: float [B, num_features] → float [B, num_outputs]

    Raises:
        UserError: None of the sizes is given.
    """

    def __init__(
        self,
        num_outputs: int,
        in_channels: int | None = None,
        num_tokens: int | None = None,
        num_features: int | None = None,
        *,
        width: int = 128,
        image_width: int = 32,
        backbone: str | None = None,
        weights: str | None = None,
        dropout: float = 0.5,
        input_dropout: float = 0.3,
    ) -> None:
        super().__init__()
        if width < 1 or not 0 <= dropout < 1 or not 0 <= input_dropout < 1:
            raise UserError(
                f"Fusion was given width={width}, dropout={dropout}, input_dropout={input_dropout}:"
                " width must be 1 or more, both dropouts from 0 to below 1."
            )
        if weights and not backbone:
            raise UserError(f"Fusion was given weights={weights!r} but no backbone to put them in.")
        self.encoders = nn.ModuleDict()
        self.loaded, self.expects = "", {}
        if in_channels is not None and backbone:
            image = Backbone(in_channels, width, name=backbone, weights=weights)
            self.loaded, self.expects = image.loaded, image.expects
            nn.init.xavier_uniform_(image.head.weight)  # a vector, not yet the prediction
            self.encoders["image"] = image
        elif in_channels is not None:
            self.encoders["image"] = ResNet(in_channels, width, width=image_width)
        if num_tokens is not None:
            self.encoders["text"] = _Text(num_tokens, width)
        if num_features is not None:
            self.encoders["features"] = MLP(num_features, width, width=width, depth=1)
        if not self.encoders:
            raise UserError("Fusion needs an input: images, texts or the numbers of a table.")
        takes = {"image": ["image"], "text": ["tokens", "padding"], "features": ["features"]}
        self.inputs = [name for encoder in self.encoders for name in takes[encoder]]
        several = len(self.encoders) > 1
        self.head = nn.Sequential(
            nn.ReLU(),
            nn.Dropout1d(input_dropout if several else 0.0),
            nn.Dropout(dropout),
            nn.Flatten(),
            nn.Linear(width * len(self.encoders), num_outputs),
        )
        initialize(self.head)

    def forward(
        self,
        image: Tensor | None = None,
        tokens: Tensor | None = None,
        padding: Tensor | None = None,
        features: Tensor | None = None,
    ) -> Tensor:
        given = {"image": (image,), "text": (tokens, padding), "features": (features,)}
        vectors = [encode(*given[name]) for name, encode in self.encoders.items()]  # [B, width]
        return self.head(torch.stack(vectors, dim=1))  # [B, num_outputs]


class _Text(nn.Module):
    """A vector per text.

    Shapes:
        tokens: int64 [B, T]; padding: bool [B, T] → float [B, width]
    """

    def __init__(self, num_tokens: int, width: int) -> None:
        super().__init__()
        self.encoder = TokenEncoder(num_tokens, embedding=width, width=width)
        self.project = nn.Linear(self.encoder.num_features, width)
        initialize(self.project)

    def forward(self, tokens: Tensor, padding: Tensor) -> Tensor:
        return self.project(self.encoder(tokens, padding))
