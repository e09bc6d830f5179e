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


def test_an_epoch_without_validation_has_no_validation_metrics(tmp_path: Path) -> None:
    callback = fit(tmp_path, [0.5, 0.25, 0.75, 0.125], every=2, keep_top=3)
    rows = Run(tmp_path).history
    assert [row["val_loss"] for row in rows] == [None, 0.25, None, 0.125]
    assert all(row["train_loss"] for row in rows)
    assert callback.best_epoch == 3
    names = {path.name for path in (tmp_path / "checkpoints").glob("epoch*")}
    assert names == {"epoch_0001.ckpt", "epoch_0003.ckpt"}


def test_a_fresh_run_starts_a_fresh_file(tmp_path: Path) -> None:
    fit(tmp_path, [0.5, 0.25])
    fit(tmp_path, [0.75])
    assert [row["val_loss"] for row in Run(tmp_path).history] == [0.75]
