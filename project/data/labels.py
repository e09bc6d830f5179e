"""From labels as people write them to class numbers that never shift."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from project.errors import UserError
from project.findings import Finding

_WHOLE = re.compile(r"-?\d+(\.0+)?")
_MEANS_NOTHING = {"na", "n/a", "nan", "none", "null", "?", "-", "--", "unknown", "unlabelled",
                  "unlabeled", "missing", "tbd"}  # fmt: skip
UNLABELLED = -1


@dataclass
class Classes:
    """What the labels mean.

    Args:
        names: Of the classes 0, 1, …
        target: Class number of every sample, `UNLABELLED` for none: int64 [N]. Of data with several
            labels a sample, 1 for each that it has and 0 for the others: int64 [N, C].
        mapping: Every way in which a label was written, and its class number.
        findings: What looks wrong or is worth knowing.
    """

    names: list[str]
    target: np.ndarray
    mapping: dict[str, int]
    findings: list[Finding] = field(default_factory=list)

    @property
    def labelled(self) -> np.ndarray:
        """Which samples have a known label: bool [N]."""
        return (self.target != UNLABELLED).reshape(len(self.target), -1).all(1)


def classes(
    labels: list[str],
    *,
    unlabelled: Sequence[str],
    merge_similar: bool,
    separator: str | None = None,
    fewest: int = 2,
) -> Classes:
    """Number the classes of all labels together, so that one missing in a split shifts nothing.

    Classes are sorted: as numbers if all are whole numbers, else as text.

    Args:
        labels: As written, of all splits. Blank ones are none.
        unlabelled: Labels that mean none as well.
        merge_similar: Make one class of labels that differ only in case or blanks.
        separator: What stands between several labels of a sample; alone, it says that there are
            none. None if every sample has one label.
        fewest: How many classes there must be; objects may be of one class.

    Raises:
        UserError: There are fewer classes than that.
    """
    none = {text.strip() for text in unlabelled} | {""}
    parts = [label.split(separator) if separator else [label] for label in labels]
    counts = Counter(part for of_one in parts for part in of_one if part.strip() not in none)
    families: dict[str, Counter[str]] = {}
    for label, count in counts.items():
        families.setdefault(_similar(label), Counter())[_tidy(label)] += count
    findings = _similar_labels(families, counts) if not merge_similar else []
    named = {key: _commonest(written) for key, written in families.items()}
    names = sorted(named.values(), key=_order(list(named.values())))
    if len(names) < fewest:
        raise UserError(
            f"The data have {f'one class, {names[0]!r}' if names else 'no labels'}; two or more "
            "classes are needed to tell them apart."
        )
    number = {name: position for position, name in enumerate(names)}
    mapping = {label: number[named[_similar(label)]] for label in sorted(counts)}
    if separator:
        target = _several_each(parts, mapping, len(names), none)
    else:
        target = np.array([mapping.get(label, UNLABELLED) for label in labels], dtype=np.int64)
    findings += _numbers(names) + _placeholders(named.values(), counts) + _several(names)
    return Classes(names, target, mapping, findings)


def _several_each(
    parts: list[list[str]], mapping: dict[str, int], num_classes: int, none: set[str]
) -> np.ndarray:
    """Of every sample, 1 for each label it has: int64 [N, C]; `UNLABELLED` where none is known."""
    target = np.zeros((len(parts), num_classes), dtype=np.int64)
    for row, of_one in enumerate(parts):
        if len(of_one) == 1 and of_one[0].strip() in none:
            target[row] = UNLABELLED
        else:
            target[row, [mapping[part] for part in of_one if part in mapping]] = 1
    return target


def counted(target: np.ndarray, num_classes: int) -> list[int]:
    """Samples of each class, of targets as in `Classes`."""
    if target.ndim == 2:
        return target.sum(0).tolist()
    return np.bincount(target, minlength=num_classes).tolist()


def strata(target: np.ndarray) -> np.ndarray:
    """What is to be spread evenly over the splits: the class; of several, the rarest [N]."""
    if target.ndim == 1:
        return target
    counts = target.sum(0)
    rarity = np.where(target == 1, counts, len(target) + 1)  # [N, C]
    return np.where(target.any(1), rarity.argmin(1), target.shape[1])


def written(target: np.ndarray, names: list[str]) -> str:
    """One sample's label, or labels, as a person reads them: `a|b`."""
    if target.ndim == 0:
        return names[int(target)]
    return "|".join(names[number] for number in np.flatnonzero(target))


def _tidy(label: str) -> str:
    return unicodedata.normalize("NFC", label).strip()


def _similar(label: str) -> str:
    """Equal for labels that most likely mean the same class."""
    key = " ".join(_tidy(label).casefold().split())
    return key.partition(".")[0] if _WHOLE.fullmatch(key) else key


def _commonest(written: Counter[str]) -> str:
    return min(written, key=lambda name: (-written[name], name))


def _order(names: list[str]) -> Callable[[str], Any]:
    if all(_WHOLE.fullmatch(name) for name in names):
        return lambda name: (float(name), name)
    return lambda name: name


def _similar_labels(families: dict[str, Counter[str]], counts: Counter[str]) -> list[Finding]:
    written: dict[str, list[str]] = {}
    for label in sorted(counts):
        written.setdefault(_similar(label), []).append(label)
    items = [
        (" = ".join(map(repr, forms)), ", ".join(str(counts[form]) for form in forms))
        for forms in written.values()
        if len({unicodedata.normalize("NFC", form) for form in forms}) > 1
    ]
    if not items:
        return []
    return [
        Finding("error", "labels that differ only in case or blanks", items,
                "Write each class in one way, or set --data.columns.merge_similar true.")
    ]  # fmt: skip


def _numbers(names: list[str]) -> list[Finding]:
    """Whole numbers as labels: how they become class numbers, which count from 0."""
    if not all(_WHOLE.fullmatch(name) for name in names):
        return []
    if [float(name) for name in names] == list(range(len(names))):
        return []
    told = [(f"{name} → {number}", "") for number, name in enumerate(names)]
    counted = [float(name) for name in names] == list(range(1, len(names) + 1))
    how = "counted from 1" if counted else "with gaps"
    findings = [
        Finding("note", f"labels are numbers {how}; the network's outputs count from 0", told,
                "The names of the classes stay as written.")
    ]  # fmt: skip
    odd = [(name, "") for name in names if float(name) < 0 or float(name) == 255]
    if odd:
        findings.append(
            Finding("warning", "number that often means 'no label', here a class", odd,
                    f"If it does: --data.columns.unlabelled \"['{odd[0][0]}']\".")
        )  # fmt: skip
    return findings


def _placeholders(names: Iterable[str], counts: Counter[str]) -> list[Finding]:
    found = sorted(name for name in names if name.casefold() in _MEANS_NOTHING)
    if not found:
        return []
    listed = ", ".join(f"'{name}'" for name in found)
    return [
        Finding("warning", "label that often means 'no label', here a class",
                [(name, f"{counts[name]}") for name in found],
                f'If it does: --data.columns.unlabelled "[{listed}]".')
    ]  # fmt: skip


def _several(names: list[str]) -> list[Finding]:
    """Labels that look like lists of labels, or like amounts."""
    lists = [name for name in names if "|" in name or ";" in name]
    if 2 * len(lists) <= len(names):
        return []
    return [
        Finding("warning", "label that looks like several labels", [(n, "") for n in lists],
                "Each combination is a class of its own here; for a class each: "
                f"--data.columns.separator '{'|' if any('|' in n for n in lists) else ';'}' and "
                "--model project.tasks.MultiLabel.")
    ]  # fmt: skip
