"""Initialisation by activation: the variance survives depth."""

from torch import nn


def initialize(module: nn.Module) -> None:
    """Initialise every layer of a network that feeds ReLUs (or similar) in place.

    Convolutions get Kaiming-normal weights by fan-out, linear layers Xavier-uniform ones, biases
    start at 0, normalisation layers as the identity. Call it before pretrained weights are loaded,
    or on the new head alone.

    Args:
        module: A layer or a whole network.

    Source: He et al., "Delving deep into rectifiers", 2015 (arXiv:1502.01852); Glorot and Bengio,
        "Understanding the difficulty of training deep feedforward neural networks", 2010.
    """
    for layer in module.modules():
        if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
        elif isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d | nn.GroupNorm | nn.LayerNorm):
            if layer.weight is not None:
                nn.init.ones_(layer.weight)
        else:
            continue
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
