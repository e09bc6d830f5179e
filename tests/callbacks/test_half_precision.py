"""Half precision says what it does."""

from pathlib import Path

import pytest

from project.callbacks import Checkpoint, HalfPrecision
from project.checkpoints import read_checkpoint
from tests.training import batches, fit, fp16, task


def test_it_says_what_stays_in_float32(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    fit(task(), batches(4), tmp_path, HalfPrecision(), plugins=[fp16()])
    said = capsys.readouterr().out
    assert "16-mixed: in float32 are weights and optimizer, cross-entropy" in said


def test_it_is_silent_where_there_is_nothing_to_say(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    fit(task(), batches(4), tmp_path / "float32", HalfPrecision())
    assert "float32" not in capsys.readouterr().out
    fit(task(), batches(4, 4), tmp_path / "half", HalfPrecision(), plugins=[fp16(1.0)])
    assert "loss scaler" not in capsys.readouterr().out


def test_scale_and_count_survive_a_resume(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    scale = 2.0**18
    for epochs, resume in ((1, False), (2, True)):
        trainer = fit(
            task(),
            batches(*[4] * 12),
            tmp_path,
            HalfPrecision(),
            checkpoint=Checkpoint(),
            plugins=[fp16(scale)],
            max_epochs=epochs,
            resume=resume,
        )
        if not resume:
            scale = 2.0**30  # of the new process, which the checkpoint's beats
    kept = read_checkpoint(tmp_path / "checkpoints" / "last.ckpt")["MixedPrecision"]
    assert kept["scale"] == trainer.precision_plugin.scaler.get_scale() <= 2.0**18
