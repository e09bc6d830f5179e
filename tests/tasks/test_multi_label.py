"""Several labels a sample: loss, weights, metrics and answers by hand."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from project.errors import UserError
from project.tasks import Classification, MultiLabel

NAMES = ["a", "b", "c"]


class Given(nn.Module):
    """Gives the features themselves as logits."""

    def forward(self, features: Tensor) -> Tensor:
        return features


def batch(logits: list[list[float]], target: list[list[int]]) -> Any:
    return {
        "inputs": {"features": torch.tensor(logits)},
        "target": torch.tensor(target),
        "index": torch.arange(len(logits)),
    }


def test_loss_by_hand() -> None:
    task = MultiLabel(Given(), NAMES)
    given = batch([[0.0, 2.0, -2.0]], [[1, 1, 0]])
    loss, predictions = task.loss_and_predictions(given)
    expected = (math.log(2) + 2 * math.log(1 + math.exp(-2))) / 3
    assert loss.item() == pytest.approx(expected)
    assert task.sample_losses(predictions, given).tolist() == [pytest.approx(expected)]


def test_logits_between_0_and_1_are_not_taken_for_probabilities() -> None:
    task = MultiLabel(Given(), NAMES)
    given = batch([[0.1, 0.9, 0.4]], [[1, 1, 1]])
    _, predictions = task.loss_and_predictions(given)
    task.val_metrics.update(predictions, given["target"])
    assert task.val_metrics.compute()["val_exact_match"] == 1  # all logits are above 0


def test_balanced_weights_by_hand() -> None:
    task = MultiLabel(Given(), NAMES, [1, 2, 5], 10, class_weights="balanced")
    assert task.positive_weights is not None
    assert task.positive_weights.tolist() == [9, 4, 1]
    loss, _ = task.loss_and_predictions(batch([[0.0, 0.0, 0.0]], [[1, 0, 0]]))
    assert loss.item() == pytest.approx(math.log(2) * (9 + 1 + 1) / 3)
    assert "positive_weights" not in task.state_dict()


@pytest.mark.parametrize(("counts", "samples"), [(None, 10), ([0, 1, 2], 10), ([10, 1, 1], 10)])
def test_weights_need_samples_with_and_without(counts: Any, samples: int) -> None:
    with pytest.raises(UserError, match="with and without each"):
        MultiLabel(Given(), NAMES, counts, samples, class_weights="balanced")


def test_metrics_by_hand() -> None:
    task = MultiLabel(Given(), NAMES)
    for part in (
        ([[3.0, -3, -3]], [[1, 0, 0]]),
        ([[3.0, 3, -3], [-3, -3, 3]], [[0, 1, 0], [0, 1, 1]]),
    ):
        given = batch(*part)
        _, predictions = task.loss_and_predictions(given)
        task.test_metrics.update(predictions, given["target"])
    found = {k: v for k, v in task.test_metrics.compute().items() if v.numel() == 1}
    assert found["test_exact_match"] == pytest.approx(1 / 3)
    # a: 1 right of 2 called, none missed; b: 1 right, 1 missed; c: 1 right
    assert found["test_f1_macro"] == pytest.approx((2 / 3 + 2 / 3 + 1) / 3)
    assert found["test_f1_micro"] == pytest.approx(2 * 3 / (2 * 3 + 1 + 1))
    task.tables["test_confusion"] = task.test_metrics["confusion"].compute()
    assert task.reports("test")["classes"][1] == {
        "class": "b", "samples": 2, "precision": 1.0, "recall": 0.5, "f1": pytest.approx(2 / 3),
    }  # fmt: skip


def test_answers() -> None:
    task = MultiLabel(Given(), NAMES)
    given = batch([[3.0, 3, -3], [-3, -3, -3]], [[1, 0, 0], [0, 0, 0]])
    decoded = task.decode(given["inputs"]["features"], given)
    assert decoded["prediction"] == ["a|b", ""]
    assert decoded["probability_a"] == [
        pytest.approx(1 / (1 + math.exp(-3))),
        pytest.approx(0.047, abs=1e-3),
    ]
    assert task.decode_target(given) == {"target": ["a", ""]}


def test_data_of_the_other_kind_are_refused() -> None:
    one = {"inputs": {"features": torch.zeros(2, 3)}, "target": torch.tensor([0, 1])}
    with pytest.raises(UserError, match=r"target of shape \(2,\).*tasks.Classification"):
        MultiLabel(Given(), NAMES).loss_and_predictions(one)
    several = {**one, "target": torch.zeros(2, 3)}
    with pytest.raises(UserError, match=r"shape \(2, 3\).*tasks.MultiLabel"):
        Classification(Given(), NAMES).loss_and_predictions(several)
