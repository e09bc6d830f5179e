"""A trained model as files that run without this project, checked against the original."""

FORMATS = {
    "onnx": "ONNX, for ONNX Runtime and most servers",
    "pt2": "a program of torch.export, for PyTorch without the network's code",
    "ts": "TorchScript, for servers that know nothing newer",
    "safetensors": "the network's weights alone, for its code",
}
"""By the ending of the file's name. Here, where the command line finds them without torch."""
