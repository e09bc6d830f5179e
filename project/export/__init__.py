"""A trained model as files that run without this project, checked against the original."""

FORMATS = {
    "onnx": "ONNX, for ONNX Runtime and most servers",
    "pt2": "a program of torch.export, for PyTorch without the network's code",
    "ts": "TorchScript, for servers that know nothing newer",
    "safetensors": "the network's weights alone, for its code",
}
"""By the ending of the file's name. Here, where the command line finds them without torch."""

REDUCED = {
    "fp16": "ONNX in float16: half the size, fast on GPUs alone",
    "int8": "ONNX with 8-bit products, by the ranges of validation samples: a quarter of the size",
}
"""Made of the ONNX file when they are asked for, with what they cost in accuracy."""
