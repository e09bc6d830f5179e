"""Mistakes planted one at a time: each is found by the check that should, with its cause named."""

import inspect
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch

from project.checks import CHECKS, Report, Subject, run
from tests.checks import planted_in_data, planted_in_networks, planted_in_training
from tests.checks.cases import CLEAN, FAULTS, Fault, Net, Project, images
from tests.conftest import ROOT

assert planted_in_data, (planted_in_networks, planted_in_training)  # they fill the list

BY_NAME = {check.name: check for check in CHECKS}
NO_LIMIT = float("inf")


def looked_at(project: Project, *names: str, epochs: int | None = None) -> Report:
    """What some checks, or all, come to, however slow this machine is."""
    task, data = project
    data.setup("fit")
    chosen = [BY_NAME[name] for name in names] or list(CHECKS)
    patient = [replace(check, seconds=NO_LIMIT) for check in chosen]
    return run(Subject(task, data, epochs=epochs), patient, NO_LIMIT)


@pytest.mark.parametrize("planted", FAULTS, ids=lambda each: each.name)
def test_a_fault_is_found_and_named(planted: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    takes_patches = "monkeypatch" in inspect.signature(planted.plant).parameters
    project = planted.plant(**({"monkeypatch": monkeypatch} if takes_patches else {}))
    alarms = looked_at(project, planted.check).alarms()
    assert alarms, "nothing was said"
    said = [each.line() for each in alarms]
    assert any(re.search(planted.said, line) for line in said), said
    assert all(each.advice for each in alarms)


@pytest.mark.parametrize("kind", CLEAN)
def test_a_clean_project_raises_nothing(kind: str) -> None:
    alarms = looked_at(CLEAN[kind](), epochs=1).alarms()  # so short that no wait is worth a word
    assert not alarms, [each.line() for each in alarms]


def test_every_check_that_can_fail_has_a_fault() -> None:
    """What depends on the machine, or tells without judging, has none."""
    told_only = {"data.files", "model.layers"}
    assert {check.name for check in CHECKS} - {each.check for each in FAULTS} <= told_only


# starter: template
def test_the_document_counts_what_is_planted() -> None:
    text = (ROOT / "docs" / "checks.md").read_text()
    rows = dict(re.findall(r"^\| (\w+) \| (\d+) of \d+ \|", text, re.MULTILINE))
    counted: dict[str, Any] = {kind: str(n) for kind, n in Counter(f.kind for f in FAULTS).items()}
    assert rows == {**counted, "all": str(len(FAULTS))}
    assert len(FAULTS) >= 40


# /starter


def test_small_outputs_of_one_sign_are_no_sigmoid() -> None:
    network = Net()
    with torch.no_grad():
        network.head.weight *= 0.01
        network.head.bias.fill_(0.5)
    report = looked_at(images(network), "loss.outputs")
    assert not report.alarms()
