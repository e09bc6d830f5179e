"""Best is the best, last is the last, and neither is ever half a file."""

import math
import shutil
from pathlib import Path

import lightning as L
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from project.callbacks import Checkpoint, History
from project.checkpoints import AtomicCheckpointIO, load_task, read_checkpoint, replacing
from project.errors import UserError
from project.tasks import Classification
from project.trainer import Trainer


class Scripted(Classification):
    """Its validation loss follows a script, one value per epoch."""

    def __init__(self, losses: list[float]) -> None:
        super().__init__(nn.Linear(2, 2), ["a", "b"])
        self.losses = losses

    def forward(self, features: Tensor) -> Tensor:
        return self.network(features)

    def _checked(self, batch: dict) -> tuple[Tensor, Tensor]:
        return self.loss_and_predictions(batch)

    def loss_and_predictions(self, batch: dict) -> tuple[Tensor, Tensor]:
        loss, predictions = super().loss_and_predictions(batch)
        if not self.training:
            loss = torch.tensor(self.losses[self.current_epoch])
        return loss, predictions


def fit(folder: Path, losses: list[float], every: int = 1, **checkpoint: object) -> Checkpoint:
    torch.manual_seed(0)
    batch = {
        "inputs": {"features": torch.randn(4, 2)},
        "target": torch.tensor([0, 1, 0, 1]),
        "index": torch.arange(4),
    }
    loader = DataLoader([batch, batch], batch_size=None)
    callback = Checkpoint(**checkpoint)
    trainer = Trainer(
        max_epochs=len(losses),
        check_val_every_n_epoch=every,
        default_root_dir=folder,
        callbacks=[History(), callback],
        plugins=[AtomicCheckpointIO()],
        logger=False,
        accelerator="cpu",
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    trainer.fit(Scripted(losses), loader, loader)
    return callback


def epoch_in(path: Path) -> int:
    return read_checkpoint(path)["epoch"]


def test_last_is_the_last_after_worsening_epochs(tmp_path: Path) -> None:
    callback = fit(tmp_path, [0.3, 0.2, 0.5, 0.9])
    folder = tmp_path / "checkpoints"
    assert epoch_in(folder / "best.ckpt") == 1
    assert epoch_in(folder / "last.ckpt") == 3
    assert callback.best_value == pytest.approx(0.2)
    assert sorted(path.name for path in folder.iterdir()) == ["best.ckpt", "last.ckpt"]


def test_best_and_last_of_one_epoch_are_stored_once(tmp_path: Path) -> None:
    fit(tmp_path, [0.3, 0.2])
    best, last = (tmp_path / "checkpoints" / f"{name}.ckpt" for name in ("best", "last"))
    assert best.samefile(last)


@pytest.mark.parametrize(
    ("losses", "best"),
    [
        ([math.nan, 0.4, 0.3], 2),
        ([0.4, math.nan, 0.5], 0),
        ([0.4, -math.inf, 0.5], 0),
    ],
)
def test_only_a_finite_value_is_the_best(tmp_path: Path, losses: list[float], best: int) -> None:
    fit(tmp_path, losses)
    assert epoch_in(tmp_path / "checkpoints" / "best.ckpt") == best


def test_never_finite_gives_no_best(tmp_path: Path) -> None:
    callback = fit(tmp_path, [math.nan, math.nan])
    assert callback.best_model_path == ""
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["last.ckpt"]


def test_the_mode_is_the_metrics_own(tmp_path: Path) -> None:
    assert fit(tmp_path, [0.1], monitor="val_accuracy").mode == "max"
    assert fit(tmp_path, [0.1], monitor="val_loss").mode == "min"
    with pytest.raises(UserError, match="of val_accuracy the best is the max"):
        fit(tmp_path, [0.1], monitor="val_accuracy", mode="min")


def test_an_unknown_monitor_is_named_before_training(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'val_acuracy'.*Did you mean 'val_accuracy'"):
        fit(tmp_path, [0.1], monitor="val_acuracy")
    assert not (tmp_path / "checkpoints").exists()


def test_within_an_epoch_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[tuple[str, int]] = []
    save = Trainer.save_checkpoint

    def spy(self: L.Trainer, path: Path, *rest: object) -> None:
        saved.append((Path(path).name, self.global_step))
        save(self, path, *rest)

    monkeypatch.setattr(Trainer, "save_checkpoint", spy)
    fit(tmp_path, [0.2, 0.3], every_n_steps=1)
    assert saved == [("last.ckpt", 1), ("best.ckpt", 2), ("last.ckpt", 3), ("last.ckpt", 4)]
    with pytest.raises(UserError, match="every_n_steps is 0"):
        Checkpoint(every_n_steps=0)


def test_when_so_much_time_has_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10**6, 50))  # each look at the clock is 50 seconds after the last
    monkeypatch.setattr("project.callbacks.checkpointing.time.monotonic", lambda: next(clock))
    saved: list[int] = []
    save = Trainer.save_checkpoint
    monkeypatch.setattr(
        Trainer,
        "save_checkpoint",
        lambda self, *a: (saved.append(self.global_step), save(self, *a)),
    )
    fit(tmp_path, [0.2, 0.3], every_minutes=0.5)
    assert saved == [1, 2, 3, 4]
    with pytest.raises(UserError, match="every_minutes is 0"):
        Checkpoint(every_minutes=0)


