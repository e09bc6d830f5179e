"""Tables of numbers and categories, with numbers or a class to predict."""

import hashlib
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from sklearn.datasets import load_diabetes
from torch import Tensor
from torch.utils.data import Dataset

from project import findings
from project.data.datamodule import SPLITS, DataModule
from project.data.fields import Cells, Fields, coded, fitted, unknown
from project.data.folders import located
from project.data.labelled import labelled
from project.data.loader import Loader
from project.data.rows import Rows, read_rows
from project.data.splits import Splits
from project.data.table_audit import audit, new_cells, told_of_new
from project.data.table_preprocessing import TablePreprocessing
from project.data.tables import Table
from project.data.targets import TargetKind
from project.errors import UserError
from project.findings import Finding

ROWS_PER_BIN = 200
MAX_BINS = 64
"""What `bins: auto` goes by. On 14,448 districts of California, validation RMSE was 50,000 without
bins, 49,300 with 16 and 47,600 with 48 (all else equal, one seed); with other settings 46,600 with
64 and 46,900 with 128."""


class Tabular(DataModule):
    """A table with a row per sample, and in its columns numbers, categories and what to predict.

    What a column is follows from its cells in the training split, unless `columns` says it. Missing
    numbers become the median and a feature that says so, missing categories one of their own.

    Args:
        table: .csv, .tsv, .xlsx or .jsonl, its first row the names of the columns. None takes an
            example that ships with scikit-learn: 442 diabetes patients, ten measurements each, and
            how far the disease has progressed a year later.
        batch_size: Samples per batch and process.
        bins: That every number is also encoded by, of as many training rows each; 0 for none. They
            let a network follow what is not smooth, and need rows: `auto` takes one for each 200,
            64 at most.
        target_kind: `numbers` or `classes`; `auto` takes a column of numbers for numbers.
        on_bad: `error` stops at rows without a target; `skip` trains on the rest and lists what it
            left out in audit.csv.
        test_table: Another table, of what is tested on.
        predict_table: A table that `predict` runs over instead of the test split; it needs no
            targets.
        columns: Which column is what.
        splits: How rows are divided where the table does not say.
        loader: How batches are loaded; the data lies in memory, so no workers by default.

    Source: of the example, Efron et al., "Least Angle Regression", 2004, as shipped by
        scikit-learn.
    """

    # more arguments than elsewhere: each is one that a user types, and none belongs to another
    def __init__(
        self,
        table: str | None = None,
        *,
        batch_size: int = 64,
        bins: int | Literal["auto"] = "auto",
        target_kind: TargetKind = "auto",
        on_bad: Literal["error", "skip"] = "error",
        test_table: str | None = None,
        predict_table: str | None = None,
        columns: Fields = Fields(),  # noqa: B008 - never changed, and the parser reads it
        splits: Splits = Splits(),  # noqa: B008
        loader: Loader = Loader(num_workers=0),  # noqa: B008
    ) -> None:
        super().__init__(batch_size, loader)
        self.skip = on_bad == "skip"
        self.columns = columns
        rows = example_rows() if table is None else tables_of(table, test_table, columns.sheet)
        if table is None and test_table:
            raise UserError("--data.test_table needs --data.table, which is trained on.")
        self.rows = labelled(rows, _example_columns(columns, table), target_kind, splits)
        self.num_samples = len(self.rows.of_split["train"])
        self.fields, self.judged = fitted(
            self.rows.cells("train"), self.rows.candidates, columns,
            bins=_bins(bins, self.num_samples),
        )  # fmt: skip
        self.preprocessing = TablePreprocessing(self.fields)
        vars(self).update(self.rows.meanings())
        self.sizes = {
            "num_features": self.preprocessing.num_features, "num_outputs": self.rows.num_outputs
        }  # fmt: skip
        self.predict_table = located(predict_table, "data.predict_table") if predict_table else None
        self.predicts = "predict" if predict_table else "test"
        self.predicted: list[str] = []

    def audit(self, *, seconds: float | None) -> list[Finding]:
        """Of targets, columns and cells; it takes no time worth limiting."""
        return [*self.rows.findings, *self.judged, *audit(self.rows, self.fields)]

    def prepare_data(self) -> None:
        trainer = self.trainer
        if trainer is not None and trainer.state.fn != "fit":
            return  # what is tested was trained, and told then
        self.tell(self.audit(seconds=None))

    def setup(self, stage: str) -> None:
        self.refuse(self.rows.findings)
        super().setup(stage)
        if stage == "predict" and self.predict_table and "predict" not in self.datasets:
            self.datasets["predict"] = self._unlabelled(self.predict_table)
        elif stage == "test":
            findings.say(new_cells(self.rows, self.fields, "test"), skip=self.skip)

    def load(self) -> dict[str, Dataset]:
        return {
            split: TableRows(
                self._coded(self.rows.cells(split)),
                as_tensor(self.rows.values(split)),
                self.preprocessing,
            )
            for split in SPLITS
        }

    def names(self, split: str) -> list[str]:
        return self.predicted if split == "predict" else self.rows.names(split)

    def shown(self, split: str, index: int) -> str:
        cells = self.rows.cells(split)
        said = {field["name"]: cells[field["name"]][index].strip() for field in self.fields}
        return ", ".join(f"{name} {value or '(missing)'}" for name, value in said.items())

    def fingerprint(self) -> str:
        return fingerprint_of(self.rows.rows, self.rows.of_split)

    def description(self) -> dict[str, Any]:
        return {**super().description(), "features": self.preprocessing.description()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        known = state_dict["description"]["features"]
        if known != self.preprocessing.description():
            # what was measured when training began holds, even if rows have come since
            self.fields, self.preprocessing = known["columns"], TablePreprocessing(**known)
            self.datasets = {}
            self.setup(self.trainer.state.fn or "fit" if self.trainer else "fit")

    def _coded(self, cells: Cells) -> Tensor:
        return torch.from_numpy(coded(cells, self.fields))

    def _unlabelled(self, path: Path) -> Dataset:
        """The rows to predict on; what they say that is new is told."""
        rows = read_rows({"test": path}, sheet=self.columns.sheet)
        missing = [f["name"] for f in self.fields if f["name"] not in rows.columns]
        if missing:
            raise UserError(
                f"--data.predict_table {path} lacks the columns {missing}, which the network was "
                f"trained with. Found: {', '.join(rows.columns)}."
            )
        new = unknown(rows.cells, self.fields, self.rows.cells("train"))
        findings.say(told_of_new(new, path.name), skip=self.skip)
        self.predicted = rows.names
        return TableRows(self._coded(rows.cells), None, self.preprocessing)


class TableRows(Dataset):
    """Rows in memory.

    They are prepared all at once, and again if `preprocessing` is replaced: one by one a row takes
    0.11 ms instead of 0.005.

    Args:
        raw: float32 [N, columns]; see `TablePreprocessing`.
        target: float32 [N, K] or int64 [N]; None where there are none.
        preprocessing: Makes rows ready for the network.
    """

    def __init__(self, raw: Tensor, target: Tensor | None, preprocessing: torch.nn.Module) -> None:
        self.raw = raw
        self.target = target
        self.preprocessing = preprocessing
        self._prepared: tuple[torch.nn.Module, Tensor] = (preprocessing, preprocessing(raw))

    def __len__(self) -> int:
        return len(self.raw)

    def __getitem__(self, index: int) -> dict[str, Any]:
        if self._prepared[0] is not self.preprocessing:
            self._prepared = (self.preprocessing, self.preprocessing(self.raw))
        sample: dict[str, Any] = {"inputs": {"features": self._prepared[1][index]}}
        return sample if self.target is None else {**sample, "target": self.target[index]}


def tables_of(table: str, test_table: str | None, sheet: str | None) -> Rows:
    """The rows of one table, or of two, where the second is tested on."""
    tables = {"train": located(table, "data.table")}
    if test_table:
        tables["test"] = located(test_table, "data.test_table")
    return read_rows(tables, sheet=sheet)


def _bins(said: int | Literal["auto"], num_rows: int) -> int:
    """The number of bins; of fewer than four no more is learnt than of the number itself."""
    if said == "auto":
        bins = min(MAX_BINS, num_rows // ROWS_PER_BIN)
        return bins if bins >= 4 else 0
    if said < 0:
        raise UserError(f"data.bins is {said}; it is a number of bins, 0 for none, or 'auto'.")
    return said


def as_tensor(values: np.ndarray) -> Tensor:
    """Targets as batches hold them: float32 or int64."""
    return torch.from_numpy(values.astype(np.float32) if values.dtype.kind == "f" else values)


def fingerprint_of(rows: Rows, of_split: dict[str, np.ndarray]) -> str:
    """Changes with any cell and with the division."""
    digest = hashlib.sha256("\0".join(rows.columns).encode())
    for column in rows.cells.values():
        digest.update("\0".join(column).encode())
    for split in SPLITS:
        digest.update(of_split[split].tobytes())
    return digest.hexdigest()


def example_rows() -> Rows:
    """scikit-learn's diabetes as if it had been read from a file."""
    found: Any = load_diabetes(scaled=False)
    columns = [*found.feature_names, "progression"]
    values = np.column_stack([found.data, found.target])
    cells = {name: [f"{value:g}" for value in values[:, n]] for n, name in enumerate(columns)}
    names = [f"diabetes[{row}]" for row in range(len(values))]
    lines = list(range(2, len(values) + 2))
    table = Table(Path("diabetes"), columns, [], lines)
    return Rows(columns, cells, names, lines, [""] * len(values), table, [])


def _example_columns(columns: Fields, table: str | None) -> Fields:
    if table is None and columns.target is None:
        return Fields("progression", columns.numbers, columns.categories, columns.ignored)
    return columns
