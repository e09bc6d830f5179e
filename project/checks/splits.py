"""Checks of the splits against each other, and of the labels against the inputs."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from project.checks.neighbours import agreement, fits
from project.checks.outcome import Outcome, failed, passed, skipped, warning
from project.checks.scan import Scanned, scanned
from project.checks.subject import Subject
from project.randomness import seed_all
from project.tasks.tracing import tensors_in

MANY = 0.02
"""Share of a split that may be in the training split by chance, such as near-empty pictures."""

ENOUGH = 60
"""Samples below which the agreement of neighbours tells nothing."""

CHANCE = 3.0
"""Standard deviations above chance from which labels are no coincidence."""


def leakage(subject: Subject) -> Iterator[Outcome]:
    """No sample of one split is in another."""
    found = scanned(subject)
    seen = {s.digest: s.index for s in found["train"] if _says_something(s)}
    items, worst = [], 0.0
    for split in subject.splits[1:]:
        same = [(s.index, seen[s.digest]) for s in found[split] if s.digest in seen]
        worst = max(worst, len(same) / max(1, len(found[split])))
        names = [(subject.name(split, a), subject.name("train", b)) for a, b in same]
        items += [(mine, f"is {theirs}") for mine, theirs in names]
    advice = "Leave duplicates in one split (data.splits, or a group column): scores are too good."
    told = f"{len(items)} samples are in the training split as well, {worst:.1%} of a split"
    if worst > max(MANY, 2 * _repeated(found["train"])):
        yield failed(told, advice, items=items)
    elif items:
        yield warning(told, advice, items=items)
    else:
        yield passed("no inputs of one split are in another")


def contradictions(subject: Subject) -> Iterator[Outcome]:
    """Equal inputs have equal targets."""
    first: dict[str, Scanned] = {}
    items = []
    for sample in scanned(subject)["train"]:
        other = first.setdefault(sample.digest, sample)
        if _says_something(sample) and not _equal(sample.target, other.target):
            pair = [subject.name("train", s.index) for s in (sample, other)]
            items.append((pair[0], f"same inputs as {pair[1]}, another target"))
    if len(items) > MANY * len(scanned(subject)["train"]):
        yield warning("equal inputs with different targets", "Look at these labels.", items=items)
    else:
        yield passed(f"{len(items)} samples contradict an equal one")


def evaluation(subject: Subject) -> Iterator[Outcome]:
    """An evaluation sample is the same however often it is drawn."""
    for split in subject.splits[1:]:
        dataset: Any = subject.data.datasets[split]
        for index in subject.indices(split, 4):
            drawn = []
            for seed in (1, 2):
                seed_all(seed)
                drawn.append(dict(tensors_in(dataset[index]["inputs"], "inputs")))
            for name, tensor in drawn[0].items():
                if not torch.equal(tensor, drawn[1][name]):
                    advice = "Give random transforms to the training split alone."
                    yield failed(
                        f"{name} of {subject.name(split, index)} is another one each time: a "
                        "random transform in evaluation",
                        advice,
                    )
                    return
    yield passed("evaluation samples are the same each time")


def meaning(subject: Subject) -> Iterator[Outcome]:
    """Samples with similar inputs have similar targets: labels are no lottery.

    For each sample its nearest neighbour is sought in a simple space. That the two agree more often
    than two samples at random shows that inputs and targets belong together; that they do not may
    also mean that the space is too simple.
    """
    train = subject.samples("train", 600)
    if len(train) < ENOUGH or not fits(train):
        yield skipped("too few samples, or targets that can't be compared")
        return
    own = agreement(train, train)
    told = [f"train {own:+.1f} σ"]
    others = {}
    for split in subject.splits[1:]:
        samples = subject.samples(split, 300)
        if len(samples) >= ENOUGH and fits(samples):
            others[split] = agreement(samples, train), agreement(samples, samples)
            told.append(f"{split} to train {others[split][0]:+.1f} σ")
    words = f"neighbours agree above chance: {', '.join(told)}"
    subject.facts["neighbours"] = {"train": own, **{k: list(v) for k, v in others.items()}}
    strange = [s for s, (to_train, to_own) in others.items() if to_train < CHANCE < to_own]
    if strange and own > CHANCE:
        yield failed(
            f"{words}: labels of {', '.join(strange)} do not mean what those of train mean",
            "Make the class numbers of all splits from one list; look at the order of the classes.",
            "X5",
        )
    elif own < CHANCE and any(to_own > CHANCE for _, to_own in others.values()):
        advice = "Look at how training inputs and labels are paired: shuffled apart?"
        yield failed(f"{words}: training labels do not belong to their inputs", advice, "X6")
    elif own < CHANCE:
        yield skipped(f"{words}: similar inputs are no hint here, or labels are a lottery")
    else:
        yield passed(words)


def _repeated(samples: list[Scanned]) -> float:
    """Share of samples that equal another one of their split: short texts and coarse rows do."""
    counts = Counter(sample.digest for sample in samples)
    return sum(counts[sample.digest] > 1 for sample in samples) / max(1, len(samples))


def _says_something(sample: Scanned) -> bool:
    return any(each.std > 0 for each in sample.inputs.values())


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[name], b[name]) for name in a)
    return a is b or a == b