@pytest.mark.parametrize(
    ("losses", "kept"),
    [([0.5, 0.2, 0.4, 0.3], [1, 3]), ([0.1, 0.2, math.nan, 0.3], [0, 1]), ([0.3], [0])],
)
def test_the_top_ones_are_kept(tmp_path: Path, losses: list[float], kept: list[int]) -> None:
    fit(tmp_path, losses, keep_top=2)
    names = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    assert names == {"best.ckpt", "last.ckpt", *(f"epoch_{epoch:04d}.ckpt" for epoch in kept)}
    for epoch in kept:
        assert epoch_in(tmp_path / "checkpoints" / f"epoch_{epoch:04d}.ckpt") == epoch
    with pytest.raises(UserError, match="keep_top is -1"):
        Checkpoint(keep_top=-1)


def test_a_full_disk_is_said_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=50)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(UserError, match=r"0 MB free, but 3 checkpoints.*--run\.root"):
        fit(tmp_path, [0.1])
    assert not list((tmp_path / "checkpoints").iterdir())


def test_left_overs_of_a_killed_save_are_removed(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / ".last.ckpt.123.tmp").write_text("half")
    fit(tmp_path, [0.1])
    assert not list((tmp_path / "checkpoints").glob(".*"))


def test_a_failed_save_leaves_the_old_file_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "last.ckpt"
    AtomicCheckpointIO().save_checkpoint({"state_dict": {"w": torch.ones(3)}}, target)

    def disk_full(_: object, file: object) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", disk_full)
    with pytest.raises(OSError, match="No space left"):
        AtomicCheckpointIO().save_checkpoint({"state_dict": {}}, target)
    assert torch.equal(read_checkpoint(target)["state_dict"]["w"], torch.ones(3))
    assert [path.name for path in tmp_path.iterdir()] == ["last.ckpt"]


def test_replacing_takes_the_place_only_on_success(tmp_path: Path) -> None:
    target = tmp_path / "new" / "file.txt"
    with replacing(target) as temporary:
        temporary.write_text("first")
        assert not target.exists()
    assert target.read_text() == "first"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "can't be read as a checkpoint"),
        (b"PK\x03\x04 torn", "can't be read as a checkpoint"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "last.ckpt"
    path.write_bytes(content)
    with pytest.raises(UserError, match=rf"last\.ckpt {said}"):
        read_checkpoint(path)


def test_a_missing_or_foreign_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"There is no checkpoint .*nowhere\.ckpt"):
        read_checkpoint(tmp_path / "nowhere.ckpt")
    torch.save({"weights": torch.ones(1)}, tmp_path / "foreign.ckpt")
    with pytest.raises(UserError, match="holds no 'state_dict'"):
        read_checkpoint(tmp_path / "foreign.ckpt")


class Payload:
    """Pickled, it would make a file when loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return (Path.touch, (self.path,))


def test_a_malicious_file_runs_nothing(tmp_path: Path) -> None:
    evil = tmp_path / "evil.ckpt"
    torch.save({"state_dict": {}, "x": Payload(tmp_path / "owned")}, evil)
    with pytest.raises(UserError, match="never loaded from a file"):
        read_checkpoint(evil)
    assert not (tmp_path / "owned").exists()


def test_a_class_from_elsewhere_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "evil_module.py").write_text("raise SystemExit('imported')")
    hyperparameters = {"_class_path": "project.tasks.Classification", "class_names": ["a", "b"]}
    hyperparameters["network"] = {"class_path": "evil_module.Net", "init_args": {}}
    torch.save({"state_dict": {}, "hyper_parameters": hyperparameters}, tmp_path / "e.ckpt")
    with pytest.raises(UserError, match=r"evil_module\.Net"):
        load_task(tmp_path / "e.ckpt")


@pytest.mark.parametrize("instantiator", ["os.system", "evil_module.make"])
def test_an_instantiator_from_elsewhere_is_not_called(tmp_path: Path, instantiator: str) -> None:
    network = {"class_path": "project.models.ResNet", "init_args": {"in_channels": 1}}
    hyperparameters = {"_class_path": "project.tasks.Classification", "class_names": ["a", "b"]}
    hyperparameters |= {"_instantiator": instantiator, "network": network}
    torch.save({"state_dict": {}, "hyper_parameters": hyperparameters}, tmp_path / "e.ckpt")
    with pytest.raises(UserError, match=f"built by '{instantiator}'"):
        load_task(tmp_path / "e.ckpt")


def test_a_task_made_in_python_says_why_it_cant_be_loaded_alone(tmp_path: Path) -> None:
    fit(tmp_path, [0.1])
    with pytest.raises(UserError, match="does not say how its network is made"):
        load_task(tmp_path / "checkpoints" / "best.ckpt")
