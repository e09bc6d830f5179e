"""Images with texts, numbers and categories: a table whose columns are of several kinds."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from project import findings
from project.data.audit import SECONDS, Report, audit, remembered
from project.data.augmentation import PhotoAugmentation, Strength, photo_augmentation
from project.data.cache import Cache, Pixels
from project.data.collate import pad, stack
from project.data.datamodule import SPLITS, DataModule
from project.data.example_mixed import example_folder
from project.data.fields import coded, fitted, unknown
from project.data.folders import located, text_array
from project.data.index import Index
from project.data.labelled import labelled
from project.data.loader import Collate, Loader
from project.data.mixed_rows import ImagesOfRows, MixedPreprocessing, MixedRows, blank
from project.data.modalities import (
    FilesOfRows,
    MixedFields,
    Modality,
    files_of,
    modalities,
    texts_of,
)
from project.data.normalization import Normalization, measured, stated
from project.data.preprocessing import ImagePreprocessing
from project.data.ragged import Ragged
from project.data.rows import Rows, read_rows
from project.data.splits import Splits
from project.data.table_audit import audit as audit_cells
from project.data.table_audit import told_of_new
from project.data.table_preprocessing import TablePreprocessing
from project.data.tabular import as_tensor, fingerprint_of
from project.data.targets import TargetKind
from project.data.texts import Vocabulary
from project.data.tokens import Tokenizer
from project.data.tokens import fitted as fitted_tokenizer
from project.errors import UserError
from project.findings import Finding


def _collated(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """Texts differ in length."""
    return (pad if "tokens" in samples[0]["inputs"] else stack)(samples)


class Mixed(DataModule):
    """A table with a row per sample: an image file, texts, numbers and categories, a target.

    Of these a table may lack some, and `inputs` may choose some, so that what each is worth can be
    measured. A row may lack some as well: a missing image is an even, grey one, a missing text one
    unknown word; for the table's own cells see `Tabular`.

    Args:
        root: Folder that the table's file names start from; None takes the table's.
        table: .csv, .tsv, .xlsx or .jsonl, its first row the names of the columns. None takes a
            made-up example: handwritten digits, half of each covered, with a note that names two
            digits, one of them right, and numbers that tell a little; written to
            data/example_mixed.
        batch_size: Samples per batch and process.
        inputs: What the network is given, of image, text and features; none named takes all that
            the table has columns for.
        size: Height and width that the network sees, in pixels; one number for both.
        augmentation: Strength of the random changes of training images.
        flip: Mirror half of the training images; false where left and right matter, as in text.
        on_bad: `error` stops at rows without a target, unreadable images and the like; `skip`
            trains on the rest and lists what it left out in audit.csv.
        cache: Keep decoded images in `memory` that all workers share or on `disk`; `none` decodes
            in every epoch.
        normalization: As `Images` has it; networks with pretrained weights want their own.
        target_kind: `numbers` or `classes`; `auto` takes a column of numbers for numbers.
        predict_table: A table that `predict` runs over instead of the test split; it needs no
            targets.
        vocabulary: How a text becomes numbers.
        columns: Which column is what.
        splits: How rows are divided where the table does not say.
        loader: How batches are loaded.
    """

    collate: ClassVar[Collate] = staticmethod(_collated)

    # more arguments than elsewhere: each is one that a user types, and none belongs to another
    def __init__(
        self,
        root: str | None = None,
        table: str | None = None,
        *,
        batch_size: int = 32,
        inputs: tuple[Modality, ...] = (),
        size: int | tuple[int, int] = 64,
        augmentation: Strength = "light",
        flip: bool = True,
        on_bad: Literal["error", "skip"] = "error",
        cache: Cache = "none",
        normalization: Normalization = "train",
        target_kind: TargetKind = "auto",
        predict_table: str | None = None,
        vocabulary: Vocabulary = Vocabulary(),  # noqa: B008 - never changed, the parser reads it
        columns: MixedFields = MixedFields(),  # noqa: B008
        splits: Splits = Splits(),  # noqa: B008
        loader: Loader = Loader(),  # noqa: B008
    ) -> None:
        super().__init__(batch_size, loader)
        self.size = (size, size) if isinstance(size, int) else tuple(size)
        if min(self.size) < 1:
            raise UserError(f"data.size is {size}; height and width are 1 pixel or more.")
        self.augmentation = photo_augmentation(augmentation, self.size, flip=flip)
        self.skip = on_bad == "skip"
        self.cache: Cache = cache
        self.columns = columns
        path = located(table, "data.table") if table else example_folder() / "table.csv"
        self.root = located(root, "data.root") if root else path.parent
        rows = read_rows({"train": path}, sheet=columns.sheet)
        self.rows = labelled(rows, columns, target_kind, splits)
        train = self.rows.cells("train")
        self.found = modalities(train, columns, path)
        self.inputs = _chosen(inputs, self.found.present, path)
        self.sizes = {"num_outputs": self.rows.num_outputs}
        self.files: FilesOfRows | None = None
        if "image" in self.inputs:
            self.files = files_of(self.rows.rows, str(self.found.file), self.root)
            self.sizes["in_channels"] = 3
        self.tokenizer: Tokenizer | None = None
        if "text" in self.inputs:
            texts = texts_of(train, self.found.texts)
            self.tokenizer = fitted_tokenizer(texts, **vars(vocabulary))
            self.sizes["num_tokens"] = self.tokenizer.num_tokens
        self.judged: list[Finding] = []
        self.features: TablePreprocessing | None = None
        if "features" in self.inputs:
            fields, self.judged = fitted(train, self.found.others, columns, bins=0)
            self.features = TablePreprocessing(fields)
            self.sizes["num_features"] = self.features.num_features
        self.preprocessing: ImagePreprocessing | None = None
        if self.files:
            self.preprocessing = stated(normalization, self.size)
        vars(self).update(self.rows.meanings())
        self.num_samples = len(self.rows.of_split["train"])
        self.predict_table = located(predict_table, "data.predict_table") if predict_table else None
        self.predicts = "predict" if predict_table else "test"
        self.predicted: list[str] = []
        self.kept = dict(self.rows.of_split)  # rows of each split; fewer once images are looked at

    def audit(self, *, seconds: float | None) -> list[Finding]:
        """Of targets, columns, cells and images."""
        report = audit(self._index(), seconds=seconds) if self.files else Report()
        return [*self._told(), *report.findings]

    def prepare_data(self) -> None:
        trainer = self.trainer
        if trainer is not None and trainer.state.fn != "fit":
            return  # what is tested was trained, and told then
        if self.skip and self.files:
            self.tell([*self._told(), *remembered(self._index()).findings])
        else:
            self.tell(self.audit(seconds=SECONDS))

    def setup(self, stage: str) -> None:
        self.refuse([*self.rows.findings, *(self.files.findings if self.files else [])])
        super().setup(stage)
        if stage == "predict" and self.predict_table and "predict" not in self.datasets:
            self.datasets["predict"] = self._unlabelled(self.predict_table)

    def load(self) -> dict[str, Dataset]:
        self.kept = self._good_rows()
        if self.files and self.preprocessing is None:
            train = self.files.number[self.kept["train"]]
            paths = self._paths(self.files, train[train >= 0])
            self.preprocessing = measured(self._pixels(paths, training=False), self.size)
        return {
            split: self._samples(
                self.rows.rows.kept(self.kept[split].tolist()),
                _of_some(self.files, self.kept[split]) if self.files else None,
                as_tensor(self.rows.targets.values[self.kept[split]]),
                training=split == "train",
            )
            for split in SPLITS
        }

    def names(self, split: str) -> list[str]:
        if split == "predict":
            return self.predicted
        return [self.rows.rows.names[row] for row in self.kept[split].tolist()]

    def lengths(self, split: str) -> np.ndarray | None:
        tokens = cast(MixedRows, self.datasets[split]).tokens
        return tokens.lengths if tokens else None

    def shown(self, split: str, index: int) -> np.ndarray | str:
        dataset = cast(MixedRows, self.datasets[split])
        picture = dataset.picture(index)
        if picture is not None:
            return picture.permute(1, 2, 0).numpy()
        row = int(self.kept[split][index])
        cells = {name: self.rows.rows.cells[name][row].strip() for name in self.rows.candidates}
        return ", ".join(f"{name} {cell or '(missing)'}" for name, cell in cells.items())

    def fingerprint(self) -> str:
        return fingerprint_of(self.rows.rows, self.rows.of_split)

    def description(self) -> dict[str, Any]:
        parts = {
            "preprocessing": self.preprocessing,
            "tokenizer": self.tokenizer,
            "features": self.features,
        }
        known = {name: part.description() for name, part in parts.items() if part}
        return {**super().description(), "inputs": list(self.inputs), **known}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        # what was measured when training began holds, even if rows have come since
        known = state_dict["description"]
        if "preprocessing" in known:
            self.preprocessing = ImagePreprocessing(**known["preprocessing"])
        if "tokenizer" in known:
            self.tokenizer = Tokenizer(**known["tokenizer"])
        if "features" in known:
            self.features = TablePreprocessing(**known["features"])
        if self.datasets:
            stage = "predict" if "predict" in self.datasets else "fit"
            self.datasets = {}
            self.setup(stage)

    def _told(self) -> list[Finding]:
        fields = self.features.columns if self.features else []
        files = self.files.findings if self.files else []
        kinds = {"image": [self.found.file], "text": self.found.texts,
                 "features": [field["name"] for field in fields]}  # fmt: skip
        told = "; ".join(f"{name}: {', '.join(map(str, kinds[name]))}" for name in self.inputs)
        others = self.found.texts if self.tokenizer else []
        others = [*others, str(self.found.file)] if self.files else others
        cells = audit_cells(self.rows, fields, others) if fields else []
        read = Finding("note", f"the network is given {told}")
        return [read, *self.rows.findings, *files, *self.judged, *cells]

    def _index(self) -> Index:
        """The rows that name a file, for the audit of images."""
        assert self.files is not None
        rows = np.flatnonzero(self.files.number >= 0)
        names = text_array([self.files.names[n] for n in self.files.number[rows]])
        split = np.full(len(self.files.number), "train")
        for name, members in self.rows.of_split.items():
            split[members] = name
        found = self.rows.targets
        classes = found.values[rows] if found.class_names else np.zeros(len(rows), np.int64)
        return Index(self.root, names, classes, split[rows], found.class_names or ["any"], {}, [])

    def _good_rows(self) -> dict[str, np.ndarray]:
        """The rows of each split whose image, if they name one, is there and can be read."""
        if self.files is None:
            return dict(self.rows.of_split)
        good = ~self.files.wrong
        if self.skip:
            rows = np.flatnonzero(self.files.number >= 0)
            good[rows[remembered(self._index()).left_out]] = False
        kept = {split: rows[good[rows]] for split, rows in self.rows.of_split.items()}
        if empty := [split for split, rows in kept.items() if not len(rows)]:
            raise UserError(f"No row is left for {' and '.join(empty)} in {self.root}.")
        return kept

    def _paths(self, files: FilesOfRows, numbers: np.ndarray) -> np.ndarray:
        return text_array([str(self.root / files.names[number]) for number in numbers.tolist()])

    def _pixels(self, paths: np.ndarray, *, training: bool) -> Pixels:
        """Images at a scale at which the smallest part cut out has `size`."""
        share = 1.0
        if training and isinstance(self.augmentation, PhotoAugmentation):
            share = math.sqrt(self.augmentation.crop_share)
        height, width = (math.ceil(side / share) for side in self.size)
        return Pixels(paths, at_least=(height, width), cache=self.cache)

    def _samples(
        self,
        rows: Rows,
        files: FilesOfRows | None,
        target: Tensor | None,
        *,
        training: bool,
    ) -> MixedRows:
        """The samples of some rows.

        Args:
            rows: The rows.
            files: What they name, below 0 for no image; None where images are no input.
            target: Theirs.
            training: Change images at random.
        """
        images, augmentation = None, nn.Identity()
        if files is not None:
            assert self.preprocessing is not None  # set by `load`
            there = files.number >= 0
            pixels = self._pixels(self._paths(files, files.number[there]), training=training)
            position = np.where(there, np.cumsum(there) - 1, -1)
            images = ImagesOfRows(pixels, position, blank(self.preprocessing))
            augmentation = self.augmentation if training else augmentation
        tokens = None
        if self.tokenizer:
            texts = texts_of(rows.cells, self.found.texts)
            tokens = Ragged([torch.tensor(self.tokenizer.encode(text)) for text in texts])
        features = None
        if self.features:
            features = torch.from_numpy(coded(rows.cells, self.features.columns))
        preprocessing = MixedPreprocessing(self.preprocessing, self.features)
        return MixedRows(
            images, tokens, features, target,
            preprocessing=preprocessing, augmentation=augmentation,
        )  # fmt: skip

    def _unlabelled(self, path: Path) -> Dataset:
        """The rows to predict on."""
        rows = read_rows({"test": path}, sheet=self.columns.sheet)
        fields = self.features.columns if self.features else []
        wanted = [*self.found.texts] if self.tokenizer else []
        wanted += [field["name"] for field in fields]
        wanted += [str(self.found.file)] if self.files else []
        if missing := [name for name in wanted if name not in rows.columns]:
            raise UserError(
                f"--data.predict_table {path} lacks the columns {missing}, which the network was "
                f"trained with. Found: {', '.join(rows.columns)}."
            )
        new = unknown(rows.cells, fields, self.rows.cells("train"))
        findings.say(told_of_new(new, path.name), skip=self.skip)
        files = None
        if self.files:
            files = files_of(rows, str(self.found.file), self.root)
            findings.say(files.findings, skip=self.skip)
            self.refuse(files.findings)
            good = np.flatnonzero(~files.wrong)
            rows, files = rows.kept(good.tolist()), _of_some(files, good)
        self.predicted = rows.names
        return self._samples(rows, files, None, training=False)


def _of_some(files: FilesOfRows, rows: np.ndarray) -> FilesOfRows:
    """What some rows alone name."""
    return replace(files, number=files.number[rows])


def _chosen(
    inputs: tuple[Modality, ...], present: list[Modality], path: Path
) -> tuple[Modality, ...]:
    if absent := [name for name in inputs if name not in present]:
        raise UserError(
            f"data.inputs asks for {absent}, for which {path} has no column; it has {present}. "
            "Name the columns: --data.columns.file, .texts, .numbers or .categories."
        )
    return tuple(name for name in present if name in inputs or not inputs)
