"""Architectures: plain modules, whose `forward` takes inputs by the names of `project.batches`."""

from project.models.backbone import Backbone
from project.models.fcos import FCOS
from project.models.fusion import Fusion
from project.models.mlp import MLP
from project.models.resnet import ResNet
from project.models.sequence_cnn import SequenceCNN
from project.models.token_cnn import TokenCNN
from project.models.unet import UNet

__all__ = ["FCOS", "MLP", "Backbone", "Fusion", "ResNet", "SequenceCNN", "TokenCNN", "UNet"]
