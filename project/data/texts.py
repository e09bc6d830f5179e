"""Texts with one class each, or several: a table with a column of texts and one of labels."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch.utils.data import Dataset

from project import findings
from project.data.collate import pad
from project.data.columns import Columns, chosen
from project.data.coverage import counts_by_split
from project.data.datamodule import SPLITS, DataModule
from project.data.example_names import names_by_language
from project.data.folders import located
from project.data.loader import Collate, Loader
from project.data.ragged import Ragged, RaggedSamples
from project.data.rows import Rows, read_rows
from project.data.splits import Splits
from project.data.tables import Table
from project.data.text_rows import LabelledTexts, labelled_texts, left_out
from project.data.tokens import UNKNOWN, Tokenizer, Unit, fitted, normalised
from project.errors import UserError
from project.findings import Finding

MANY_UNKNOWN = 0.2
"""A larger share of unknown tokens in the validation split is warned about."""


@dataclass
class Vocabulary:
    """Which tokens are known; those of the training split, never of another.

    Args:
        unit: `word`, or `character` for names, codes, and languages written without blanks.
        lowercase: Make no difference between large and small letters.
        min_count: Times that a token occurs in training to be known.
        max_tokens: Know the most frequent ones only, that many; None for all.
        max_length: Tokens of a text that are kept, from its start.
    """

    unit: Unit = "word"
    lowercase: bool = True
    min_count: int = 2
    max_tokens: int | None = None
    max_length: int = 256


class Texts(DataModule):
    """A table whose rows are texts with labels.

    Everything that is wrong with the rows is said before the first step; nothing is dropped unless
    `on_bad` says so. The splits are stated by tables of their own or by a column, or else follow
    from `splits.seed` and the text; equal texts never come into two splits.

    Args:
        table: .csv, .tsv, .xlsx or .jsonl with a column of texts and one of labels. None takes an
            example: about 10,000 surnames by language, which the package `faker` ships.
        test_table: Another table, of what is tested on.
        val_table: Another table, of what is validated on.
        predict_table: Texts without labels that `predict` runs over, instead of the test split.
        batch_size: Samples per batch and process.
        on_bad: `error` stops at rows without a text or label and at texts that are in several
            splits; `skip` trains on the rest and lists what it left out in audit.csv.
        vocabulary: How a text becomes numbers.
        columns: How the tables are read.
        splits: How samples are divided where the data don't say.
        loader: How batches are loaded; the data lies in memory, so no workers by default.
    """

    collate: ClassVar[Collate] = staticmethod(pad)

    # more arguments than elsewhere: each is one that a user types, and none belongs to another
    def __init__(
        self,
        table: str | None = None,
        *,
        test_table: str | None = None,
        val_table: str | None = None,
        predict_table: str | None = None,
        batch_size: int = 64,
        on_bad: Literal["error", "skip"] = "error",
        vocabulary: Vocabulary = Vocabulary(),  # noqa: B008 - never changed, the parser reads it
        columns: Columns = Columns(),  # noqa: B008
        splits: Splits = Splits(),  # noqa: B008
        loader: Loader = Loader(num_workers=0),  # noqa: B008
    ) -> None:
        super().__init__(batch_size, loader)
        self.skip = on_bad == "skip"
        self.columns = columns
        given = {"train": table, "val": val_table, "test": test_table}
        self.rows = labelled_texts(_rows(given, columns), columns, splits)
        train = self.rows.of("train")
        if not train:
            self.refuse(self.rows.findings)
        self.tokenizer = fitted(train, **vars(vocabulary))
        self.encoded = _encoded(self.rows, self.tokenizer)
        self.predict_table = located(predict_table, "data.predict_table") if predict_table else None
        self.predicts = "predict" if predict_table else "test"
        self.predicted: list[str] = []  # names of the rows that are predicted on
        self.texts: list[str] = []  # and theirs
        self.class_names = self.rows.class_names
        self.counts = counts_by_split(self.rows.target, self.rows.split, self.class_names)
        self.class_counts = list(self.counts["train"].values())
        self.num_samples = len(train)
        num_outputs = len(self.class_names)
        self.sizes = {"num_tokens": self.tokenizer.num_tokens, "num_outputs": num_outputs}

    def audit(self, *, seconds: float | None) -> list[Finding]:
        """Of rows, labels and tokens; it takes no time worth limiting."""
        return [*self.rows.findings, *_of_tokens(self.rows, self.tokenizer), *self.padding()]

    def prepare_data(self) -> None:
        trainer = self.trainer
        if trainer is not None and trainer.state.fn != "fit":
            return  # what is tested was trained, and told then
        self.tell(self.audit(seconds=None))

    def setup(self, stage: str) -> None:
        if stage != "predict" or not self.predict_table:
            self.refuse(self.rows.findings)
        super().setup(stage)
        if stage == "predict" and self.predict_table and "predict" not in self.datasets:
            self.datasets["predict"] = self._unlabelled(self.predict_table)

    def load(self) -> dict[str, Dataset]:
        empty = [split for split in SPLITS if not self.rows.of(split)]
        if empty:
            raise UserError(
                f"No text is left for {' and '.join(empty)}. Add rows, or change --data.splits."
            )
        return {
            split: RaggedSamples(
                "tokens", self.encoded[split], torch.from_numpy(self.rows.target_of(split))
            )
            for split in SPLITS
        }

    def names(self, split: str) -> list[str]:
        if split == "predict":
            return self.predicted
        return [self.rows.names[row] for row in np.flatnonzero(self.rows.split == split)]

    def lengths(self, split: str) -> np.ndarray:
        return self.encoded[split].lengths

    def shown(self, split: str, index: int) -> str:
        return self.texts[index] if split == "predict" else self.rows.of(split)[index]

    def fingerprint(self) -> str:
        digest = hashlib.sha256("\0".join([*self.class_names, *self.rows.texts]).encode())
        digest.update(self.rows.target.tobytes() + self.rows.split.tobytes())
        return digest.hexdigest()

    def description(self) -> dict[str, Any]:
        return {
            **super().description(),
            "tokenizer": self.tokenizer.description(),
            "label_mapping": self.rows.mapping,
            "counts": self.counts,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        known = Tokenizer(**state_dict["description"]["tokenizer"])
        if known == self.tokenizer:
            return
        # what was known when training began holds, even if texts have come since
        self.tokenizer = known
        self.encoded = _encoded(self.rows, known)
        if self.datasets:
            stage = "predict" if "predict" in self.datasets else "fit"
            self.datasets = {}
            self.setup(stage)

    def _unlabelled(self, path: Path) -> Dataset:
        """The texts to predict on, in order; rows without one are named."""
        rows = read_rows({"test": path}, sheet=self.columns.sheet)
        column = chosen(rows.table, self.columns, ("text",))["text"]
        texts = [normalised(cell) for cell in rows.cells[column]]
        blank = [(name, "") for name, text in zip(rows.names, texts, strict=True) if not text]
        errors = left_out("rows without a text", blank)
        findings.say(errors, skip=self.skip)
        findings.refuse(errors, skip=self.skip)
        self.texts = [text for text in texts if text]
        self.predicted = [name for name, text in zip(rows.names, texts, strict=True) if text]
        if not self.texts:
            raise UserError(f"--data.predict_table {path} holds no text.")
        return RaggedSamples("tokens", _ragged(self.texts, self.tokenizer), None)


def _rows(given: dict[str, str | None], columns: Columns) -> Rows:
    """The rows of the tables that are given, or the example."""
    if given["train"] is not None:
        options = {"train": "table", "val": "val_table", "test": "test_table"}
        tables = {s: located(name, f"data.{options[s]}") for s, name in given.items() if name}
        return read_rows(tables, sheet=columns.sheet)
    if unused := [f"--data.{split}_table" for split in ("val", "test") if given[split]]:
        raise UserError(f"{' and '.join(unused)} need --data.table, which is trained on.")
    names, languages = names_by_language()
    cells = {"text": names, "label": languages}
    lines = list(range(1, len(names) + 1))
    what = f"no --data.table: the example, {len(names):,} surnames by language (package faker)"
    table = Table(Path("names"), list(cells), [], [])
    rows = [f"names:{line}" for line in lines]
    return Rows(list(cells), cells, rows, lines, [""] * len(names), table, [Finding("note", what)])


def _ragged(texts: list[str], tokenizer: Tokenizer) -> Ragged:
    return Ragged([torch.tensor(tokenizer.encode(text)) for text in texts])


def _encoded(rows: LabelledTexts, tokenizer: Tokenizer) -> dict[str, Ragged]:
    return {split: _ragged(rows.of(split), tokenizer) for split in SPLITS}


def _of_tokens(rows: LabelledTexts, tokenizer: Tokenizer) -> list[Finding]:
    """What the vocabulary does not know of the validation texts, and what is cut off."""
    lengths = [
        (name, len(tokenizer.split(t))) for name, t in zip(rows.names, rows.texts, strict=True)
    ]
    cut = [(name, f"{n} {tokenizer.unit}s") for name, n in lengths if n > tokenizer.max_length]
    numbers = [number for text in rows.of("val") for number in tokenizer.encode(text)]
    unknown = numbers.count(UNKNOWN) / len(numbers) if numbers else 0.0
    known = f"{len(tokenizer.vocabulary):,} {tokenizer.unit}s are known"
    told = f"{known}; of those in the validation texts {unknown:.1%} are not"
    if unknown > MANY_UNKNOWN:
        found = [Finding("warning", told, advice="Lower --data.vocabulary.min_count, or take "
                         "--data.vocabulary.unit character.")]  # fmt: skip
    else:
        found = [Finding("note", told)]
    if cut:
        advice = "The rest is not seen: --data.vocabulary.max_length."
        found.append(Finding("note", f"texts cut to {tokenizer.max_length}", cut, advice))
    return found
