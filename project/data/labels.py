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
        target: Class number of every sample, `UNLABELLED` for none: int64 [N].
        mapping: Every way in which a label was written, and its class number.
        findings: What looks wrong or is worth knowing.
    """

    names: list[str]
    target: np.ndarray
    mapping: dict[str, int]
    findings: list[Finding] = field(default_factory=list)


def classes(labels: list[str], *, unlabelled: Sequence[str], merge_similar: bool) -> Classes:
    """Number the classes of all labels together, so that one missing in a split shifts nothing.

    Classes are sorted: as numbers if all are whole numbers, else as text.

    Args:
        labels: As written, of all splits. Blank ones are none.
        unlabelled: Labels that mean none as well.
        merge_similar: Make one class of labels that differ only in case or blanks.

    Raises:
        UserError: There are fewer than two classes.
    """
    none = {text.strip() for text in unlabelled} | {""}
    counts = Counter(label for label in labels if label.strip() not in none)
    families: dict[str, Counter[str]] = {}
    for label, count in counts.items():
        families.setdefault(_similar(label), Counter())[_tidy(label)] += count
    findings = _similar_labels(families, counts) if not merge_similar else []
    named = {key: _commonest(written) for key, written in families.items()}
    names = sorted(named.values(), key=_order(list(named.values())))
    if len(names) < 2:
        raise UserError(
            f"The data have {f'one class, {names[0]!r}' if names else 'no labels'}; two or more "
            "classes are needed to tell them apart."
        )
    number = {name: position for position, name in enumerate(names)}
    mapping = {label: number[named[_similar(label)]] for label in sorted(counts)}
    target = np.array([mapping.get(label, UNLABELLED) for label in labels], dtype=np.int64)
    findings += _numbers(names) + _placeholders(named.values(), counts) + _several(names)
    return Classes(names, target, mapping, findings)


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
                "Each combination is a class of its own here.")
    ]  # fmt: skip
