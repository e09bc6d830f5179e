"""Precision and mode by hardware; the hardware is made up."""

from collections.abc import Callable

import pytest
import torch

from project import hardware
from project.errors import UserError
from project.runs import Run
from tests.conftest import TINY


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Pretends that there is a GPU of a compute capability."""

    def pretend(*capability: int) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Some GPU")
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)

    return pretend


@pytest.mark.parametrize(
    ("capability", "chosen"),
    [((9, 0), "bf16-mixed"), ((8, 0), "bf16-mixed"), ((7, 5), "16-mixed"), ((6, 1), "32-true")],
)
def test_auto_takes_what_a_gpu_does_well(
    gpu: Callable[..., None], capability: tuple[int, int], chosen: str
) -> None:
    gpu(*capability)
    precision, why = hardware.precision("auto", None, "auto")
    assert precision == chosen
    assert "auto: Some GPU" in why
    assert hardware.precision("auto", None, "cpu")[0] == "32-true"


def test_auto_on_a_cpu_is_float32() -> None:
    assert hardware.precision("auto", None, "auto") == ("32-true", "auto: no CUDA GPU")


def test_what_is_given_wins_and_is_given_once() -> None:
    assert hardware.precision("bf16", None, "auto") == ("bf16-mixed", "")
    assert hardware.precision("auto", "64-true", "auto") == ("64-true", "")
    with pytest.raises(UserError, match=r"run\.precision is 'bf16' and trainer\.precision is '64'"):
        hardware.precision("bf16", "64", "auto")


@pytest.mark.parametrize("given", [("fp16", None), ("auto", "16-mixed"), ("auto", 16)])
def test_float16_on_a_cpu_is_refused_and_not_replaced(given: tuple) -> None:
    with pytest.raises(UserError, match="Lightning would take bfloat16"):
        hardware.precision(*given, "auto")


def test_modes(gpu: Callable[..., None]) -> None:
    assert hardware.flags("fast") == {"deterministic": False, "benchmark": False}
    assert hardware.flags("deterministic") == {"deterministic": True, "benchmark": False}
    gpu(9, 0)
    assert hardware.flags("fast") == {"deterministic": False, "benchmark": True}


@pytest.mark.slow
def test_on_a_cpu_both_modes_and_compiled_or_not_end_alike(
    command: Callable[..., int], latest: Callable[[], Run], capsys: pytest.CaptureFixture
) -> None:
    states = []
    for options in (
        ["--run.mode", "fast"],
        ["--run.mode", "deterministic"],
        ["--run.compile", "eager"],
        ["--run.compile", "aot_eager"],
        ["--run.memory_format", "channels_last"],
    ):
        network = ["--model.network.width", "4"]
        assert command("fit", "--config", "configs/digits.yaml", *TINY, *network, *options) == 0
        run = latest()
        key, value = options[0].removeprefix("--run."), options[1]
        assert run.config["run"][key] == value
        states.append(torch.load(run.checkpoint("last"), weights_only=True)["state_dict"])
        assert torch.are_deterministic_algorithms_enabled() == (value == "deterministic")
    torch.use_deterministic_algorithms(False)
    assert "cpu, 32-true (auto: no CUDA GPU)" in capsys.readouterr().err
    first, *others = states
    for other in others:
        assert list(other) == list(first)  # no _orig_mod. in any key
    assert all(torch.equal(first[name], others[0][name]) for name in first)
    assert all(torch.equal(first[name], others[1][name]) for name in first)
    for name in first:
        torch.testing.assert_close(others[2][name], first[name], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(others[3][name], first[name], rtol=1e-4, atol=1e-5)
