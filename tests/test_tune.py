"""Loader settings measured on the real loader, and put into words that can be typed."""

from pathlib import Path

import pytest
import torch
import yaml
from torch.utils.data import Dataset

from project import tune
from project.cli import main
from project.data import DataModule, Digits, Loader
from project.errors import UserError
from project.tune import Setting, fastest, measure, table


def setting(num_workers: int, rate: float, prefetch_factor: int = 2, cache: str | None = None):
    return Setting(num_workers, prefetch_factor, cache, [rate, rate, rate + 1])


class Cached(DataModule):
    """A data module with a cache that takes note of how it was loaded."""

    def __init__(self, cache: str = "none", refused: bool = False) -> None:
        super().__init__(4, Loader(num_workers=1))
        self.cache, self.refused, self.loads = cache, refused, []
        self.class_names, self.sizes = ["a"], {"num_outputs": 1}

    def load(self) -> dict[str, Dataset]:
        self.loads.append(self.cache)
        if self.refused and self.cache == "memory":
            raise UserError("it does not fit")
        return {"train": Samples()}


class Samples(Dataset):
    """Forty samples."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> dict:
        return {"inputs": {"features": torch.zeros(2)}, "target": 0}


def test_the_fastest_unless_fewer_workers_are_nearly_as_fast() -> None:
    slow, fast, faster = setting(0, 50), setting(2, 100), setting(4, 103)
    assert fastest([slow, fast, faster]) is fast
    assert fastest([slow, faster]) is faster
    assert fastest([setting(0, 99), fast]).num_workers == 0
    uncached, cached = setting(1, 100, cache="none"), setting(1, 104, cache="memory")
    assert fastest([cached, uncached]) is uncached
    assert fastest([cached, setting(1, 50, cache="none")]) is cached


def test_options_are_as_typed() -> None:
    assert setting(0, 1).options() == "--data.loader.num_workers 0"
    assert setting(2, 1, 4, "memory").options() == (
        "--data.loader.num_workers 2 --data.loader.prefetch_factor 4 --data.cache memory"
    )


def test_the_table_marks_the_best() -> None:
    lines = table([setting(0, 50), setting(2, 1000, cache="memory")]).splitlines()
    assert len(lines) == 3
    assert lines[1].split() == ["0", "-", "-", "50", "2%"]
    assert lines[2].split() == ["2", "2", "memory", "1,000", "0%", "<-", "best"]


@pytest.mark.parametrize(
    ("cpus", "expected"), [(1, [0, 1]), (2, [0, 1, 2]), (6, [0, 1, 2, 4, 6]), (8, [0, 1, 2, 4, 8])]
)
def test_worker_counts(cpus: int, expected: list[int]) -> None:
    assert tune._worker_counts(cpus) == expected


@pytest.fixture
def one_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "available_cpus", lambda: 1)


@pytest.mark.slow
def test_every_setting_is_tried_and_the_data_are_left_as_they_were(one_cpu: None) -> None:
    data = Cached()
    before = data.loader
    tried = measure(data, 0.01)
    assert {(s.num_workers, s.cache) for s in tried} >= {
        (0, "none"), (1, "none"), (0, "memory"),
    }  # fmt: skip
    assert all(len(each.rates) == tune.TURNS and min(each.rates) > 0 for each in tried)
    assert data.loads == ["none", "memory"]
    assert (data.cache, data.loader) == ("none", before)
    assert len(data.datasets["train"]) == 40


@pytest.mark.slow
def test_a_cache_that_does_not_fit_is_left_out(
    one_cpu: None, capsys: pytest.CaptureFixture
) -> None:
    data = Cached(refused=True)
    assert {each.cache for each in measure(data, 0.01)} == {"none"}
    assert "cache memory was not tried: it does not fit" in capsys.readouterr().out
    assert (data.cache, len(data.datasets["train"])) == ("none", 40)


def test_too_little_to_measure_is_an_error(one_cpu: None) -> None:
    with pytest.raises(UserError, match="--seconds is 0"):
        measure(Cached(), 0)
    data = Digits(batch_size=2000)
    with pytest.raises(UserError, match="one batch of 2000: there is nothing to measure"):
        measure(data, 0.01)


@pytest.mark.slow
def test_the_command_prints_options_and_writes_a_config_that_fit_takes(
    one_cpu: None, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    overlay = tmp_path / "fast.yaml"
    runs = ["--run.root", str(tmp_path / "runs")]
    tuned = ["--seconds", "0.05", "--write", str(overlay), "--data.batch_size", "100"]
    assert main(["tune", "--config", "configs/digits.yaml", *tuned, *runs]) == 0
    printed = capsys.readouterr().out
    assert "best: --data.loader.num_workers" in printed
    assert not (tmp_path / "runs").exists()  # nothing is left
    written = yaml.safe_load(overlay.read_text())
    loader = written["data"]["init_args"]["loader"]
    assert f"--data.loader.num_workers {loader['num_workers']}" in printed
    fit = ["fit", "--config", "configs/digits.yaml", "--config", str(overlay), "--print_config"]
    with pytest.raises(SystemExit, match="0"):
        main([*fit, *runs])
    shown = yaml.safe_load(capsys.readouterr().out)["data"]["init_args"]
    assert shown["loader"]["num_workers"] == loader["num_workers"]
    assert shown["augmentation"] == "light"  # the other settings stay
