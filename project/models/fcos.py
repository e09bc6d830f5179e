"""A detector without anchor boxes: any position of a feature map may lie within an object."""

from collections import OrderedDict
from functools import partial

import torch
from torch import Tensor, nn
from torchvision.models import detection
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.fcos import FCOSClassificationHead, FCOSHead, FCOSRegressionHead
from torchvision.ops import FeaturePyramidNetwork

from project.errors import UserError
from project.models.stages import Stages


class FCOS(detection.FCOS):
    """Torchvision's FCOS, whose `forward` gives what its heads say, in training as in evaluation.

    Stages of feature maps, a pyramid that brings what the coarse ones know to the fine ones, and
    two heads shared by all of its levels. The loss and the choice of boxes are torchvision's, and
    have methods of their own: `loss` and `boxes`.

    Args:
        in_channels: Channels of the image. Pretrained weights are for 3.
        num_outputs: Classes of objects.
        name: Null for residual stages of our own, which fit small pictures and small data; else a
            ResNet of torchvision, such as `resnet18`, or `timm/` and a name of timm.
        weights: Where the stages' first values come from: null draws them, `torchvision` (or
            `timm`) downloads what the library offers, all else is a file; see docs/transfer.md.
        width: Channels of the first stage, where it is our own.
        strides: Pixels of the image that are one of each feature map, from the finest on. Objects
            smaller than two of the finest are hard to find: 4 for small ones.
        pyramid: Channels of the pyramid and the heads; a multiple of 16.
        num_convs: Layers of each head.

    Shapes:
        image: float [B, in_channels, H, W] → dictionary, A positions on all levels together:
            cls_logits float [B, A, num_outputs], bbox_regression float [B, A, 4] (distances to the
            left, top, right and bottom side, in strides), bbox_ctrness float [B, A, 1], positions
            float [B, A, 4] (a square of one stride around each, in pixels)

    Source: Tian et al., "FCOS: Fully Convolutional One-Stage Object Detection", 2019
        (arXiv:1904.01355).
    """

    def __init__(
        self,
        in_channels: int,
        num_outputs: int,
        *,
        name: str | None = None,
        weights: str | None = None,
        width: int = 16,
        strides: tuple[int, ...] = (8, 16, 32),
        pyramid: int = 64,
        num_convs: int = 2,
    ) -> None:
        if pyramid < 16 or pyramid % 16:
            raise UserError(f"pyramid is {pyramid}; it must be a multiple of 16, such as 64.")
        body = Stages(in_channels, name=name, weights=weights, width=width, strides=strides)
        norm = partial(nn.GroupNorm, 16)
        head = FCOSHead(32, 1, num_outputs, 0)  # for its loss; it would fix the normalisation
        head.classification_head = FCOSClassificationHead(
            pyramid, 1, num_outputs, num_convs, norm_layer=norm
        )
        head.regression_head = FCOSRegressionHead(pyramid, 1, num_convs, norm_layer=norm)
        super().__init__(
            _Pyramid(body, pyramid),
            num_outputs,
            anchor_generator=AnchorGenerator(
                tuple((stride,) for stride in strides), ((1.0,),) * len(strides)
            ),
            head=head,
            score_thresh=0.05,
        )
        self.expects = body.expects
        self.loaded = body.loaded

    def forward(  # ty: ignore[incompatible-method-override]
        self, image: Tensor
    ) -> dict[str, Tensor]:
        maps: list[Tensor] = self.backbone(image)
        outputs = self.head(maps)
        squares = [_squares(each, s) for each, s in zip(maps, self._strides, strict=True)]
        return {**outputs, "positions": torch.cat(squares, dim=1)}

    def loss(self, outputs: dict[str, Tensor], target: list[dict[str, Tensor]]) -> Tensor:
        """The mean over the objects: of their class, their sides, and how central a position is.

        Args:
            outputs: Of `forward`.
            target: For each image `boxes`, float [N, 4], and `labels`, int64 [N]; N may be 0.
        """
        positions = outputs["positions"]
        parts = self.compute_loss(target, outputs, list(positions), self._per_level(positions))
        return torch.stack(list(parts.values())).sum()

    def boxes(self, outputs: dict[str, Tensor], size: tuple[int, int]) -> list[dict[str, Tensor]]:
        """The best boxes of each image, without those that others of their class overlap.

        Args:
            outputs: Of `forward`.
            size: Height and width of the images, in pixels.

        Returns:
            For each image `boxes`, float [N, 4], `scores`, float [N], and `labels`, int64 [N]; the
            best first, 100 at most.
        """
        positions = outputs["positions"]
        levels = self._per_level(positions)
        by_level = {
            name: list(outputs[name].float().split(levels, dim=1))
            for name in ("cls_logits", "bbox_regression", "bbox_ctrness")
        }
        anchors = [list(each.split(levels)) for each in positions]
        return self.postprocess_detections(by_level, anchors, [size] * len(positions))

    def candidates(self, outputs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """The box that every position says, and its score for every class; nothing is chosen.

        Args:
            outputs: Of `forward`.

        Shapes:
            boxes: float [B, A, 4], in pixels; scores: float [B, A, C], from 0 to 1
        """
        boxes = self.box_coder.decode(outputs["bbox_regression"], outputs["positions"])
        central = outputs["bbox_ctrness"].sigmoid()
        return boxes, (outputs["cls_logits"].sigmoid() * central).sqrt()

    @property
    def _strides(self) -> list[int]:
        return [sizes[0] for sizes in self.anchor_generator.sizes]

    def _per_level(self, positions: Tensor) -> list[int]:
        """How many positions each level has: their squares are as wide as its stride."""
        sides = positions[0, :, 2] - positions[0, :, 0]
        return [int((sides == stride).sum()) for stride in self._strides]


class _Pyramid(nn.Module):
    """Torchvision's feature pyramid on stages.

    Shapes:
        image: float [B, in_channels, H, W] → list of float [B, channels, H / stride, W / stride]
    """

    def __init__(self, body: Stages, channels: int) -> None:
        super().__init__()
        self.body = body
        self.pyramid = FeaturePyramidNetwork(body.channels, channels)
        self.out_channels = channels

    def forward(self, image: Tensor) -> list[Tensor]:
        named = OrderedDict((str(n), each) for n, each in enumerate(self.body(image)))
        return list(self.pyramid(named).values())


def _squares(features: Tensor, stride: int) -> Tensor:
    """A square of one stride around each position of a map, in pixels: float [B, H * W, 4]."""
    batch, _, height, width = features.shape
    x = torch.arange(width, device=features.device, dtype=torch.float32) * stride
    y = torch.arange(height, device=features.device, dtype=torch.float32) * stride
    centres = torch.stack([x.repeat(height), y.repeat_interleave(width)], dim=1)  # [H * W, 2]
    half = stride / 2
    squares = torch.cat([centres - half, centres + half], dim=1)  # [H * W, 4]
    return squares.expand(batch, -1, -1)
