"""How long an exported model takes to answer: `python benchmarks/latency.py`.

Eager PyTorch, TorchScript, the exported program, ONNX Runtime in float32 and in 8 bits, each with
the preparation of uint8 pictures included, for a batch of 1 and of 32. One after the other in each
turn, one thread each; the median, and the ratio to eager in the same turn.

Writes `benchmarks/results/latency.json` and `.md`.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from project.export import formats, reduced
from project.export.served import Served, evaluating
from project.models import Backbone, ResNet
from project.tasks import Classification

RESULTS = Path(__file__).parent / "results"
CASES = {
    "digits (ResNet, 8 px)": (lambda: ResNet(1, 10, width=32), (8, 8), 1),
    "MobileNetV3-Small, 224 px": (
        lambda: Backbone(3, 10, name="mobilenet_v3_small"), (224, 224), 3,
    ),
}  # fmt: skip
BATCHES = (1, 32)
Answer = Callable[[np.ndarray], object]


def served(network: torch.nn.Module, size: tuple[int, int], channels: int) -> Served:
    """A task's model with its preprocessing; the values of the weights do not matter here."""
    task = Classification(network, [str(number) for number in range(10)])
    numbers = {"size": list(size), "mean": [0.5] * channels, "std": [0.25] * channels}
    return Served(task, {"preprocessing": numbers})


def ways(model: Served, folder: Path, samples: list[np.ndarray]) -> dict[str, Answer]:
    """Every way to ask the model, by name."""
    example = tuple(kind.example() for kind in model.inputs.values())
    for name in ("onnx", "pt2", "ts"):
        formats.WRITERS[name](model, example, "{}", folder / f"model.{name}")
    feeds = [{"image": sample[None]} for sample in samples]
    reduced.eight_bits(folder / "model.onnx", feeds, folder / "model.int8.onnx")
    return {
        "eager": in_torch(model),
        "TorchScript": in_torch(torch.jit.load(folder / "model.ts")),
        "exported program": in_torch(torch.export.load(folder / "model.pt2").module()),
        "ONNX Runtime": in_onnxruntime(folder / "model.onnx"),
        "ONNX Runtime, int8": in_onnxruntime(folder / "model.int8.onnx"),
    }


def in_torch(model: Callable) -> Answer:
    """Ask a model of PyTorch."""

    def answer(pixels: np.ndarray) -> object:
        with torch.inference_mode():
            return model(torch.from_numpy(pixels))

    return answer


def in_onnxruntime(file: Path) -> Answer:
    """Ask an ONNX file, in one thread as the others."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    return lambda pixels: session.run(None, {"image": pixels})


def measured(answers: dict[str, Answer], pixels: np.ndarray, turns: int) -> dict[str, dict]:
    """Median milliseconds, and the median ratio of eager's time to each in the same turn."""
    times: dict[str, list[float]] = {name: [] for name in answers}
    for turn in range(turns + 3):  # the first ones warm up
        for name, answer in answers.items():
            began = time.perf_counter()
            answer(pixels)
            if turn >= 3:
                times[name].append(1e3 * (time.perf_counter() - began))
    eager = times["eager"]
    return {
        name: {
            "milliseconds": round(statistics.median(each), 3),
            "times as fast": round(
                statistics.median(e / t for e, t in zip(eager, each, strict=True)), 2
            ),
        }
        for name, each in times.items()
    }


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=50)
    turns = parser.parse_args().turns
    torch.set_num_threads(1)
    result: dict[str, dict[str, dict]] = {}
    for name, (network, size, channels) in CASES.items():
        model = served(network(), size, channels)
        shape = (size[0] + 3, size[1] + 5, channels)
        samples = list(np.random.default_rng(0).integers(0, 256, (32, *shape), dtype=np.uint8))
        with tempfile.TemporaryDirectory() as folder, evaluating(model):
            answers = ways(model, Path(folder), samples)
            for count in BATCHES:
                pixels = np.stack(samples[:count])
                turns_here = max(5, turns // count) if size[0] > 100 else turns
                result.setdefault(name, {})[str(count)] = measured(answers, pixels, turns_here)
    lines = ["| model | batch | way | ms | times as fast as eager |", "|---|---|---|---|---|"]
    for name, batches in result.items():
        for count, rows in batches.items():
            lines += [
                f"| {name} | {count} | {way} | {row['milliseconds']} | {row['times as fast']} |"
                for way, row in rows.items()
            ]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "latency.json").write_text(json.dumps(result, indent=2) + "\n")
    (RESULTS / "latency.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
