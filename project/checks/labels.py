"""Checks of the targets."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor

from project.batches import IGNORED
from project.checks.outcome import Items, Outcome, failed, passed, warning
from project.checks.scan import Scanned, scanned
from project.checks.subject import Subject

UNEVEN = 20.0
"""The largest class has this many times the samples of the smallest: accuracy hides the latter."""


def labels(subject: Subject) -> Iterator[Outcome]:
    """Targets of the right type and within their range."""
    found = scanned(subject)
    first = next((s for s in found["train"] if s.target is not None), None)
    if first is None:
        yield failed("no training sample has a target", "A sample is inputs, target and index.")
        return
    names = getattr(subject.original, "class_names", None)
    if isinstance(first.target, dict):
        yield from _boxes(subject, len(names or []))
    elif names is None:
        yield from _numbers(subject)
    elif first.target_shape and len(first.target_shape) == 1:
        yield from _several(subject, len(names))
    else:
        yield from _classes(subject, len(names), is_mask=bool(first.target_shape))


def balance(subject: Subject) -> Iterator[Outcome]:
    """Every class has samples, and not too few of them."""
    names = getattr(subject.original, "class_names", None)
    train = scanned(subject)["train"]
    if not names or any(s.target_shape != () or s.target.is_floating_point() for s in train):
        return
    counts = Counter(int(s.target) for s in train)
    absent = [(str(name), "") for n, name in enumerate(names) if not counts[n]]
    seen = [count for n, count in counts.items() if 0 <= n < len(names)]
    complete = len(train) == subject.size("train")
    uneven = max(seen) / min(seen) if seen else 1.0
    weighted = getattr(subject.original, "class_weights", None) is not None
    largest, smallest = max(seen, default=0), min(seen, default=0)
    told = f"{largest:,} samples of the largest class, {smallest:,} of the smallest"
    if len(seen) == 1 and len(train) > 1:
        yield failed("all samples looked at are of one class", "Look at how labels are read.")
    elif absent and complete:
        advice = "Remove these classes, or add samples: they are never predicted."
        yield warning("classes without a training sample", advice, "X5", absent)
    elif uneven >= UNEVEN and complete and not weighted:
        advice = "Read accuracy_macro, not accuracy; --model.class_weights balanced."
        yield warning(f"very uneven: {told}", advice, "X5")
    else:
        yield passed(told)


def order(subject: Subject) -> Iterator[Outcome]:
    """Training samples come in a mixed order."""
    with subject.in_process():
        loader = subject.data.train_dataloader()
    indices = [key for keys in loader.batch_sampler for key in keys][:2000]
    numbers = [key[1] if isinstance(key, tuple) else key for key in indices]
    of_index = {s.index: s.target for s in scanned(subject)["train"] if s.target_shape == ()}
    seen = [float(of_index[n]) for n in numbers if n in of_index]
    if len(seen) < 20 or len(set(seen)) < 2:
        return
    same = sum(a == b for a, b in pairwise(seen)) / (len(seen) - 1)
    expected = sum((seen.count(v) / len(seen)) ** 2 for v in set(seen))
    if same > expected + 0.5 * (1 - expected):
        advice = "--data.loader.shuffle true: batches of one class teach only that class."
        yield failed("training samples come sorted by their label", advice, "D7")
    else:
        yield passed("training samples come in a mixed order", "D7")


def _classes(subject: Subject, num_classes: int, *, is_mask: bool) -> Iterator[Outcome]:
    everything = [(split, s) for split, found in scanned(subject).items() for s in found]
    floats = [(split, s) for split, s in everything if s.target.is_floating_point()]
    if floats:
        advice = "Class numbers are int64: .long() in the data set."
        yield failed("class numbers are floats", advice, "X5", _named(subject, floats))
        return
    allowed = {*range(num_classes), *([IGNORED] if is_mask else [])}
    wrong = [
        (subject.name(split, s.index), f"class {', '.join(map(str, numbers))}")
        for split, s in everything
        if (numbers := sorted(set(s.target.flatten().tolist()) - allowed))
    ]
    values = {n for _, s in everything for n in s.target.flatten().tolist()} - {IGNORED}
    if not wrong:
        kind = "masks" if is_mask else "labels"
        yield passed(f"{kind} from {min(values)} to {max(values)} of {num_classes} classes")
    elif min(values) == 1 and max(values) == num_classes:
        advice = "Subtract 1 where they are read."
        yield failed(
            f"labels go from 1 to {num_classes}, expected is 0 to {num_classes - 1}: they look as "
            "if counted from 1",
            advice,
            items=wrong,
        )
    elif min(values) < 0:
        advice = "Every label must be a class; leave these samples out or mend them."
        yield failed(f"negative labels, expected is 0 to {num_classes - 1}", advice, items=wrong)
    else:
        advice = "Mend these, or say how many classes there are."
        yield failed(f"labels beyond the {num_classes} classes", advice, items=wrong)


def _several(subject: Subject, num_classes: int) -> Iterator[Outcome]:
    everything = [(split, s) for split, found in scanned(subject).items() for s in found]
    wrong = [
        (split, s)
        for split, s in everything
        if s.target_shape != (num_classes,) or not ((s.target == 0) | (s.target == 1)).all()
    ]
    if wrong:
        advice = f"A target is {num_classes} numbers, 1 where the class applies, else 0."
        yield failed("targets are not 0 and 1 per class", advice, items=_named(subject, wrong))
    else:
        yield passed(f"targets are 0 and 1 for each of {num_classes} classes")


def _numbers(subject: Subject) -> Iterator[Outcome]:
    train = [s for s in scanned(subject)["train"] if isinstance(s.target, Tensor)]
    values = torch.stack([s.target.double().flatten()[:16] for s in train])  # [N, K]
    values = values[values.isfinite().all(dim=1)]
    still = [(f"target {k}", f"{v[0]:.4g}") for k, v in enumerate(values.T) if len(v.unique()) == 1]
    if still and len(values) > 1:
        advice = "Look at the column: there is nothing to learn."
        yield failed("a target is the same for every sample", advice, items=still)
    elif len(values):
        told = f"targets from {values.min():.4g} to {values.max():.4g}"
        yield passed(f"{told}, mean {values.mean():.4g}, std {values.std():.4g}")


def _boxes(subject: Subject, num_classes: int) -> Iterator[Outcome]:
    wrong: list[tuple[str, str]] = []
    number = 0
    for split, found in scanned(subject).items():
        for s in found:
            number += len(s.target["boxes"])
            reason = _box_fault(s, num_classes)
            wrong += [(subject.name(split, s.index), reason)] if reason else []
    if wrong:
        advice = "Boxes are (x1, y1, x2, y2) in pixels of the image, x1 < x2 and y1 < y2."
        yield failed("boxes that can't be", advice, "X5", wrong)
    else:
        yield passed(f"{number:,} boxes, all inside of their images")


def _box_fault(sample: Scanned, num_classes: int) -> str:
    boxes, numbers = sample.target["boxes"].float(), sample.target["labels"]
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        return f"boxes of shape {list(boxes.shape)}, not [N, 4]"
    if len(boxes) != len(numbers):
        return f"{len(boxes)} boxes and {len(numbers)} labels"
    if len(boxes) == 0:
        return ""
    if (boxes[:, 2:] <= boxes[:, :2]).any():
        return "x2 <= x1 or y2 <= y1: width and height (xywh) in place of the far corner?"
    if "image" in sample.inputs:
        height, width = sample.inputs["image"].shape[-2:]
        if boxes.min() < -1 or boxes[:, 2].max() > width + 1 or boxes[:, 3].max() > height + 1:
            return f"outside of the image, {width} x {height}"
    if numbers.is_floating_point() or numbers.min() < 0 or numbers.max() > num_classes:
        return f"labels {numbers.min():g} to {numbers.max():g} of {num_classes} classes"
    return ""


def _named(subject: Subject, found: list[tuple[str, Scanned]]) -> Items:
    return [(subject.name(split, s.index), str(s.target.tolist())[:40]) for split, s in found]
