"""The share of waiting is measured, written beside the metrics, and said once."""

import time
from pathlib import Path

import lightning as L
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from project.callbacks import DataWait
from project.callbacks.data_wait import _read
from project.data import Digits

ROW = {"epoch": "0", "steps": "5", "seconds": "1.000", "data_wait_fraction": "0.5000"}


class Slow(Dataset):
    """Samples that take a while to load."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.seconds)
        return torch.ones(2)


class Slower(L.LightningModule):
    """Steps that take a while to compute, and a validation that must count for nothing."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
        self.seconds = seconds

    def training_step(self, batch: torch.Tensor) -> torch.Tensor:
        time.sleep(self.seconds)
        return self.layer(batch).sum()

    def validation_step(self, batch: torch.Tensor) -> None:
        time.sleep(0.1)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.01)


def fit(
    folder: Path, loading: float, computing: float, wait: DataWait, epochs: int = 1, **options
) -> None:
    trainer = L.Trainer(
        default_root_dir=folder, max_epochs=epochs, callbacks=[wait], logger=False,
        enable_progress_bar=False, enable_model_summary=False, accelerator="cpu",
        val_check_interval=2, num_sanity_val_steps=0, **options,
    )  # fmt: skip
    data = Slow(loading)
    trainer.fit(Slower(computing), DataLoader(data), DataLoader(Slow(0), batch_size=5))


@pytest.mark.parametrize(("loading", "computing"), [(0.06, 0.02), (0.02, 0.06)])
def test_the_share_is_that_of_loading(tmp_path: Path, loading: float, computing: float) -> None:
    fit(tmp_path, loading, computing, DataWait())
    (row,) = _read(tmp_path / "timing.csv")
    assert (row["epoch"], row["steps"]) == ("0", "5")
    expected = loading / (loading + computing)
    assert float(row["data_wait_fraction"]) == pytest.approx(expected, abs=0.15)
    assert float(row["seconds"]) == pytest.approx(5 * (loading + computing), abs=0.2)


def test_it_is_said_once_and_only_when_it_matters(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    fit(tmp_path, 0.03, 0.0, DataWait(min_seconds=0.2), epochs=3)
    said = capsys.readouterr().err
    assert said.count("of the training time went by waiting for data") == 1
    assert "--data.loader.num_workers" in said
    assert "python -m project tune" in said
    fit(tmp_path, 0.03, 0.0, DataWait(min_seconds=60.0))
    fit(tmp_path, 0.0, 0.03, DataWait(min_seconds=0.0))
    assert "waiting" not in capsys.readouterr().err


def test_the_advice_names_what_this_data_has(monkeypatch: pytest.MonkeyPatch) -> None:
    from project.callbacks.data_wait import _advice

    trainer = L.Trainer(logger=False, enable_checkpointing=False, accelerator="cpu")
    trainer.datamodule = Digits()
    assert "num_workers (now 0);" in _advice(trainer, 0.5)
    trainer.datamodule.cache = "none"
    assert "num_workers (now 0), or --data.cache memory or disk;" in _advice(trainer, 0.5)


def test_a_resume_keeps_the_rows_before_and_a_fresh_run_starts_anew(tmp_path: Path) -> None:
    path = tmp_path / "timing.csv"

    def begun(epoch: int) -> list[dict[str, str]]:
        wait = DataWait()
        trainer = L.Trainer(default_root_dir=tmp_path, logger=False, accelerator="cpu")
        trainer.fit_loop.epoch_progress.current.processed = epoch
        trainer.fit_loop.epoch_progress.current.completed = epoch
        wait.on_train_start(trainer, L.LightningModule())
        return _read(path)

    lines = [",".join(ROW), *(",".join({**ROW, "epoch": str(n)}.values()) for n in range(3)), "3,5"]
    path.write_text("\n".join(lines))  # the last line was cut off while it was written
    assert begun(2) == [ROW, {**ROW, "epoch": "1"}]
    assert begun(0) == []


def test_nothing_is_written_in_a_trial_run(tmp_path: Path) -> None:
    fit(tmp_path, 0.0, 0.0, DataWait(), fast_dev_run=True)
    assert not (tmp_path / "timing.csv").exists()
