"""One row per epoch, none lost, none doubled."""

from pathlib import Path

from project.runs import Run
from tests.callbacks.test_checkpointing import fit


def test_one_row_per_epoch_with_everything_in_it(tmp_path: Path) -> None:
    fit(tmp_path, [0.5, 0.25])
    rows = Run(tmp_path).history
    assert [row["epoch"] for row in rows] == [0, 1]
    assert [row["step"] for row in rows] == [2, 4]
    assert [row["val_loss"] for row in rows] == [0.5, 0.25]
    assert [row["lr"] for row in rows] == [0.001, 0.001]
    assert list(rows[0])[:4] == ["epoch", "step", "train_loss", "val_loss"]
    assert list(rows[0])[-1] == "lr"


def test_a_fresh_run_starts_a_fresh_file(tmp_path: Path) -> None:
    fit(tmp_path, [0.5, 0.25])
    fit(tmp_path, [0.75])
    assert [row["val_loss"] for row in Run(tmp_path).history] == [0.75]
