"""The command line: its traps are absorbed, its mistakes are explained."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml
from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback

from project.cli import main
from project.cli.arguments import Arguments, find_config
from project.errors import UserError, suggestion
from project.runs import Run
from tests.conftest import ROOT, TINY

DIGITS = ["--config", "configs/digits.yaml", "--model.network.width", "4", *TINY]

Command = Callable[..., int]
Latest = Callable[[], Run]


def test_unknown_verb_names_the_nearest(capsys: pytest.CaptureFixture) -> None:
    assert main(["fti"]) == 2
    said = capsys.readouterr().err
    assert "'fti'" in said
    assert "'fit'" in said


def test_missing_config_lists_where_it_was_sought(capsys: pytest.CaptureFixture) -> None:
    assert main(["fit", "--config", "configs/digit.yaml"]) == 2
    said = capsys.readouterr().err
    assert str(ROOT / "configs" / "digit.yaml") in said
    assert "Did you mean 'configs/digits.yaml'?" in said


def test_config_is_found_from_another_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_config("configs/digits.yaml") == ROOT / "configs" / "digits.yaml"
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "digits.yaml").write_text("{}")
    assert find_config("configs/digits.yaml") == tmp_path / "configs" / "digits.yaml"


def test_a_typed_option_wins_wherever_it_stands() -> None:
    arguments = Arguments(
        ["fit", "--trainer.max_epochs", "3", "--config", "configs/digits.yaml", "--resume"]
    )
    assert arguments.options == ["--trainer.max_epochs", "3"]
    assert arguments.option("--trainer.max_epochs") == "3"
    assert arguments.resume == "latest"
    assert arguments.configs == [ROOT / "configs" / "digits.yaml"]


def test_resume_goes_with_fit_only() -> None:
    with pytest.raises(UserError, match="--resume goes with fit, not with test"):
        Arguments(["test", "--resume"])


def test_suggestion_ignores_case() -> None:
    assert suggestion("resnet", ["ResNet", "Backbone"]) == (
        " Did you mean 'ResNet'? Allowed: Backbone, ResNet."
    )
    assert suggestion("qqq", ["ResNet"]) == " Allowed: ResNet."


def test_suggestion_lists_the_nearest_of_many() -> None:
    said = suggestion("resnet17", [f"resnet{n}" for n in range(50)])
    assert said.startswith(" Did you mean 'resnet17'?")
    assert said.endswith(" and 38 more.")


@pytest.mark.slow
def test_an_overlay_keeps_the_house_callbacks(
    command: Command, latest: Latest, tmp_path: Path
) -> None:
    overlay = tmp_path / "overlay.yaml"
    overlay.write_text(
        "trainer:\n  callbacks:\n    - class_path: lightning.pytorch.callbacks.Timer\n"
    )
    options = ["--config", str(overlay), "--checkpoint.monitor", "val_loss"]
    assert command("fit", *DIGITS, *options) == 0
    run = latest()
    assert run.checkpoint("best").is_file()
    assert run.checkpoint("last").is_file()
    assert (run.path / "metrics.csv").is_file()
    assert run.config["checkpoint"]["monitor"] == "val_loss"
    assert "best_val_loss" in run.metrics["fit"]


@pytest.mark.slow
def test_seed_zero_is_a_seed_and_runs_repeat(command: Command, latest: Latest) -> None:
    results = []
    for seed in ("0", "0", "1"):
        assert command("fit", *DIGITS, "--seed_everything", seed) == 0
        results.append(latest().metrics["test"]["test_loss"])
        assert latest().environment["seed"] == int(seed)
    assert results[0] == results[1] != results[2]


@pytest.mark.slow
def test_typed_value_beats_the_checkpoint(command: Command, latest: Latest) -> None:
    assert command("fit", *DIGITS, "--model.optimizer.lr", "0.5") == 0
    checkpoint = str(latest().checkpoint("last"))
    options = ["--ckpt_path", checkpoint, "--trainer.max_epochs", "2"]
    assert command("fit", *DIGITS, *options, "--model.optimizer.lr", "0.1") == 0
    run = latest()
    assert run.checkpoint("last") != Path(checkpoint)
    assert run.config["model"]["init_args"]["optimizer"]["init_args"]["lr"] == 0.1
    state = torch.load(run.checkpoint("last"), weights_only=True)
    group = state["optimizer_states"][0]["param_groups"][0]
    assert group["initial_lr"] == 0.1
    assert group["lr"] <= 0.1
    assert state["epoch"] == 1


class Halved(Callback):
    """Moves the learning rate by itself, as a user's callback may."""

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        for group in trainer.optimizers[0].param_groups:
            group["lr"] /= 2


