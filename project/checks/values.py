"""Checks of the inputs: types, shapes, ranges, what is not finite, what is constant."""

from collections import Counter
from collections.abc import Iterator

import torch

from project.batches import INPUTS
from project.checks.outcome import Outcome, failed, passed, warning
from project.checks.scan import Scanned, Spread, looked_at, scanned
from project.checks.subject import Subject

RAW_PIXELS = 30.0
"""A normalised image hardly reaches it, one of 0 to 255 nearly always does."""

WIDE = 100.0
"""A column with a larger mean or standard deviation was not normalised."""

NARROW = 1e-3
"""Inputs whose standard deviation is smaller hardly differ for a network."""


def finite(subject: Subject) -> Iterator[Outcome]:
    """No NaN and no infinity in any sample."""
    items = [
        (subject.name(split, sample.index), f"{name}: {words}")
        for split, samples in scanned(subject).items()
        for sample in samples
        for name, words in sample.bad.items()
    ]
    if items:
        advice = "Mend or leave out these samples; one of them makes every weight NaN."
        yield failed(f"{len(items)} samples are not finite", advice, items=items)
    else:
        yield passed(f"all finite: {looked_at(subject)}")


def types(subject: Subject) -> Iterator[Outcome]:
    """Every input has the type and the number of dimensions that its name promises."""
    found: dict[tuple[str, torch.dtype, int], str] = {}
    for split, samples in scanned(subject).items():
        for sample in samples:
            for name, each in sample.inputs.items():
                key = name, each.dtype, len(each.shape)
                found.setdefault(key, subject.name(split, sample.index))
    wrong = [
        (f"{name} is {str(dtype).removeprefix('torch.')} in {where}", f"should be {INPUTS[name]}")
        for (name, dtype, _), where in found.items()
        if name in INPUTS and not _fits(dtype, INPUTS[name])
    ]
    numbers = Counter(name for name, _, dimensions in {(n, d, k) for n, d, k in found})
    mixed = [
        (name, "several types or numbers of dimensions") for name, n in numbers.items() if n > 1
    ]
    if wrong or mixed:
        advice = (
            "Convert in the data set: .float() for measurements, .long() for numbers of things."
        )
        yield failed("inputs of the wrong type", advice, "D4", [*wrong, *mixed])
    else:
        told = ", ".join(
            f"{n} {str(d).removeprefix('torch.')}" for n, d, _ in sorted(found, key=str)
        )
        yield passed(told)


def ranges(subject: Subject) -> Iterator[Outcome]:
    """Inputs of a scale that a network can work with."""
    told, alarms = [], 0
    for name in _names(subject, ("image", "sequence", "features")):
        spreads = [s.inputs[name] for s in scanned(subject)["train"] if name in s.inputs]
        low, high = min(s.low for s in spreads), max(s.high for s in spreads)
        mean = sum(s.mean for s in spreads) / len(spreads)
        std = (sum(s.std**2 + (s.mean - mean) ** 2 for s in spreads) / len(spreads)) ** 0.5
        words = f"{name} from {low:.3g} to {high:.3g}, mean {mean:.3g}, std {std:.3g}"
        told.append(words)
        if name == "image" and low >= 0 and high >= RAW_PIXELS:
            alarms += 1
            yield failed(
                f"{words}: the pixels look un-normalised, 0 to 255",
                "Divide by 255, subtract the mean, divide by the standard deviation.",
                "D4",
            )
        elif std > WIDE or abs(mean) > WIDE or (0 < std < NARROW):
            alarms += 1
            yield warning(
                f"{words}: not normalised",
                "Subtract the training split's mean and divide by its standard deviation.",
                "D4",
            )
    yield from _wide_columns(subject)
    if not alarms:
        yield passed("; ".join(told) or "no measured inputs")


