"""Architectures: plain modules, whose `forward` takes inputs by the names of `project.batches`."""

from project.models.backbone import Backbone
from project.models.resnet import ResNet

__all__ = ["Backbone", "ResNet"]
