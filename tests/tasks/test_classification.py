"""Classification: hand-worked loss and metrics, the steps' life."""

import math

import lightning as L
import pytest
import torch
from torch import Tensor, nn

from project.errors import UserError
from project.tasks import Classification
from project.tasks.classification import per_class

CLASSES = ["cat", "dog", "owl"]


class Echo(nn.Module):
    """Gives its input back, plus a parameter to train."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(3))

    def forward(self, features: Tensor) -> Tensor:
        return features + self.bias


def task(**options: float) -> Classification:
    return Classification(Echo(), CLASSES, **options)


def batch(logits: list[list[float]], target: list[int]) -> dict:
    return {
        "inputs": {"features": torch.tensor(logits)},
        "target": torch.tensor(target),
        "index": torch.arange(len(target)),
    }


TWO = batch([[math.log(2), 0.0, 0.0], [0.0, math.log(6), 0.0]], [0, 2])


def test_loss_by_hand() -> None:
    # probabilities 2/4 of the right class and 1/8 of the right class
    loss, _ = task().loss_and_predictions(TWO)
    assert loss.item() == pytest.approx((math.log(2) + math.log(8)) / 2)


def test_label_smoothing_by_hand() -> None:
    # target 0 becomes 0.9, 0.05, 0.05 of classes with probabilities 2/4, 1/4, 1/4 (smoothing 0.15)
    loss, _ = task(label_smoothing=0.15).loss_and_predictions(batch([[math.log(2), 0, 0]], [0]))
    assert loss.item() == pytest.approx(0.9 * math.log(2) + 0.1 * math.log(4))


def test_decoded_predictions() -> None:
    columns = task().decode(TWO["inputs"]["features"], TWO)
    assert columns["prediction"] == ["cat", "dog"]
    assert columns["probability"] == pytest.approx([0.5, 0.75])


def evaluate(batches: list[dict]) -> tuple[dict[str, float], Classification]:
    module = task()
    trainer = L.Trainer(
        logger=False, enable_progress_bar=False, enable_model_summary=False, accelerator="cpu"
    )
    loader = torch.utils.data.DataLoader(batches, batch_size=None)
    return trainer.validate(module, loader, verbose=False)[0], module


def test_metrics_by_hand_over_uneven_batches() -> None:
    big = 50.0
    cat, dog, owl = [big, 0.0, 0.0], [0.0, big, 0.0], [0.0, 0.0, big]
    first = batch([cat, cat, cat], [0, 0, 1])  # two right, a dog called cat
    second = batch([owl], [2])  # right
    results, module = evaluate([first, second])
    assert results["val_accuracy"] == pytest.approx(3 / 4)
    assert results["val_accuracy_macro"] == pytest.approx((1 + 0 + 1) / 3)
    # F1: cat 2·(2/3)·1/(2/3+1) = 0.8, dog 0, owl 1
    assert results["val_f1_macro"] == pytest.approx((0.8 + 0 + 1) / 3)
    assert results["val_loss"] == pytest.approx(big / 4)  # the mean over samples, not over batches
    assert module.tables["val_confusion"].tolist() == [[2, 0, 0], [1, 0, 0], [0, 0, 1]]
    assert dog


def test_the_rare_class_is_not_hidden() -> None:
    always_cat = batch([[9.0, 0.0, 0.0]] * 10, [0] * 9 + [1])
    results, _ = evaluate([always_cat])
    assert results["val_accuracy"] == pytest.approx(0.9)
    assert results["val_accuracy_macro"] == pytest.approx(0.5)  # the absent owl does not count


def test_half_precision_logits_do_not_overflow() -> None:
    module = task()
    module.network = module.network.half()
    loss, _ = module.loss_and_predictions(
        {"inputs": {"features": torch.full((1, 3), 6e4).half()}, "target": torch.tensor([0])}
    )
    assert loss.item() == pytest.approx(math.log(3), rel=1e-3)


def test_what_can_be_monitored_and_which_way() -> None:
    assert task().best_is == {
        "train_loss": "min", "val_loss": "min",
        "val_accuracy": "max", "val_accuracy_macro": "max", "val_f1_macro": "max",
    }  # fmt: skip


def test_made_in_python_it_keeps_only_plain_hyperparameters() -> None:
    module = task(label_smoothing=0.1)
    assert dict(module.hparams) == {
        "class_names": CLASSES, "label_smoothing": 0.1, "class_weights": "none",
        "schedule": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"class_names": ["cat"]}, r"two or more classes.*\['cat'\]"),
        ({"class_names": CLASSES, "label_smoothing": 1.0}, r"label_smoothing is 1\.0"),
    ],
)
def test_nonsense_is_refused(arguments: dict, said: str) -> None:
    with pytest.raises(UserError, match=said):
        Classification(Echo(), **arguments)


def test_balanced_weights_make_the_classes_count_alike() -> None:
    module = task(class_counts=[8, 1, 1], class_weights="balanced")
    assert module.class_weights.tolist() == pytest.approx([10 / 24, 10 / 3, 10 / 3])
    logits, target = torch.randn(10, 3), torch.tensor([0] * 8 + [1, 2])
    one = {"inputs": {"features": logits}, "target": target, "index": torch.arange(10)}
    loss, _ = module.loss_and_predictions(one)
    losses = torch.nn.functional.cross_entropy(logits, target, reduction="none")
    by_class = [losses[target == number].mean() for number in range(3)]
    assert loss.item() == pytest.approx(sum(by_class).item() / 3)
    assert float(module.loss_weight(one)) == pytest.approx(10)  # the mean sample counts once


@pytest.mark.parametrize("counts", [None, [5, 0, 2]])
def test_weights_need_samples_of_every_class(counts: list[int] | None) -> None:
    with pytest.raises(UserError, match="needs training samples of every class"):
        task(class_counts=counts, class_weights="balanced")


def test_precision_and_recall_of_each_class_by_hand() -> None:
    rows = per_class(torch.tensor([[2, 0, 0], [1, 0, 0], [0, 0, 0]]), CLASSES)
    assert rows[0] == {
        "class": "cat", "samples": 2, "precision": 2 / 3, "recall": 1.0, "f1": 4 / 5,
    }  # fmt: skip
    assert (rows[1]["precision"], rows[1]["recall"], rows[1]["f1"]) == (None, 0.0, 0.0)
    assert (rows[2]["precision"], rows[2]["recall"], rows[2]["f1"]) == (None, None, None)
