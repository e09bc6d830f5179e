"""Feature maps of an image at several scales: what detectors and the like are built upon."""

import math

import torch
from torch import Tensor, nn
from torchvision import models as torchvision_models
from torchvision.models._utils import IntermediateLayerGetter

from project.errors import UserError, suggestion
from project.models.backbone import TIMM, pretrained_statistics, timm_library
from project.models.initialization import initialize
from project.models.resnet import ResidualBlock
from project.state_dicts import load_body, read_file, statistics_of, tensors_of


class Stages(nn.Module):
    """Maps of an image, each at half the resolution of the one before.

    Args:
        in_channels: Channels of the image. Pretrained weights are for 3.
        name: Null for residual stages of our own, which fit small pictures and small data; else a
            ResNet of torchvision, such as `resnet18`, or `timm/` and a name of timm.
        weights: Where the first values come from, as for `Backbone`.
        width: Channels of the first stage of our own.
        strides: Which maps to give: how many pixels of the image are one of the map, from the
            finest on, such as (8, 16, 32).

    Shapes:
        image: float [B, in_channels, H, W] → list of float [B, channels[i], H / strides[i], …]
    """

    def __init__(
        self,
        in_channels: int,
        *,
        name: str | None,
        weights: str | None,
        width: int,
        strides: tuple[int, ...],
    ) -> None:
        super().__init__()
        if list(strides) != sorted({2 ** round(math.log2(s)) for s in strides if s > 1}):
            raise UserError(
                f"strides are {list(strides)}; they are powers of 2 from the finest on, such as "
                "[8, 16, 32]."
            )
        self.strides = tuple(strides)
        self.expects: dict[str, list[float]] = {}
        self.loaded = ""
        if name is None:
            if weights:
                raise UserError(f"weights is {weights!r}, and name is null: say of which network.")
            self.maps: nn.Module = _Own(in_channels, width, self.strides)
            self.channels = [width * stride // 2 for stride in self.strides]
            return
        if weights and in_channels != 3:
            raise UserError(
                f"Pretrained weights of {name} are for images with 3 channels; these have "
                f"{in_channels}. Set weights to null, or convert the images to RGB."
            )
        library = "timm" if name.startswith(TIMM) else "torchvision"
        download = weights == library
        make = _of_timm if library == "timm" else _of_torchvision
        self.maps = make(name, in_channels, self.strides, download)
        self.loaded = f"weights of {library}'s {name}" if download else ""
        if weights:
            self.expects = pretrained_statistics(name)
            if not download:
                content = read_file(weights)
                stored = tensors_of(content, weights)
                self.expects = statistics_of(content) or self.expects
                self.loaded = load_body(self.maps.state_dict(), stored, head=(), source=weights)
        with torch.no_grad():
            found = self.eval()(torch.zeros(1, in_channels, 64, 64))
        self.train()
        self.channels = [each.shape[1] for each in found]

    def forward(self, image: Tensor) -> list[Tensor]:
        maps = self.maps(image)
        return list(maps.values()) if isinstance(maps, dict) else list(maps)


class _Own(nn.Module):
    """A stem and residual blocks, two per stage; the channels double as the resolution halves."""

    def __init__(self, in_channels: int, width: int, strides: tuple[int, ...]) -> None:
        super().__init__()
        self.strides = strides
        self.stem = nn.Sequential(
            nn.Conv2d(in_channels, width, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
        )
        self.stages = nn.ModuleDict()
        channels, stride = width, 2
        while stride < max(strides):
            wider, stride = width * stride, 2 * stride
            self.stages[str(stride)] = nn.Sequential(
                ResidualBlock(channels, wider, 2), ResidualBlock(wider, wider, 1)
            )
            channels = wider
        initialize(self)

    def forward(self, image: Tensor) -> list[Tensor]:
        features = self.stem(image)  # [B, width, H / 2, W / 2]
        maps = {2: features}
        for stride, stage in self.stages.items():
            features = stage(features)
            maps[int(stride)] = features
        return [maps[stride] for stride in self.strides]


def _of_torchvision(
    name: str, in_channels: int, strides: tuple[int, ...], download: bool
) -> nn.Module:
    """The stages of a ResNet of torchvision."""
    allowed = torchvision_models.list_models(torchvision_models, include="*resne*t*")
    if name not in allowed:
        raise UserError(
            f"name is {name!r}; as stages serve {TIMM} and a name of timm, and of torchvision the "
            f"ResNets.{suggestion(name, allowed)}"
        )
    if in_channels != 3:
        raise UserError(f"{name} takes images of 3 channels, these have {in_channels}.")
    network = torchvision_models.get_model(name, weights="DEFAULT" if download else None)
    wanted = {4: "layer1", 8: "layer2", 16: "layer3", 32: "layer4"}
    _refuse_strides(strides, list(wanted), name)
    return IntermediateLayerGetter(network, {wanted[s]: str(s) for s in strides})


def _of_timm(name: str, in_channels: int, strides: tuple[int, ...], download: bool) -> nn.Module:
    """The stages of a network of timm."""
    bare = name.removeprefix(TIMM)
    timm = timm_library(bare)
    network = timm.create_model(bare, features_only=True, in_chans=in_channels)
    offered = list(network.feature_info.reduction())
    _refuse_strides(strides, offered, name)
    return timm.create_model(
        bare,
        pretrained=download,
        features_only=True,
        in_chans=in_channels,
        out_indices=[offered.index(stride) for stride in strides],
    )


def _refuse_strides(strides: tuple[int, ...], offered: list[int], name: str) -> None:
    if not set(strides) <= set(offered):
        raise UserError(f"strides are {list(strides)}; {name} has maps of {offered}.")
