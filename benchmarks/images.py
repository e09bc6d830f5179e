"""Training images per second: this project's pipeline beside the usual one, on the same photos.

    python benchmarks/images.py                  photos made from two that ship with scikit-learn
    python benchmarks/images.py --photos DIR     JPEGs of your own as well

The usual pipeline is Pillow → RGB → torchvision's RandomResizedCrop, flip, ToTensor, Normalize in
torch's DataLoader. Both cut from the same range of areas, give 224 x 224 pixels and batches of 32.
The limits beside them are decoding alone, in full and at the scale that ours reads. All take turns,
so that whatever else the machine does falls on all; the median of the turns is shown.
"""

import argparse
import json
import math
import os
import platform
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import PIL
import simplejpeg
import torch
from PIL import Image
from sklearn.datasets import load_sample_images
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

from project.data.augmentation import photo_augmentation
from project.data.cache import Pixels
from project.data.collate import stack
from project.data.decoding import decode
from project.data.images import ImageFiles
from project.data.loader import EpochBatches, ResumableLoader, Seeded
from project.data.preprocessing import ImagePreprocessing

SIZE, BATCH, SMALLEST_CROP = 224, 32, 0.5
KEPT = math.ceil(SIZE / math.sqrt(SMALLEST_CROP))  # the smallest crop then has SIZE pixels a side
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
RESULTS = Path(__file__).parent / "results"


class Usual(Dataset):
    """A folder of photos as most tutorials read it."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths
        self.transform = transforms.Compose(
            [
                transforms.RandomResizedCrop(SIZE, scale=(SMALLEST_CROP, 1.0)),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
                transforms.Normalize(MEAN, STD),
            ]
        )

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        with Image.open(self.paths[index]) as image:
            return self.transform(image.convert("RGB")), 0


class DecodeOnly(Dataset):
    """The physical limit: nothing but decoding, and nothing that is passed on."""

    def __init__(self, paths: list[str], at_least: tuple[int, int] | None) -> None:
        self.paths = paths
        self.at_least = at_least

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> int:
        decode(Path(self.paths[index]), at_least=self.at_least)
        return 0


def ours(paths: list[str], workers: int, cache: str = "none") -> DataLoader:
    """As the data module makes it, with `augmentation: light`."""
    pixels = Pixels(np.array(paths), at_least=(KEPT, KEPT), cache=cache)
    dataset = ImageFiles(
        pixels,
        torch.zeros(len(paths), dtype=torch.int64),
        ImagePreprocessing((SIZE, SIZE), MEAN, STD),
        photo_augmentation("light", (SIZE, SIZE), flip=True),
    )
    batches = EpochBatches(len(paths), BATCH, shuffle=True, drop_last=False, seed=0)
    return ResumableLoader(
        Seeded(dataset, 0), batch_sampler=batches, collate_fn=stack, **workers_of(workers)
    )


def workers_of(count: int) -> dict[str, object]:
    """Settings of a loader; the workers live on, as in training."""
    return {"num_workers": count, "persistent_workers": count > 0}


def contestants(paths: list[str], workers: int) -> dict[str, DataLoader]:
    """All loaders that are compared, by what they are called."""
    torch_loader = {"batch_size": BATCH, "shuffle": True, **workers_of(workers)}
    return {
        "usual": DataLoader(Usual(paths), **torch_loader),
        "ours": ours(paths, workers),
        "ours, cache memory": ours(paths, workers, "memory"),
        "decode only, in full": DataLoader(DecodeOnly(paths, None), **torch_loader),
        "decode only, scaled": DataLoader(DecodeOnly(paths, (KEPT, KEPT)), **torch_loader),
    }


def rates(loaders: dict[str, DataLoader], turns: int) -> dict[str, list[float]]:
    """Images per second of every loader, turn by turn, after a round that is not counted."""
    found: dict[str, list[float]] = {name: [] for name in loaders}
    for turn in range(turns + 1):
        for name, loader in loaders.items():
            began = time.perf_counter()
            for _ in loader:
                pass
            if turn:
                found[name].append(len(loader.dataset) / (time.perf_counter() - began))
    return found


def made(folder: Path, name: str, width: int, copies: int) -> list[str]:
    """JPEGs of quality 90 made of scikit-learn's two photos.

    They are enlarged or reduced by bicubic interpolation, each copy shifted by a few pixels, and
    given noise (std 6), as a camera would: without it, an enlarged photo has less to decode.
    """
    generator = np.random.default_rng(0)
    paths = []
    for number in range(copies):
        photo = load_sample_images().images[number % 2]
        photo = np.roll(photo, 7 * number, axis=1)
        height = round(width * photo.shape[0] / photo.shape[1])
        large = np.asarray(Image.fromarray(photo).resize((width, height), Image.Resampling.BICUBIC))
        noisy = large + generator.normal(0, 6, (height, width, 1))
        path = folder / f"{name}_{number}.jpg"
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(path, quality=90)
        paths.append(str(path))
    return paths


def measured(paths: list[str], turns: int) -> dict[str, dict[str, object]]:
    """By the number of workers, then by contestant: median, smallest and largest rate."""
    result: dict[str, dict[str, object]] = {}
    for workers in (0, 2):
        found = rates(contestants(paths, workers), turns)
        base = statistics.median(found["usual"])
        result[str(workers)] = {
            name: {
                "images_per_second": round(statistics.median(values), 1),
                "smallest": round(min(values), 1),
                "largest": round(max(values), 1),
                "against_usual": round(statistics.median(values) / base, 2),
            }
            for name, values in found.items()
        }
    return result


def table(results: dict[str, dict]) -> str:
    """As Markdown."""
    lines = [
        "| photos | workers | pipeline | images/s (median) | smallest–largest | against usual |",
        "|---|---|---|---|---|---|",
    ]
    for photos, by_workers in results.items():
        for workers, by_name in by_workers.items():
            lines += [
                f"| {photos} | {workers} | {name} | {n['images_per_second']} | "
                f"{n['smallest']}–{n['largest']} | {n['against_usual']}× |"
                for name, n in by_name.items()
            ]
    return "\n".join(lines)


def sets(given: str | None, folder: Path) -> dict[str, list[str]]:
    """The photos, by what they are called."""
    found = {
        "500 px wide": made(folder, "small", 500, 128),
        "3840 px wide": made(folder, "large", 3840, 24),
    }
    if given:
        paths = sorted(str(path) for path in Path(given).rglob("*.jp*g"))
        name = "/".join(Path(given).parts[-2:])
        found[f"{len(paths)} of {name}"] = paths
    return found


def main() -> None:
    """Measure, print, and write the results beside this file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--photos", help="a folder of JPEGs to measure as well")
    parser.add_argument("--turns", type=int, default=5, help="how often all are measured")
    parser.add_argument("--output", default=str(RESULTS), help="where the results are written")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # as in a worker, so that 0 and 2 workers can be compared
    with tempfile.TemporaryDirectory() as folder:
        photos = sets(arguments.photos, Path(folder))
        results = {name: measured(paths, arguments.turns) for name, paths in photos.items()}
    versions = {"torch": torch.__version__, "pillow": PIL.__version__}
    versions["simplejpeg"] = simplejpeg.__version__
    record = {"cpus": os.cpu_count(), "machine": platform.machine(), **versions, "sets": results}
    output = Path(arguments.output)
    output.mkdir(parents=True, exist_ok=True)
    (output / "images.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    (output / "images.md").write_text(table(results) + "\n", encoding="utf-8")
    print(table(results))


if __name__ == "__main__":
    main()