@pytest.mark.slow
def test_a_rate_that_a_callback_moved_is_kept_on_resume(command: Command, latest: Latest) -> None:
    options = [*DIGITS, "--model.schedule", "null", "--trainer.callbacks+=tests.test_cli.Halved"]
    assert command("fit", *options) == 0
    assert command("fit", *options, "--resume", "latest", "--trainer.max_epochs", "3") == 0
    # each row has the rate of its epoch; halved after every one of them
    assert [row["lr"] for row in latest().history] == [0.003, 0.0015, 0.00075]


@pytest.mark.slow
def test_network_comes_from_the_checkpoint(command: Command, latest: Latest) -> None:
    assert command("fit", *DIGITS, "--model.network.width", "6") == 0
    # the config says another width, and so it would not fit
    assert command("test", "--config", "configs/digits.yaml", *TINY) == 0
    assert command("test", "--ckpt_path", str(latest().path), *TINY) == 0


@pytest.mark.slow
def test_best_and_last_are_found_in_a_new_process(
    command: Command, latest: Latest, capsys: pytest.CaptureFixture
) -> None:
    assert command("fit", *DIGITS) == 0
    for which in ("best", "last"):
        assert command("test", *DIGITS[:2], "--ckpt_path", which, *TINY) == 0
        assert str(latest().checkpoint(which)) in capsys.readouterr().err


def test_test_without_a_trained_model_says_what_to_do(
    command: Command, capsys: pytest.CaptureFixture
) -> None:
    assert command("test", "--config", "configs/digits.yaml") == 2
    assert "Train one with fit first" in capsys.readouterr().err


def test_optimizer_and_schedule_reach_the_logs(command: Command, latest: Latest) -> None:
    assert command("fit", *DIGITS) == 0
    logged = yaml.safe_load((latest().path / "hparams.yaml").read_text())
    assert logged["model.optimizer.lr"] == 0.003
    assert logged["model.schedule.class_path"] == "project.optim.Cosine"


@pytest.mark.slow
def test_saved_config_runs_every_verb(command: Command, latest: Latest) -> None:
    assert command("fit", *DIGITS) == 0
    first = latest()
    saved = str(first.path / "config.yaml")
    fitted = first.metrics["test"]
    for verb in ("test", "validate", "predict"):
        assert command(verb, "--config", saved, "--ckpt_path", str(first.path)) == 0
    assert command("fit", "--config", saved) == 0
    again = latest()
    assert again.path != first.path
    assert again.metrics["test"] == fitted
    assert {**again.config, "run": None} == {**first.config, "run": None}


@pytest.mark.slow
def test_finished_run_says_so(
    command: Command, latest: Latest, capsys: pytest.CaptureFixture
) -> None:
    assert command("fit", *DIGITS) == 0
    assert command("fit", *DIGITS, "--resume", "latest") == 2
    said = capsys.readouterr().err
    assert "epoch 1 of 1" in said
    assert "--trainer.max_epochs" in said
    assert command("fit", *DIGITS, "--resume", "--trainer.max_epochs", "2") == 0
    assert len((latest().path / "metrics.csv").read_text().splitlines()) == 3
    assert len(latest().environment["resumed"]) == 1
    stored = torch.load(latest().checkpoint("last"), weights_only=True)
    assert stored["versions"] == latest().environment["packages"]
    assert stored["config"]["trainer"]["max_epochs"] == 2