def constant(subject: Subject) -> Iterator[Outcome]:
    """Inputs that say something: not one value, not the same for all samples."""
    samples = [(split, s) for split, found in scanned(subject).items() for s in found]
    blank = [
        (subject.name(split, sample.index), f"{name} is {each.low:.3g} everywhere")
        for split, sample in samples
        for name, each in sample.inputs.items()
        if name in ("image", "sequence")
        and each.std == 0
        and _size(each) > 1
        and len(sample.inputs.keys() - {"padding"}) == 1  # one of several may be missing
    ]
    same = len({sample.digest for _, sample in samples}) == 1 and len(samples) > 1
    if same:
        yield failed("every sample has the same inputs", "Look at how the data set reads them.")
    elif len(blank) > len(samples) / 2:
        yield failed("most samples are constant", "Look at how they are read.", items=blank)
    elif blank:
        yield warning(f"{len(blank)} samples are constant", "Look at these files.", items=blank)
    else:
        yield passed(f"no constant inputs among {len(samples):,} samples")


def tokens(subject: Subject) -> Iterator[Outcome]:
    """Token numbers that the vocabulary has."""
    size = subject.data.sizes.get("num_tokens")
    if size is None or not _names(subject, ("tokens",)):
        return
    bad = [
        (subject.name(split, s.index), f"{s.inputs['tokens'].low:g} to {s.inputs['tokens'].high:g}")
        for split, samples in scanned(subject).items()
        for s in samples
        if s.inputs["tokens"].low < 0 or s.inputs["tokens"].high >= size
    ]
    if bad:
        advice = "What the vocabulary does not have must become the unknown token."
        yield failed(f"token numbers outside of 0 to {size - 1} (num_tokens)", advice, items=bad)
    else:
        yield passed(f"token numbers within 0 to {size - 1}")


def padding(subject: Subject) -> Iterator[Outcome]:
    """`padding` is True where there is padding, and nowhere else."""
    batch = subject.batch(min(16, subject.size("train")))
    mask = batch["inputs"].get("padding")
    names = [name for name in ("tokens", "sequence") if name in batch["inputs"]]
    if mask is None or not names:
        return
    values = batch["inputs"][names[0]]
    empty = values == 0 if values.ndim == 2 else (values == 0).all(dim=-1)  # [B, T]
    real, padded = empty[~mask].float().mean(), empty[mask].float().mean()
    if mask.any() and real > 0.9 and padded < 0.5:
        advice = "padding is True where padded (not 1 = real): write ~mask where it is made."
        yield failed("the padding mask has the wrong polarity", advice, "D9")
    elif mask.all(dim=1).any():
        advice = "padding must be False where a token is real; every sample needs one or more."
        yield failed("padding is True over a whole sample", advice, "D9")
    elif mask.any() and padded < 1:
        advice = "Fill padded positions with 0, or look at where the mask begins."
        yield warning(f"only {padded:.0%} of the padded positions are 0", advice, "D9")
    else:
        yield passed(f"{mask.float().mean():.0%} of a batch is padding, marked as such")


def _wide_columns(subject: Subject) -> Iterator[Outcome]:
    if not _names(subject, ("features",)):
        return
    rows = [s["inputs"]["features"] for s in subject.samples("train", 128)]
    values = torch.stack(rows).double()
    scale = values.abs().amax(dim=0)
    wide = [(f"column {n}", f"up to {v:.3g}") for n, v in enumerate(scale.tolist()) if v > WIDE]
    if wide:
        advice = "Scale every column by the training split's mean and standard deviation."
        yield warning("columns of features that are not scaled", advice, "D4", wide)


def _names(subject: Subject, wanted: tuple[str, ...]) -> list[str]:
    found: list[Scanned] = scanned(subject).get("train", [])
    return [name for name in wanted if found and name in found[0].inputs]


def _size(spread: Spread) -> int:
    total = 1
    for side in spread.shape:
        total *= side
    return total


def _fits(dtype: torch.dtype, promise: str) -> bool:
    allowed = {"float": (torch.float32,), "int64": (torch.int64,), "bool": (torch.bool,)}
    return dtype in allowed[promise.split(" ")[0]]
