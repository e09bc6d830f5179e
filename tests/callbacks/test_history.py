"""One row per epoch, none lost, none doubled."""

from pathlib import Path

import pytest

from project.callbacks.history import read_history
from tests.callbacks.test_checkpointing import fit


def test_one_row_per_epoch_with_everything_in_it(tmp_path: Path) -> None:
    fit(tmp_path, [0.5, 0.25])
    rows = read_history(tmp_path / "metrics.csv")
    assert [row["epoch"] for row in rows] == [0, 1]
    assert [row["step"] for row in rows] == [2, 4]
    assert [row["val_loss"] for row in rows] == [0.5, 0.25]
    assert [row["lr"] for row in rows] == [0.001, 0.001]
    assert list(rows[0])[:4] == ["epoch", "step", "train_loss", "val_loss"]
    assert list(rows[0])[-1] == "lr"


def test_a_fresh_run_starts_a_fresh_file(tmp_path: Path) -> None:
    fit(tmp_path, [0.5, 0.25])
    fit(tmp_path, [0.75])
    assert [row["val_loss"] for row in read_history(tmp_path / "metrics.csv")] == [0.75]


@pytest.mark.parametrize("torn", ["1,4,0.1", "1,4", "1"])
def test_a_torn_last_line_is_left_out(tmp_path: Path, torn: str) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text(f"epoch,step,val_loss\n0,2,0.5\n{torn}")
    assert read_history(path) == [{"epoch": 0, "step": 2, "val_loss": 0.5}]


def test_numbers_come_back_as_numbers(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text("epoch,lr,val_loss,later\n0,1e-05,nan,\n")
    row = read_history(path)[0]
    assert row["epoch"] == 0
    assert row["lr"] == 1e-5
    assert row["val_loss"] != row["val_loss"]
    assert row["later"] is None
    assert read_history(tmp_path / "none.csv") == []
