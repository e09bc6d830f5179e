"""Sequences of vectors, as long as they happen to be: signals, sounds, movements."""

import hashlib
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch.utils.data import Dataset

from project import findings
from project.data.augmentation import Strength
from project.data.collate import pad
from project.data.columns import Columns
from project.data.datamodule import SPLITS, DataModule
from project.data.folders import listed, located
from project.data.index import Index
from project.data.loader import Collate, Loader
from project.data.ragged import Ragged, RaggedSamples
from project.data.sequence_files import SEQUENCES, read_sequence
from project.data.sequence_index import (
    Contents,
    example,
    left_out,
    of_files,
    of_series,
    read_all,
    read_files,
)
from project.data.sequence_preprocessing import (
    SequencePreprocessing,
    fitted,
    sequence_augmentation,
)
from project.data.sounds import Sound
from project.data.splits import Splits
from project.errors import UserError
from project.findings import Finding


class Sequences(DataModule):
    """Files with one sequence and one class each, or .ts files; all are held in memory.

    A file is an array (.npy, steps by channels), a table of numbers (.csv, .tsv, .txt; a step per
    line) or a sound (.wav), from which a spectrogram is computed. Labels come from a table or from
    folders, splits from a column, from folders, or else from `splits.seed` and the file's name.

    Args:
        root: Folder of the files, in any depth. None takes the table's folder, and without a table
            an example: 1,600 generated curves of eight kinds.
        table: Labels: .csv, .tsv, .xlsx or .jsonl with a column of files and one of classes; or a
            .ts file, which holds sequences and classes.
        test_table: Another .ts file, of what is tested on.
        val_table: Another .ts file, of what is validated on.
        predict_root: Folder of files without labels that `predict` runs over, instead of the test
            split.
        batch_size: Samples per batch and process.
        augmentation: Strength of the random changes of training sequences.
        on_bad: `error` stops at files that can't be read or have other channels than the rest;
            `skip` trains on the others and lists what it left out in audit.csv.
        sound: What becomes of .wav files.
        columns: How the table is read.
        splits: How samples are divided where the data don't say.
        loader: How batches are loaded; the data lies in memory, so no workers by default.
    """

    collate: ClassVar[Collate] = staticmethod(pad)

    # more arguments than elsewhere: each is one that a user types, and none belongs to another
    def __init__(
        self,
        root: str | None = None,
        table: str | None = None,
        *,
        test_table: str | None = None,
        val_table: str | None = None,
        predict_root: str | None = None,
        batch_size: int = 32,
        augmentation: Strength = "light",
        on_bad: Literal["error", "skip"] = "error",
        sound: Sound = Sound(),  # noqa: B008 - never changed, and the parser reads it
        columns: Columns = Columns(),  # noqa: B008
        splits: Splits = Splits(),  # noqa: B008
        loader: Loader = Loader(num_workers=0),  # noqa: B008
    ) -> None:
        super().__init__(batch_size, loader)
        self.skip = on_bad == "skip"
        self.sound = sound
        self.augmentation = sequence_augmentation(augmentation)
        self.preprocessing: SequencePreprocessing | None = None
        given = {"train": table, "val": val_table, "test": test_table}
        self.index, self._read = _source(root, given, columns, splits)
        self.predict_root = located(predict_root, "data.predict_root") if predict_root else None
        self.predicts = "predict" if predict_root else "test"
        self.predicted: list[str] = []
        self.class_names = self.index.class_names
        self.class_counts = list(self.index.counts()["train"].values())
        self.num_samples = int(np.count_nonzero(self.index.split == "train"))
        num_outputs = len(self.class_names)
        self.sizes = {"num_channels": self._num_channels(), "num_outputs": num_outputs}

    @cached_property
    def contents(self) -> Contents:
        """All sequences; files are read when this is first asked for."""
        return self._read or read_files(self.index, self.sound)

    @cached_property
    def rows(self) -> dict[str, np.ndarray]:
        """Numbers of the usable sequences of each split."""
        usable = np.array([value is not None for value in self.contents.values])
        return {split: np.flatnonzero((self.index.split == split) & usable) for split in SPLITS}

    def audit(self, *, seconds: float | None) -> list[Finding]:
        """Of labels and contents, which are read in full in any case."""
        return [*self.index.findings, *self.contents.findings, *self.padding()]

    def prepare_data(self) -> None:
        trainer = self.trainer
        if trainer is not None and trainer.state.fn != "fit":
            return  # what is tested was trained, and told then
        self.tell(self.audit(seconds=None))

    def setup(self, stage: str) -> None:
        if stage != "predict" or not self.predict_root:
            self.refuse([*self.index.findings, *self.contents.findings])
        super().setup(stage)
        if stage == "predict" and self.predict_root and "predict" not in self.datasets:
            self.datasets["predict"] = self._unlabelled(self.predict_root)

    def load(self) -> dict[str, Dataset]:
        empty = [split for split, rows in self.rows.items() if not len(rows)]
        if empty:
            raise UserError(f"No sequence is left for {' and '.join(empty)}. Add some.")
        values = {s: _ragged(self.contents, rows) for s, rows in self.rows.items()}
        if self.preprocessing is None:
            self.preprocessing = fitted(values["train"].flat)
        return {
            split: RaggedSamples(
                "sequence",
                values[split],
                torch.from_numpy(self.index.target[self.rows[split]]),
                preprocessing=self.preprocessing,
                augmentation=self.augmentation if split == "train" else None,
            )
            for split in SPLITS
        }

    def names(self, split: str) -> list[str]:
        if split == "predict":
            return self.predicted
        return self.index.names[self.rows[split]].tolist()

    def lengths(self, split: str) -> np.ndarray:
        values = self.contents.values
        return np.array([len(values[row]) for row in self.rows[split]])

    def fingerprint(self) -> str:
        digest = hashlib.sha256("\n".join(self.class_names).encode())
        for array in (self.index.names, self.index.target, self.index.split):
            digest.update(array.tobytes())
        return digest.hexdigest()

    def description(self) -> dict[str, Any]:
        preprocessing = self.preprocessing.description() if self.preprocessing else None
        sound = {**self.sound.description(), "rate": self.contents.rate}
        return {
            **super().description(),
            "preprocessing": preprocessing,
            "sound": sound if self.contents.rate else None,
            "label_mapping": self.index.mapping,
            "counts": self.index.counts(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        known = state_dict["description"].get("preprocessing")
        if known:  # what was measured when training began holds, even if files have come since
            self.preprocessing = SequencePreprocessing(**known)
            for dataset in self.datasets.values():
                if isinstance(dataset, RaggedSamples):
                    dataset.preprocessing = self.preprocessing

    def _num_channels(self) -> int:
        """Of the first sequence that can be read."""
        if self._read is not None:
            return next(value.shape[1] for value in self._read.values if value is not None)
        reasons = []
        for name in self.index.names.tolist():
            try:
                return read_sequence(self.index.root / name, self.sound).values.shape[1]
            except ValueError as error:
                reasons.append(f"{name}: {error}")
        raise UserError(f"No sequence below {self.index.root} can be read; {reasons[0]}.")

    def _unlabelled(self, root: Path) -> Dataset:
        """The sequences to predict on, in order; those that can't be used are named."""
        names = listed(root, SEQUENCES).names
        if not names:
            raise UserError(f"--data.predict_root {root} holds no sequence.")
        recordings, problems = read_all(root, names, self.sound)
        wrong = [
            (name, f"{each.values.shape[1]} channels, at {each.rate} samples per second")
            for name, each in zip(names, recordings, strict=True)
            if each is not None and not self._fits(each.values.shape[1], each.rate)
        ]
        errors = left_out("sequences that can't be read", problems)
        errors += left_out("sequences unlike those trained on", wrong)
        findings.say(errors, skip=self.skip)
        findings.refuse(errors, skip=self.skip)
        bad = {name for name, _ in wrong}
        usable = [
            (name, each.values)
            for name, each in zip(names, recordings, strict=True)
            if each is not None and name not in bad
        ]
        self.predicted = [name for name, _ in usable]
        values = Ragged([value for _, value in usable])
        return RaggedSamples("sequence", values, None, preprocessing=self.preprocessing)

    def _fits(self, channels: int, rate: int) -> bool:
        return (channels, rate) == (self.sizes["num_channels"], self.contents.rate)


def _source(
    root: str | None, given: dict[str, str | None], columns: Columns, splits: Splits
) -> tuple[Index, Contents | None]:
    """Which sequences there are; and what they are, where that is known before files are read."""
    options = {"train": "table", "val": "val_table", "test": "test_table"}
    tables = {s: located(name, f"data.{options[s]}") for s, name in given.items() if name}
    main = tables.get("train")
    if main is not None and main.suffix.lower() == ".ts":
        return of_series(tables, columns, splits)
    if len(tables) > (main is not None):
        raise UserError(
            "--data.val_table and --data.test_table are for .ts files, beside --data.table. In a "
            "table of files a column split says it."
        )
    if main is None and root is None:
        return example()
    return of_files(root, main, columns, splits), None


def _ragged(contents: Contents, rows: np.ndarray) -> Ragged:
    values = [contents.values[row] for row in rows]
    return Ragged([value for value in values if value is not None])
