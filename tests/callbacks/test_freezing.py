"""Frozen is frozen, at every moment; and a resumed run has the plan of the one that was not."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from project.callbacks import Freezing
from project.checkpoints import load_task
from project.data import Digits
from project.errors import UserError
from project.models import ResNet
from project.runs import Run
from project.tasks import Classification
from project.trainer import Trainer

BODY = ["stem", "blocks"]


def task() -> Classification:
    torch.manual_seed(0)
    return Classification(ResNet(1, 10, width=4, depths=(1, 1), dropout=0.1), list("0123456789"))


def fit(trained: Classification, folder: Path, freezing: Freezing, epochs: int = 2) -> Trainer:
    trainer = Trainer(
        max_epochs=epochs,
        limit_train_batches=3,
        limit_val_batches=1,
        val_check_interval=2,
        check_val_every_n_epoch=None,
        default_root_dir=folder,
        callbacks=[freezing],
        logger=False,
        accelerator="cpu",
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    trainer.fit(trained, datamodule=Digits(batch_size=16))
    return trainer


def state(trained: Classification) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in trained.network.state_dict().items()}


def changed(before: dict[str, Tensor], after: dict[str, Tensor]) -> set[str]:
    return {name for name in before if not torch.equal(before[name], after[name])}


def test_nothing_of_a_frozen_part_changes(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    trained = task()
    before = state(trained)
    trainer = fit(trained, tmp_path, Freezing(BODY))
    assert changed(before, state(trained)) == {"head.3.weight", "head.3.bias"}
    groups = trainer.optimizers[0].param_groups
    assert sum(p.numel() for group in groups for p in group["params"]) == 8 * 10 + 10
    assert all(p.grad is None for p in trained.network.blocks.parameters())
    total = sum(p.numel() for p in trained.network.parameters())
    said = f"epoch 1: 90 of {total:,} parameters are trained.*6 BatchNorm layers keep their stat"
    assert re.search(said, capsys.readouterr().out)


def test_without_the_callback_the_statistics_drift(tmp_path: Path) -> None:
    trained = task()
    trained.network.stem.requires_grad_(False)
    before = state(trained)
    fit(trained, tmp_path, Freezing())
    stem = {name for name in changed(before, state(trained)) if name.startswith("stem")}
    assert stem == {"stem.1.running_mean", "stem.1.running_var", "stem.1.num_batches_tracked"}


class Modes(Freezing):
    """Remembers the modes in which each batch was trained, whatever others do to them."""

    def on_train_epoch_start(self, trainer: Trainer, pl_module: Classification) -> None:
        super().on_train_epoch_start(trainer, pl_module)
        pl_module.train()  # as code does that means well

    def on_before_zero_grad(self, trainer: Trainer, pl_module: Classification, *_: object) -> None:
        network = pl_module.network
        modes = (network.stem[1].training, network.blocks.training, network.head.training)
        self.seen = [*getattr(self, "seen", []), modes]


def test_frozen_parts_are_in_evaluation_mode_in_every_step(tmp_path: Path) -> None:
    freezing = Modes(BODY, unfreeze={1: ["blocks"]})
    fit(task(), tmp_path, freezing)
    assert freezing.seen == 3 * [(False, False, True)] + 3 * [(False, True, True)]


def test_batch_norm_stays_frozen_when_its_part_is_unfrozen(tmp_path: Path) -> None:
    trained = task()
    before = state(trained)
    fit(trained, tmp_path, Freezing(BODY, unfreeze={0: BODY}))
    moved = changed(before, state(trained))
    assert not [name for name in moved if "running" in name or "tracked" in name]
    assert {"stem.0.weight", "stem.1.weight"} <= moved


def test_batch_norm_adapts_while_its_part_is_frozen(tmp_path: Path) -> None:
    trained = task()
    before = state(trained)
    fit(trained, tmp_path, Freezing(BODY, batch_norm="adapt"))
    moved = changed(before, state(trained))
    assert {"stem.1.running_mean", "stem.1.running_var", "stem.1.weight", "stem.1.bias"} <= moved
    assert not {n for n in moved if before[n].ndim == 4}  # no convolution


@pytest.mark.slow
def test_group_norm_replaces_batch_norm_and_survives_loading(
    command: Callable[..., int], latest: Callable[[], Run], capsys: pytest.CaptureFixture
) -> None:
    small = ["--config", "configs/digits.yaml", "--model.network.width", "4",
             "--trainer.limit_train_batches", "2", "--trainer.max_epochs", "1"]  # fmt: skip
    options = ["--freezing.freeze", "[stem, blocks]", "--freezing.batch_norm", "groupnorm"]
    assert command("fit", *small, *options) == 0
    assert "9 BatchNorm layers are now GroupNorm" in capsys.readouterr().out
    path = latest().checkpoint("best")
    norms = [m for m in load_task(path).network.modules() if isinstance(m, nn.GroupNorm)]
    assert len(norms) == 9
    assert command("test", "--ckpt_path", str(path)) == 0
    assert command("fit", "--resume", str(latest().path), "--trainer.max_epochs", "2") == 0
    assert command("fit", *small, "--init_from", str(path)) == 0  # it becomes a network like that


def run(command: Callable[..., int], *options: str) -> int:
    return command(
        "fit", "--config", "configs/digits.yaml", "--model.network.width", "4",
        "--model.network.dropout", "0.2", "--model.schedule", "null", "--data.batch_size", "16",
        "--trainer.limit_train_batches", "4", "--trainer.limit_val_batches", "2",
        "--trainer.max_epochs", "3", "--checkpoint.every_n_steps", "1",
        "--run.test_after_fit", "false", *options,
    )  # fmt: skip


PLAN = ["--freezing.freeze", "[stem, blocks]", "--freezing.unfreeze", "{1: [blocks.2]}",
        "--freezing.lr_factors", "{blocks: 0.1}"]  # fmt: skip


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Run:
    from project.cli import main

    folder = tmp_path_factory.mktemp("runs")
    assert (
        run(lambda *args: main([*args, "--run.root", str(folder)]), *PLAN, "--run.name", "u") == 0
    )
    return Run(folder / "digits" / "u")


class PowerCutError(Exception):
    pass


@pytest.mark.slow
@pytest.mark.parametrize("step", [2, 4, 6, 8])  # 4 steps an epoch; unfrozen after the fourth
def test_resumed_anywhere_equals_uninterrupted(
    command: Callable[..., int],
    latest: Callable[[], Run],
    uninterrupted: Run,
    monkeypatch: pytest.MonkeyPatch,
    step: int,
) -> None:
    original = Classification.training_step

    def cut(self: Classification, batch: dict, batch_idx: int) -> Tensor:
        if self.global_step == step:
            raise PowerCutError
        return original(self, batch, batch_idx)

    with monkeypatch.context() as patch:
        patch.setattr(Classification, "training_step", cut)
        with pytest.raises(PowerCutError):
            run(command, *PLAN)
    assert command("fit", "--resume", str(latest().path)) == 0
    expected, got = (
        torch.load(each.checkpoint("last"), weights_only=True) for each in (uninterrupted, latest())
    )
    for name, value in expected["state_dict"].items():
        assert torch.equal(value, got["state_dict"][name]), name
    first, second = (c["optimizer_states"][0]["state"] for c in (expected, got))
    assert first.keys() == second.keys()
    for number, values in first.items():
        assert all(torch.equal(values[k], second[number][k]) for k in values)
    assert latest().history == uninterrupted.history


def test_rates_by_part_are_logged_and_zero_while_frozen(uninterrupted: Run) -> None:
    rows = uninterrupted.history
    assert [row["lr"] for row in rows] == [0.003, 0.003, 0.003]
    assert [row["lr_blocks"] for row in rows] == [0.0, 0.0003, 0.0003]


def test_the_unfreezing_changed_what_it_should(uninterrupted: Run) -> None:
    saved = torch.load(uninterrupted.checkpoint("last"), weights_only=True)
    numbers = [len(group["params"]) for group in saved["optimizer_states"][0]["param_groups"]]
    assert sum(numbers) == len(saved["optimizer_states"][0]["state"]) == 11  # blocks.2 and the head
    assert set(saved["parameter_groups"]) == {
        "weights", "no_decay", "blocks.weights", "blocks.no_decay"
    }  # fmt: skip


@pytest.mark.slow
def test_resume_with_another_epoch_works_and_with_another_part_is_refused(
    command: Callable[..., int], uninterrupted: Run, capsys: pytest.CaptureFixture
) -> None:
    more = ["--resume", str(uninterrupted.path), "--trainer.max_epochs", "4"]
    for changes, name in [
        (["--freezing.freeze", "[]", "--freezing.unfreeze", "{}"], "blocks.0.residual.0.weight"),
        (["--freezing.lr_factors", "{}"], "blocks.2.residual.0.weight"),
    ]:
        assert command("fit", *more, *changes) == 2
        said = capsys.readouterr().err
        assert f"such as {name}, which was in the group" in said
        assert "the run's own settings of freezing" in said
    assert command("fit", *more, "--freezing.unfreeze", "{2: [blocks.2]}") == 0
    assert "freezing.unfreeze" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"unfreeze": {1: ["stem"]}}, r"unfreeze is \{1: \['stem'\]\}.*freeze is empty"),
        ({"batch_norm": "adapt"}, r"batch_norm is 'adapt'.*freeze is empty"),
        ({"freeze": ["stem"], "unfreeze": {-1: ["stem"]}}, r"epoch -1; epochs count from 0"),
        ({"lr_factors": {"stem": 0.0}}, r"0\.0 for 'stem'; a factor is above 0"),
    ],
)
def test_settings_that_can_not_be_meant(wrong: dict, said: str) -> None:
    with pytest.raises(UserError, match=said):
        Freezing(**wrong)


def test_freezing_everything_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"freeze is \['\*'\].*nothing to train in the first epoch"):
        fit(task(), tmp_path, Freezing(["*"], unfreeze={1: ["*"]}))


def test_a_wrong_name_is_an_error_before_training(
    command: Callable[..., int], capsys: pytest.CaptureFixture
) -> None:
    assert run(command, "--freezing.freeze", "[body]") == 2
    said = capsys.readouterr().err
    assert "freezing.freeze has 'body'" in said
    assert "blocks" in said
