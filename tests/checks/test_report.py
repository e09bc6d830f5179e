"""What the checks leave: a table, files of a fixed form, and nothing changed."""

import csv
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from project.checks import CHECKS, Check, Report, Subject, run
from project.checks.outcome import Outcome, failed, passed, skipped, table, warning
from tests.checks.cases import images
from tests.checks.test_faults import looked_at


def drawn() -> tuple[float, float, float]:
    return random.random(), float(np.random.rand()), float(torch.rand(()))  # noqa: NPY002


def test_nothing_is_changed() -> None:
    task, data = images()
    data.setup("fit")
    before = {name: tensor.clone() for name, tensor in task.state_dict().items()}
    modes = [module.training for module in task.modules()]
    loader, datasets = data.loader, dict(data.datasets)
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    expected = drawn()
    random.setstate(states[0])
    np.random.set_state(states[1])  # noqa: NPY002
    torch.set_rng_state(states[2])
    run(Subject(task, data), CHECKS, 1000)
    assert drawn() == expected
    after = task.state_dict()
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
    assert [module.training for module in task.modules()] == modes
    assert all(parameter.grad is None for parameter in task.parameters())
    assert data.loader is loader
    assert data.datasets == datasets


def test_the_files_have_a_fixed_form(tmp_path: Path) -> None:
    report = looked_at(images(), "model.step", "model.layers", "layers.gradients")
    report.write(tmp_path)
    content = json.loads((tmp_path / "check.json").read_text())
    assert {*content} == {"schema", "failed", "seconds", "checks", "facts"}
    assert content["schema"] == 1
    assert content["failed"] is False
    assert {*content["checks"][0]} == {
        "status", "measured", "advice", "practice", "items", "check"
    }  # fmt: skip
    layers = list(csv.DictReader((tmp_path / "check" / "layers.csv").open()))
    assert layers[0] == {
        "layer": "network.body.0", "type": "Conv2d", "inputs": "[2, 1, 8, 8]",
        "outputs": "[2, 8, 8, 8]", "parameters": "80", "trained": "80",
    }  # fmt: skip
    assert (tmp_path / "check" / "layers.png").stat().st_size > 1000
    assert (tmp_path / "check.csv").is_file()


def test_a_failure_is_what_counts() -> None:
    for outcome, expected in ((warning("w", "a"), False), (failed("f", "a"), True)):
        assert Report([outcome]).has_failed is expected


def test_the_table_says_what_to_do_where_there_is_something_to_do() -> None:
    outcomes = [
        passed("well").told_by("a.one", "X1"),
        failed("bad", "Mend it.", items=[("x", "1"), ("y", ""), ("z", ""), ("u", "")]).told_by(
            "a.two", "X2"
        ),
    ]
    assert table(outcomes).splitlines() == [
        "passed   a.one  well",
        "failed   a.two  bad: x (1), y, z, … (4)",
        "                → Mend it. [X2]",
    ]


def test_a_check_that_breaks_does_not_hide_the_others() -> None:
    def breaks(subject: Subject) -> Any:
        raise ZeroDivisionError("by zero")

    def works(subject: Subject) -> list[Outcome]:
        return [passed("well")]

    task, data = images()
    report = run(Subject(task, data), [Check("a", breaks, "X1"), Check("b", works, "X1")])
    assert [each.status for each in report.outcomes] == ["warning", "passed"]
    assert report.outcomes[0].measured == "stopped by ZeroDivisionError: by zero"


def test_what_there_is_no_time_for_is_said() -> None:
    report = run(Subject(*images()), CHECKS[:2], seconds=0)
    assert report.outcomes[1].status == "skipped"
    assert "no time was left" in report.outcomes[1].measured


def test_without_a_forward_pass_what_needs_it_is_skipped() -> None:
    task, data = images()
    task.network = torch.nn.Linear(2, 2)
    report = looked_at((task, data), "model.step", "loss.first")
    assert [each.status for each in report.outcomes] == ["failed", "skipped"]


def test_names_and_practices_are_in_order() -> None:
    names = [check.name for check in CHECKS]
    assert len(set(names)) == len(names)
    assert all(check.practice[0] in "DMTSEX" for check in CHECKS)
    assert skipped("why").status == "skipped"


@pytest.mark.slow
def test_check_and_tune_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from project.cli import main

    options = ["--config", "configs/digits.yaml", "--model.network.width", "4"]
    options += ["--run.root", str(tmp_path)]
    assert main(["check", *options, "--model.optimizer.lr", "0.0"]) == 1
    shown = capsys.readouterr().out
    assert "AdamW at 0: nothing is learnt" in shown
    assert json.loads((tmp_path / "digits" / "check.json").read_text())["failed"] is True
    assert main(["tune", *options, "--lr", "true"]) == 0
    assert "the loss falls fastest near" in capsys.readouterr().out
    assert (tmp_path / "digits" / "check" / "learning_rate.png").is_file()
