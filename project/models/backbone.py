"""Torchvision's image classifiers, with the first and the last layer made to fit."""

from torch import Tensor, nn
from torchvision import models as torchvision_models

from project.errors import UserError, suggestion
from project.models.initialization import initialize


class Backbone(nn.Module):
    """A torchvision classifier whose head predicts what the data asks for.

    Args:
        in_channels: Channels of the image. Pretrained weights are for 3.
        num_outputs: Numbers predicted per image.
        name: Torchvision's name of the architecture, such as `resnet18` or `mobilenet_v3_small`.
        pretrained: Start from torchvision's ImageNet weights, downloaded once.

    Shapes:
        image: float [B, in_channels, H, W] → float [B, num_outputs]
    """

    def __init__(
        self, in_channels: int, num_outputs: int, *, name: str, pretrained: bool = False
    ) -> None:
        super().__init__()
        allowed = torchvision_models.list_models(module=torchvision_models)
        if name not in allowed:
            raise UserError(f"There is no torchvision model {name!r}.{suggestion(name, allowed)}")
        if pretrained and in_channels != 3:
            raise UserError(
                f"Pretrained weights of {name} are for images with 3 channels; these have "
                f"{in_channels}. Set pretrained to false, or convert the images to RGB."
            )
        self.body = torchvision_models.get_model(name, weights="DEFAULT" if pretrained else None)
        _replace_head(self.body, num_outputs)
        if in_channels != 3:
            _replace_stem(self.body, in_channels)

    def forward(self, image: Tensor) -> Tensor:
        return self.body(image)


def _replace_head(body: nn.Module, num_outputs: int) -> None:
    """The last linear layer (the classifier in every torchvision model with one)."""
    path, old = [(n, m) for n, m in body.named_modules() if isinstance(m, nn.Linear)][-1]
    head = nn.Linear(old.in_features, num_outputs)
    initialize(head)
    body.set_submodule(path, head)


def _replace_stem(body: nn.Module, in_channels: int) -> None:
    """The first convolution, for images that do not have three channels."""
    path, old = next((n, m) for n, m in body.named_modules() if isinstance(m, nn.Conv2d))
    stem = nn.Conv2d(
        in_channels,
        old.out_channels,
        old.kernel_size,  # type: ignore[arg-type]
        old.stride,  # type: ignore[arg-type]
        old.padding,  # type: ignore[arg-type]
        bias=old.bias is not None,
    )
    initialize(stem)
    body.set_submodule(path, stem)