@pytest.mark.slow
def test_resume_keeps_what_was_typed_and_heeds_what_changed_in_the_file(
    command: Command, latest: Latest, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    text = (ROOT / "configs" / "digits.yaml").read_text()
    config = tmp_path / "digits.yaml"
    config.write_text(text.replace("max_epochs: 20", "max_epochs: 1"))
    limits = ["--trainer.limit_train_batches", "2", "--model.network.width", "4"]
    assert command("fit", "--config", str(config), *limits) == 0
    # the file says width 32, the run was made with 4; the file's number of epochs is new
    config.write_text(text.replace("max_epochs: 20", "max_epochs: 2"))
    assert command("fit", "--config", str(config), "--resume", "latest") == 0
    said = capsys.readouterr().err
    assert "changed since the run began: trainer.max_epochs 1 → 2" in said
    assert "width" not in said.partition("changed since")[2]
    run = latest()
    assert run.config["model"]["init_args"]["network"]["init_args"]["width"] == 4
    assert run.config["trainer"]["limit_train_batches"] == 2
    assert [row["epoch"] for row in run.history] == [0, 1]


@pytest.mark.slow
def test_weights_that_do_not_fit_are_listed_and_the_record_is_kept(
    command: Command, latest: Latest, capsys: pytest.CaptureFixture
) -> None:
    assert command("fit", *DIGITS) == 0
    before = (latest().path / "config.yaml").read_text()
    options = ["--resume", "latest", "--trainer.max_epochs", "2", "--model.network.width", "8"]
    assert command("fit", *DIGITS, *options) == 2
    said = capsys.readouterr().err
    assert "of another shape: network.stem.0.weight [4, 1, 3, 3] in the file, [8, 1, 3, 3]" in said
    assert "another width, depth or number of classes" in said
    assert (latest().path / "config.yaml").read_text() == before


@pytest.mark.slow
def test_the_progress_bar_can_be_switched_off(command: Command) -> None:
    assert command("fit", *DIGITS, "--trainer.enable_progress_bar", "false") == 0


@pytest.mark.slow
def test_export_after_fit(command: Command, latest: Latest) -> None:
    assert command("fit", *DIGITS, "--run.export_after_fit", "true") == 0
    contract = json.loads((latest().path / "export" / "contract.json").read_text())
    assert contract["formats"]["onnx"]["file"] == "model.onnx"


def test_nothing_trained_is_an_error(command: Command, capsys: pytest.CaptureFixture) -> None:
    options = ["--trainer.limit_train_batches", "0.01"]
    assert command("fit", *DIGITS, *options) == 2
    assert "limit_train_batches" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--trainer.max_steps 0", "trainer.max_steps is 0: nothing would be trained"),
        ("--trainer.accumulate_grad_batches 0", "trainer.accumulate_grad_batches is 0"),
        ("--trainer.check_val_every_n_epoch 0", "trainer.check_val_every_n_epoch is 0"),
        ("--trainer.val_check_interval 0", "trainer.val_check_interval is 0"),
        ("--trainer.gradient_clip_val -1", "trainer.gradient_clip_val is -1"),
        ("--trainer.log_every_n_steps 0", "trainer.log_every_n_steps is 0"),
        ("--seed_everything -1", "seed_everything is -1; a seed is from 0"),
        ("--model.optimizer.lr -1", "model.optimizer can't be made: Invalid learning rate: -1"),
    ],
)
def test_a_setting_that_can_not_be_is_refused_before_training(
    command: Command, capsys: pytest.CaptureFixture, tmp_path: Path, option: str, said: str
) -> None:
    assert command("fit", *DIGITS, *option.split()) == 2
    assert said in capsys.readouterr().err
    assert not list((tmp_path / "runs").glob("digits/2*"))


@pytest.mark.slow
def test_settings_of_another_data_set_are_none_of_this(
    command: Command, capsys: pytest.CaptureFixture, latest: Latest
) -> None:
    texts = ["--config", "configs/texts.yaml", "--model.network.width", "4"]
    assert command("fit", *texts, *TINY) == 0
    run = str(latest().path)
    capsys.readouterr()
    assert command("test", "--config", "configs/tabular.yaml", "--ckpt_path", run) == 2
    assert "class_names" in capsys.readouterr().err  # and not that data.file is no option
    assert command("fit", "--config", "configs/tabular.yaml", "--resume", run) == 2
    assert "was trained with project.tasks.Classification" in capsys.readouterr().err
    narrower = ["--data.vocabulary.min_count", "300"]
    assert command("test", "--ckpt_path", run, *narrower) == 2
    assert "num_tokens" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_that_made_its_steps_says_so(
    command: Command, capsys: pytest.CaptureFixture, latest: Latest
) -> None:
    assert command("fit", *DIGITS, "--trainer.max_steps", "2") == 0
    assert command("fit", "--resume", str(latest().path), "--trainer.max_epochs", "9") == 2
    assert "finished: step 2 of 2" in capsys.readouterr().err


@pytest.mark.slow
def test_a_mistake_leaves_no_run_behind(command: Command, latest: Latest, tmp_path: Path) -> None:
    assert command("fit", *DIGITS) == 0
    first = latest().path
    for wrong in (["--checkpoint.monitor", "val_accurcy"], ["--trainer.devices", "two"],
                  ["--model.network", "Backbone", "--model.network.name", "resnet17"]):  # fmt: skip
        assert command("fit", *DIGITS, *wrong) == 2
    assert latest().path == first
    assert (first.parent / "latest").resolve() == first
    assert {path.name for path in first.parent.iterdir()} == {first.name, "latest"}


def test_fast_dev_run_writes_nothing(command: Command, tmp_path: Path) -> None:
    assert command("fit", *DIGITS, "--trainer.fast_dev_run", "true") == 0
    assert not (tmp_path / "runs").exists()


def test_environment_is_recorded(command: Command, latest: Latest) -> None:
    assert command("fit", *DIGITS) == 0
    record = latest().environment
    assert record["packages"]["torch"] == torch.__version__.partition("+")[0]
    assert record["command"].startswith("python -m project fit --config configs/digits.yaml")
    assert set(record) >= {"seed", "git", "python", "started"}


@pytest.mark.slow
def test_from_another_directory_as_a_user_would(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "project", "fit", *DIGITS, "--run.root", str(tmp_path / "r")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "Warning" not in done.stderr
    run = next((tmp_path / "r" / "digits").glob("2*"))
    assert json.loads((run / "metrics.json").read_text())["fit"]["epochs"] == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r"]  # nothing lies about
