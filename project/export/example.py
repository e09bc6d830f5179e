"""Run the exported model beside this script; no other code is needed.

Install what it needs by `pip install onnxruntime numpy pillow`, then run

    python example.py picture.png           a model of pictures
    python example.py "some words"          a model of texts
    python example.py rows.csv              a model of table rows, or of several kinds of input
    python example.py steps.npy             a model of sequences

or, in a program, `Model().answer({"image": "picture.png"})`.
"""

import csv
import json
import math
import re
import sys
import unicodedata
from pathlib import Path

import numpy as np
import onnxruntime


class Model:
    """The exported model: raw inputs in, answers in words out.

    Args:
        folder: The bundle.
    """

    def __init__(self, folder=Path(__file__).parent):
        self.contract = json.loads((Path(folder) / "contract.json").read_text(encoding="utf-8"))
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(
            str(Path(folder) / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )

    def answer(self, record):
        """What the model says of one sample.

        Args:
            record: By kind: `image` a file, or pixels [H, W, C]; `text` words; `sequence` a file,
                or numbers [T, F]; of a table's row each cell by the name of its column.
        """
        given = {}
        for name, about in self.contract["inputs"].items():
            if name != "padding":
                given[name] = PREPARE[name](record, about)[None]
            else:  # one sample alone is not padded
                steps = next(given[n].shape[1] for n in ("tokens", "sequence") if n in given)
                given[name] = np.zeros((1, steps), bool)
        names = [output.name for output in self.session.get_outputs()]
        outputs = dict(zip(names, map(np.asarray, self.session.run(None, given)), strict=True))
        return in_words({name: values[0] for name, values in outputs.items()}, self.contract)


def image(record, about):
    """Pixels: uint8 [H, W, C], upright, what is transparent white."""
    if isinstance(record["image"], np.ndarray):
        return record["image"]
    from PIL import Image, ImageOps

    mode = {1: "L", 3: "RGB", 4: "RGBA"}[about["shape"][-1]]
    with Image.open(record["image"]) as picture:
        picture = ImageOps.exif_transpose(picture)
        if mode != "RGBA" and ("A" in picture.getbands() or "transparency" in picture.info):
            white = Image.new("RGBA", picture.size, "white")
            picture = Image.alpha_composite(white, picture.convert("RGBA"))
        pixels = np.asarray(picture.convert(mode))
    return pixels if pixels.ndim == 3 else pixels[:, :, None]


def tokens(record, about):
    """Numbers of the words or characters: int64 [T]."""
    how = about["tokenizer"]
    text = record["text"].lower() if how["lowercase"] else record["text"]
    text = " ".join(unicodedata.normalize("NFC", text).split())
    found = re.findall(how["words"], text) if how["unit"] == "word" else list(text)
    number = {token: n for n, token in enumerate(how["vocabulary"], 2)}
    return np.array([number.get(t, 1) for t in found[: how["max_length"]]] or [1], np.int64)


def sequence(record, about):
    """Numbers of each step: float32 [T, F]."""
    steps = record["sequence"]
    if not isinstance(steps, np.ndarray):
        is_array = str(steps).endswith(".npy")
        steps = np.load(steps) if is_array else np.loadtxt(steps, delimiter=",", ndmin=2)
    steps, wanted = np.asarray(steps, np.float32), about["shape"][-1]
    steps = steps[:, None] if steps.ndim == 1 else steps
    if steps.ndim != 2 or steps.shape[1] != wanted:
        raise ValueError(f"numbers [T, {wanted}] are needed, but these are {list(steps.shape)}")
    return steps


def features(record, about):
    """The cells of a row, a category by its number, what is missing or unknown as NaN: float32."""
    names = [column["name"] for column in about["columns"]]
    if lacking := [name for name in names if name not in record]:
        raise ValueError(f"the row lacks {', '.join(lacking)}; where none is known, leave it blank")
    cells = [str(record[name]).strip() for name in names]
    return np.array(list(map(_number, cells, about["columns"])), np.float32)


def _number(cell, column):
    if "values" in column:
        return column["values"].index(cell) if cell in column["values"] else math.nan
    if cell.lower() in ("", "na", "n/a", "nan", "none", "null", "?", "-"):
        return math.nan
    try:
        return float(cell)
    except ValueError:
        wanted = f"a number with a decimal point, or nothing, but is {cell!r}"
        raise ValueError(f"{column['name']} must be {wanted}") from None


PREPARE = {"image": image, "tokens": tokens, "sequence": sequence, "features": features}


def in_words(outputs, contract):
    """Answers by the names of a model's outputs."""
    if "boxes" in outputs:
        found = boxes(outputs, contract)
        return {"prediction": f"{len(found)} found", "boxes": found}
    if "probabilities" in outputs and outputs["probabilities"].ndim == 3:
        mask = outputs["probabilities"].argmax(axis=0).astype(np.uint8)
        shares = {n: float((mask == c).mean()) for c, n in enumerate(contract["class_names"])}
        return {
            "prediction": max(shares, key=lambda name: shares[name]),
            "shares": shares,
            "mask": mask,
        }
    if "label_probabilities" in outputs:
        each = map(float, outputs["label_probabilities"])
        named = dict(zip(contract["class_names"], each, strict=True))
        labels = [name for name, share in named.items() if share > 0.5]
        return {"prediction": "|".join(labels), "probabilities": named}
    if "probabilities" in outputs:
        shares = outputs["probabilities"]
        named = dict(zip(contract["class_names"], map(float, shares), strict=True))
        best = max(named, key=lambda name: named[name])
        return {"prediction": best, "probability": named[best], "probabilities": named}
    if "predictions" in outputs:
        values = dict(
            zip(contract["target_names"], map(float, outputs["predictions"]), strict=True)
        )
        return {"prediction": next(iter(values.values())), "values": values}
    return {name: values.tolist() for name, values in outputs.items()}


def boxes(outputs, contract):
    """Boxes above a score, the best first; of several in the same place the best."""
    found = []
    for number in outputs["scores"].argsort()[::-1]:
        score, box = float(outputs["scores"][number]), outputs["boxes"][number].tolist()
        taken = any(_overlap(box, other["box"]) > contract["same_place"] for other in found)
        if score >= contract["min_score"] and not taken:
            label = contract["class_names"][outputs["labels"][number]]
            found.append({"label": label, "score": score, "box": box})
    return found


def _overlap(a, b):
    sides = [min(a[n + 2], b[n + 2]) - max(a[n], b[n]) for n in (0, 1)]
    both = max(0, sides[0]) * max(0, sides[1])
    areas = [(c[2] - c[0]) * (c[3] - c[1]) for c in (a, b)]
    return both / (sum(areas) - both or 1)


def records(words, contract):
    """What is typed, as records."""
    kinds = set(contract["inputs"]) - {"padding"}
    if len(kinds) > 1 or kinds == {"features"}:
        for word in words:
            with Path(word).open(newline="", encoding="utf-8") as file:
                yield from csv.DictReader(file)
    else:
        key = {"tokens": "text"}.get(*kinds, *kinds)
        yield from ({key: word} for word in words)


if __name__ == "__main__":
    model = Model()
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for each in records(sys.argv[1:], model.contract):
        answer = model.answer(each)
        answer.pop("mask", None)  # for a program: Model().answer(...)["mask"]
        print(*each.values(), json.dumps(answer, ensure_ascii=False), sep="\n  ")
