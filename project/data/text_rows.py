"""Which texts a table has, what each is, and to which split it belongs."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from project.data.columns import Columns, chosen
from project.data.coverage import coverage, divided_by_class
from project.data.labels import classes
from project.data.rows import Rows, splits_of
from project.data.splits import Splits, joined
from project.data.tokens import normalised
from project.findings import Finding

_LAST = ("", "train", "val", "test")  # of equal texts, those of the last split are kept


@dataclass
class LabelledTexts:
    """Texts with labels.

    Args:
        names: Of the rows, such as `train.csv:12`.
        texts: As written, but for blanks and Unicode's forms.
        target: Class numbers: int64 [N]; of several labels each, 1 or 0: int64 [N, C].
        split: Names of splits: text [N].
        class_names: What the class numbers mean.
        mapping: Class number of every way in which a label was written.
        findings: What is wrong or worth knowing.
    """

    names: list[str]
    texts: list[str]
    target: np.ndarray
    split: np.ndarray
    class_names: list[str]
    mapping: dict[str, int]
    findings: list[Finding]

    def of(self, split: str) -> list[str]:
        """The texts of a split."""
        return [self.texts[row] for row in np.flatnonzero(self.split == split)]

    def target_of(self, split: str) -> np.ndarray:
        """Their class numbers."""
        return self.target[self.split == split]


def labelled_texts(rows: Rows, columns: Columns, splits: Splits) -> LabelledTexts:
    """Read the texts and labels of a table's rows; equal texts never come into two splits.

    Two texts are equal if they differ in case and blanks at most. Rows that can't be used are left
    out, and are errors among the findings.

    Raises:
        UserError: A column is missing, or there are fewer than two classes.
    """
    roles = chosen(rows.table, columns, ("text", "label"))
    texts = [normalised(cell) for cell in rows.cells[roles["text"]]]
    found = classes(
        rows.cells[roles["label"]], unlabelled=columns.unlabelled,
        merge_similar=columns.merge_similar, separator=columns.separator,
    )  # fmt: skip
    stated = splits_of(rows, roles.get("split"))
    keys = [text.casefold() for text in texts]
    blank = [row for row, text in enumerate(texts) if not text]
    unlabelled = np.flatnonzero(~found.labelled).tolist()
    leaks = _leaks(keys, stated)
    findings = [*rows.findings, *found.findings]
    findings += left_out("rows without a text", [(rows.names[row], "") for row in blank])
    findings += left_out("rows without a label", [(rows.names[row], "") for row in unlabelled])
    findings += left_out(
        "equal texts in several splits",
        [(rows.names[row], _shortened(texts[row])) for row in leaks],
        "Keep one of each; --data.on_bad skip keeps that of test, else that of val.",
    )
    out = {*blank, *unlabelled, *leaks}
    kept = [row for row in range(len(texts)) if row not in out]
    names, target = [rows.names[row] for row in kept], found.target[kept]
    groups = rows.cells[roles["group"]] if "group" in roles else [""] * len(texts)
    split, more = divided_by_class(
        names, target, found.names, splits, what="text", stated=[stated[row] for row in kept],
        groups=joined([groups[row] for row in kept], [keys[row] for row in kept]),
    )  # fmt: skip
    more += _repeated([keys[row] for row in kept], names, target)
    more += coverage(names, target, split, found.names, what="text")
    texts = [texts[row] for row in kept]
    return LabelledTexts(
        names, texts, target, split, found.names, found.mapping, [*findings, *more]
    )


def left_out(title: str, items: list[tuple[str, str]], advice: str = "") -> list[Finding]:
    """An error about rows, over once they are left out; none if there are no such rows."""
    advice = advice or "Mend them, or leave them out: --data.on_bad skip."
    return [Finding("error", title, items, advice, skippable=True)] if items else []


def _leaks(keys: list[str], stated: list[str]) -> list[int]:
    """Rows whose text stands in a later split as well."""
    last: dict[str, str] = {}
    for key, split in zip(keys, stated, strict=True):
        last[key] = max(last.get(key, ""), split, key=_LAST.index)
    pairs = enumerate(zip(keys, stated, strict=True))
    return [row for row, (key, split) in pairs if key and split != last[key]]


def _repeated(keys: list[str], names: list[str], target: np.ndarray) -> list[Finding]:
    """Equal texts: those of one label count several times, those of several can't all be right."""
    rows_of: dict[str, list[int]] = {}
    for row, key in enumerate(keys):
        rows_of.setdefault(key, []).append(row)
    several = [(key, rows) for key, rows in rows_of.items() if len(rows) > 1]
    disagree = [pair for pair in several if len(np.unique(target[pair[1]], axis=0)) > 1]
    told = {id(rows) for _, rows in disagree}
    copies = [pair for pair in several if id(pair[1]) not in told]
    findings = []
    if disagree:
        findings.append(
            Finding("warning", "equal texts with different labels", _items(disagree, names),
                    "At most one of the labels can be predicted: mend what is a mistake.")
        )  # fmt: skip
    if copies:
        findings.append(
            Finding("note", "equal texts in several rows", _items(copies, names),
                    "They count several times, all in one split.")
        )  # fmt: skip
    return findings


def _items(found: Iterable[tuple[str, list[int]]], names: list[str]) -> list[tuple[str, str]]:
    return [(_shortened(key), ", ".join(names[row] for row in rows[:3])) for key, rows in found]


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"
