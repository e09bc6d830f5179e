"""A run killed anywhere and resumed ends as if nothing had happened.

Each run is a process of its own, forked from this one so that nothing is imported again; a kill is
a SIGKILL at a random moment, which may be within a step, a validation or a save.
"""

import contextlib
import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import lightning as L
import pytest
import torch

from project.callbacks import Record
from project.cli import main
from project.runs import Run
from tests.conftest import OFFLINE_CONFIGS

SECONDS = 3.0
"""A run takes about so long; kills fall anywhere within."""

VARIANTS = {
    "plain": [],
    "accumulated": ["--trainer.accumulate_grad_batches", "2"],
    "validated within the epoch": ["--trainer.val_check_interval", "3"],
    "validated every other epoch": ["--trainer.check_val_every_n_epoch", "2"],
    "all of training's habits": [
        "--trainer.accumulate_grad_batches", "2", "--trainer.val_check_interval", "3",
        "--model.schedule", "Plateau", "--model.schedule.patience", "0",
        "--model.schedule.monitor", "val_loss", "--model.schedule.warmup_fraction", "0.2",
        "--clipping.max_norm", "0.5", "--ema.decay", "0.9"],
    "workers": ["--data.loader.num_workers", "2"],
    "clipped, momentum": ["--trainer.gradient_clip_val", "0.5", "--model.optimizer",
                          "torch.optim.SGD", "--model.optimizer.momentum", "0.9"],
}  # fmt: skip
OPTIONS = [
    "--trainer.max_epochs", "4", "--trainer.limit_train_batches", "7",
    "--trainer.limit_val_batches", "2", "--checkpoint.every_n_steps", "2",
    "--checkpoint.keep_top", "2", "--run.test_after_fit", "false", "--run.name", "run",
]  # fmt: skip
NETWORK = ["--model.network.width", "4", "--model.network.dropout", "0.2"]


def _child(args: list[str], log: Path, hook: str | None, step: int, number: int) -> None:
    if hook:
        sent = []

        def kill(self: Record, trainer: L.Trainer, *_: object) -> None:
            if trainer.global_step >= step and not trainer.sanity_checking and not sent:
                sent.append(step)
                os.kill(os.getpid(), number)

        setattr(Record, hook, kill)
    sys.stdout = sys.stderr = log.open("a", buffering=1)
    os.setpgid(0, 0)  # a group of its own, so that a kill takes its workers along
    os._exit(main(args))


def start(
    folder: Path,
    config: Path,
    *options: str,
    hook: str | None = None,
    step: int = 0,
    number: int = signal.SIGKILL,
) -> multiprocessing.Process:
    """Start `fit` in a process of its own; `--resume auto` begins a run or goes on with it.

    With a hook, the process sends itself a signal there, once so many optimizer steps are done.
    """
    folder.mkdir(exist_ok=True)
    args = ["fit", "--config", str(config), "--resume", "auto", *OPTIONS, *options]
    args += ["--run.root", str(folder)]
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_child, args=(args, folder / "log.txt", hook, step, number))
    process.start()
    return process


def finish(folder: Path, config: Path, *options: str) -> Run:
    process = start(folder, config, *options)
    process.join(120)
    assert process.exitcode == 0, (folder / "log.txt").read_text()
    return Run(folder / config.stem / "run")


def kill_after(process: multiprocessing.Process, seconds: float) -> None:
    time.sleep(seconds)
    with contextlib.suppress(ProcessLookupError):  # it may have ended by itself
        os.killpg(process.pid, signal.SIGKILL)
    process.join(60)


def load(run: Run, name: str) -> dict:
    return torch.load(run.path / "checkpoints" / name, weights_only=True)


def assert_same(expected: Run, got: Run) -> None:
    """Bitwise the same weights, optimizer states, metrics and kept checkpoints."""
    names = sorted(path.name for path in (expected.path / "checkpoints").iterdir())
    assert names == sorted(path.name for path in (got.path / "checkpoints").iterdir())
    for name in names:
        first, second = load(expected, name), load(got, name)
        assert first["global_step"] == second["global_step"]
        for key, value in first["state_dict"].items():
            assert torch.equal(value, second["state_dict"][key]), (name, key)
        for key, state in first["optimizer_states"][0]["state"].items():
            other = second["optimizer_states"][0]["state"][key]
            assert all(v is None or torch.equal(v, other[k]) for k, v in state.items()), (name, key)
        assert first["lr_schedulers"] == second["lr_schedulers"]
        for key, value in first.get("ema", {}).get("weights", {}).items():
            assert torch.equal(value, second["ema"]["weights"][key]), (name, key)
    assert (expected.path / "metrics.csv").read_bytes() == (got.path / "metrics.csv").read_bytes()


