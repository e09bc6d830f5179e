"""Smaller ONNX files of less precise numbers: what they cost in accuracy is measured, not promised.

They are made of the exact file, and only when they are asked for.
"""

import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np

from project.errors import UserError

Feeds = list[dict[str, np.ndarray]]


def half(exact: Path, feeds: Feeds, path: Path) -> None:
    """Weights and arithmetic in float16, half the size; inputs and answers stay as they are.

    Args:
        exact: The file in float32.
        feeds: Not needed.
        path: The file to write.
    """
    import onnx
    from onnxruntime.transformers.float16 import convert_float_to_float16

    model = convert_float_to_float16(
        onnx.load(exact), keep_io_types=True, op_block_list=["Resize", "Cast", "Range"]
    )
    onnx.save(model, path)


def eight_bits(exact: Path, feeds: Feeds, path: Path) -> None:
    """Convolutions and matrix products in 8 bits, by the ranges that real samples show.

    Args:
        exact: The file in float32.
        feeds: Real samples, as the model takes them.
        path: The file to write.

    Raises:
        UserError: There are none.
    """
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_static,
    )

    if not feeds:
        raise UserError("8 bits need real samples to find the ranges, and there are none here")

    class Reader(CalibrationDataReader):
        samples = iter(feeds)

        def get_next(self) -> dict[str, np.ndarray]:
            return next(self.samples, {})  # an empty one ends it, as None does

    level = logging.root.level
    logging.root.setLevel(logging.ERROR)  # it advises a preparation that our exporter has done
    try:
        quantize_static(
            str(exact),
            str(path),
            Reader(),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=["Conv", "MatMul", "Gemm"],
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
    finally:
        logging.root.setLevel(level)


WRITERS: dict[str, Callable[[Path, Feeds, Path], None]] = {"fp16": half, "int8": eight_bits}
"""By the names of `project.export.REDUCED`."""
