"""Classify picture files by the exported model beside this script; no other code is needed.

Install what it needs by `pip install onnxruntime numpy pillow`, then run
`python example.py picture.png`.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image

folder = Path(__file__).resolve().parent
contract = json.loads((folder / "contract.json").read_text(encoding="utf-8"))
session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])

if len(sys.argv) < 2:
    sys.exit("usage: python example.py picture.png [more.png ...]")
num_channels = contract["inputs"]["image"]["shape"][-1]
mode = {1: "L", 3: "RGB", 4: "RGBA"}[num_channels]
for name in sys.argv[1:]:
    with Image.open(name) as picture:
        pixels = np.asarray(picture.convert(mode)).reshape(
            1, picture.height, picture.width, num_channels
        )
    answers = session.run(["probabilities"], {"image": pixels})
    probabilities = np.asarray(answers[0])[0]
    print(name)
    for number in probabilities.argsort()[::-1][:5]:
        print(f"  {contract['class_names'][number]:20} {probabilities[number]:.4f}")