DIGITS = Path("configs/digits.yaml")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """The run of a variant that nobody disturbed."""

    @cache
    def make(variant: str) -> Run:
        return finish(tmp_path_factory.mktemp("whole"), DIGITS, *NETWORK, *VARIANTS[variant])

    return make


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("variant", VARIANTS)
def test_killed_at_random_moments(
    tmp_path: Path, uninterrupted: Callable[[str], Run], variant: str, seed: int
) -> None:
    config, options = DIGITS, [*NETWORK, *VARIANTS[variant]]
    expected = uninterrupted(variant)
    process = start(tmp_path / "killed", config, *options)
    kill_after(process, random.Random(f"{variant} {seed}").uniform(0.3, SECONDS))
    assert_same(expected, finish(tmp_path / "killed", config, *options))


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["plain", "validated within the epoch"])
@pytest.mark.parametrize(
    ("hook", "step"),
    [
        ("on_train_batch_end", 4),
        ("on_validation_batch_end", 6),  # a step after which a checkpoint is due, and a validation
        ("on_validation_end", 6),
        ("on_train_epoch_end", 14),
    ],
)
def test_killed_where_it_hurts(
    tmp_path: Path, uninterrupted: Callable[[str], Run], variant: str, hook: str, step: int
) -> None:
    options = [*NETWORK, *VARIANTS[variant]]
    process = start(tmp_path, DIGITS, *options, hook=hook, step=step)
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    assert_same(uninterrupted(variant), finish(tmp_path, DIGITS, *options))


@pytest.mark.slow
def test_killed_between_two_batches_of_a_window(
    tmp_path: Path, uninterrupted: Callable[[str], Run]
) -> None:
    options = [*NETWORK, *VARIANTS["all of training's habits"]]
    # the validation after batch 3 lies in a window of two batches, and writes a checkpoint
    process = start(tmp_path, DIGITS, *options, hook="on_train_batch_end", step=2)
    process.join(120)
    kept = load(Run(tmp_path / "digits" / "run"), "last.ckpt") if process.exitcode else {}
    assert kept["global_step"] == 1
    assert kept["window"]["gradients"]
    assert_same(uninterrupted("all of training's habits"), finish(tmp_path, DIGITS, *options))


@pytest.mark.slow
@pytest.mark.parametrize("config", OFFLINE_CONFIGS, ids=str)
def test_every_config_resumes_exactly(tmp_path: Path, config: Path) -> None:
    expected = finish(tmp_path / "uninterrupted", config)
    moments = random.Random(str(config))
    for _ in range(2):
        kill_after(start(tmp_path / "killed", config), moments.uniform(0.5, SECONDS))
    assert_same(expected, finish(tmp_path / "killed", config))


@pytest.mark.slow
def test_other_numbers_of_workers_go_on_the_same(
    tmp_path: Path, uninterrupted: Callable[[str], Run]
) -> None:
    workers = [*NETWORK, "--data.loader.num_workers"]
    kill_after(start(tmp_path / "killed", DIGITS, *workers, "2"), 2.0)
    assert_same(uninterrupted("plain"), finish(tmp_path / "killed", DIGITS, *workers, "0"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGUSR1"])
def test_a_signal_saves_says_how_to_go_on_and_loses_nothing(tmp_path: Path, name: str) -> None:
    config, number = Path("configs/digits.yaml"), getattr(signal, name)
    rarely = [*NETWORK, "--checkpoint.every_n_steps", "1000000"]
    expected = finish(tmp_path / "uninterrupted", config, *rarely)
    process = start(
        tmp_path / "stopped", config, *rarely, hook="on_train_batch_start", step=9, number=number
    )
    run = Run(tmp_path / "stopped" / "digits" / "run")
    process.join(60)
    assert process.exitcode == 128 + number
    said = (tmp_path / "stopped" / "log.txt").read_text()
    assert f"fit --resume {run.shown()}" in said
    assert "Traceback" not in said
    assert_same(expected, finish(tmp_path / "stopped", config, *rarely))


@pytest.mark.slow
def test_sigusr1_puts_a_slurm_job_back_into_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/called\n')
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_ID", "42")
    config = Path("configs/digits.yaml")
    process = start(
        tmp_path / "runs",
        config,
        *NETWORK,
        hook="on_validation_batch_end",
        step=7,
        number=signal.SIGUSR1,
    )
    process.join(60)
    assert process.exitcode == 128 + signal.SIGUSR1
    assert (tmp_path / "called").read_text() == "requeue 42\n"
    assert len(finish(tmp_path / "runs", config, *NETWORK).history) == 4  # as SLURM would


@pytest.mark.slow
def test_a_damaged_last_checkpoint_is_named_and_the_best_is_offered(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["project"])
    config = Path("configs/digits.yaml")
    run = finish(tmp_path / "runs", config, *NETWORK)
    last = run.checkpoint("last")
    content = last.read_bytes()
    last.unlink()
    last.write_bytes(content[: len(content) // 2])
    resume = [
        "fit",
        "--config",
        str(config),
        "--resume",
        str(run.path),
        "--trainer.max_epochs",
        "6",
    ]
    assert main([*resume]) == 2
    said = capsys.readouterr().err
    assert "last.ckpt can't be read" in said
    assert f"--resume {run.shown()} --ckpt_path best" in said
    assert main([*resume, "--ckpt_path", "best"]) == 0
    assert [row["epoch"] for row in run.history] == list(range(6))


@pytest.mark.slow
def test_resume_auto_of_a_finished_run_is_no_error(tmp_path: Path) -> None:
    for _ in range(2):
        run = finish(tmp_path, DIGITS, *NETWORK)
    assert "is finished: epoch 4 of 4" in (tmp_path / "log.txt").read_text()
    assert len(run.history) == 4


def test_resume_auto_needs_a_name(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--config", "configs/digits.yaml", "--resume", "auto"]
    assert main(["fit", *options, "--run.root", str(tmp_path)]) == 2
    assert "--run.name" in capsys.readouterr().err
