"""Regression: hand-worked loss and metrics, in the user's units, whatever these are."""

import csv
from collections.abc import Callable

import lightning as L
import pytest
import torch
from torch import Tensor, nn

from project.checkpoints import load_task
from project.data import Tabular
from project.errors import UserError
from project.runs import Run
from project.tasks import Regression


class Echo(nn.Module):
    """Gives its input back, plus a parameter to train."""

    def __init__(self, outputs: int = 1) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, features: Tensor) -> Tensor:
        return features + self.bias


def task(**options: object) -> Regression:
    return Regression(Echo(), ["price"], [200_000.0], [50_000.0], **options)


def two_targets() -> Regression:
    return Regression(Echo(2), ["price", "area"], [200_000.0, 100.0], [50_000.0, 20.0])


def batch(scaled: list, target: list) -> dict:
    return {
        "inputs": {"features": torch.tensor(scaled)},
        "target": torch.tensor(target),
        "index": torch.arange(len(target)),
    }


TWO = batch([[1.0], [-2.0]], [[200_000.0], [125_000.0]])  # predicted are 250,000 and 100,000


def test_loss_by_hand_is_of_scaled_targets() -> None:
    loss, predictions = task().loss_and_predictions(TWO)
    assert loss.item() == pytest.approx((1 + 0.5**2) / 2)
    assert predictions.tolist() == [[250_000.0], [100_000.0]]


def test_smooth_loss_by_hand() -> None:
    # beta 0.5: an error of 1 counts 1 - 0.25, one of 0.5 counts 0.5
    loss, _ = task(loss="smooth_l1").loss_and_predictions(TWO)
    assert loss.item() == pytest.approx((0.75 + 0.25) / 2)


def test_sample_losses_make_up_the_loss() -> None:
    module = task()
    loss, predictions = module.loss_and_predictions(TWO)
    losses = module.sample_losses(predictions, TWO)
    assert losses.tolist() == pytest.approx([1, 0.25])
    assert losses.mean().item() == pytest.approx(loss.item())


def evaluate(module: Regression, batches: list[dict]) -> dict[str, float]:
    trainer = L.Trainer(
        logger=False, enable_progress_bar=False, enable_model_summary=False, accelerator="cpu",
        enable_checkpointing=False,
    )  # fmt: skip
    loader = torch.utils.data.DataLoader(batches, batch_size=None)
    return trainer.test(module, loader, verbose=False)[0]


def test_metrics_by_hand_over_uneven_batches() -> None:
    # errors 50,000, -25,000, 0; the targets' mean is 175,000, their squares from it 3.75e9
    last = batch([[0.0]], [[200_000.0]])
    module = task()
    results = evaluate(module, [TWO, last])
    squares = 50_000**2 + 25_000**2
    assert results["test_rmse"] == pytest.approx((squares / 3) ** 0.5)
    assert results["test_mae"] == pytest.approx(25_000)
    assert results["test_r2"] == pytest.approx(1 - squares / 3.75e9)
    assert results["test_loss"] == pytest.approx((1 + 0.25 + 0) / 3)  # over samples, not batches
    assert module.tables["test_pairs"][0, :, 0].tolist() == [250_000, 100_000, 200_000]
    assert list(module.figures("test")) == ["predicted_and_true"]


def test_several_targets_have_metrics_by_name() -> None:
    one = batch([[1.0, 0.0], [0.0, 1.0]], [[200_000.0, 100.0], [200_000.0, 110.0]])
    results = evaluate(two_targets(), [one])
    assert results["test_rmse_price"] == pytest.approx(50_000 / 2**0.5)
    assert results["test_mae_area"] == pytest.approx(5)
    assert results["test_r2_area"] == pytest.approx(1 - 100 / 50)
    columns = two_targets().decode(one["inputs"]["features"], one)
    assert columns == {"prediction_price": [250_000, 200_000], "prediction_area": [100, 120]}
    assert list(two_targets().decode_target(one)) == ["target_price", "target_area"]


def test_r2_of_large_close_targets_is_not_lost_to_rounding() -> None:
    module = Regression(Echo(), ["year"], [1e6], [1.0])
    scaled = [[-1.0], [0.0], [1.0], [0.5]]
    one = batch(scaled, [[999_999.0], [1_000_000.0], [1_000_001.0], [1_000_000.0]])
    assert evaluate(module, [one])["test_r2"] == pytest.approx(1 - 0.25 / 2, abs=1e-4)


@pytest.mark.parametrize(("shape", "said"), [((4,), r"\(4,\)"), ((4, 2), r"\(4, 2\)")])
def test_targets_of_another_shape_are_refused(shape: tuple, said: str) -> None:
    wrong = {"inputs": {"features": torch.zeros(4, 1)}, "target": torch.ones(shape),
             "index": torch.arange(4)}  # fmt: skip
    with pytest.raises(UserError, match=rf"\(4, 1\), the targets {said}.*each with each"):
        task().loss_and_predictions(wrong)


def test_a_network_without_the_last_dimension_is_refused() -> None:
    wrong = {**TWO, "inputs": {"features": torch.zeros(2)}}
    with pytest.raises(UserError, match=r"have the shape \(2,\), the targets \(2, 1\)"):
        task().loss_and_predictions(wrong)


def test_torch_would_compare_each_with_each() -> None:
    with pytest.warns(UserWarning, match="different to the input size"):
        loss = nn.functional.mse_loss(torch.tensor([[0.0], [1.0]]), torch.tensor([0.0, 1.0]))
    assert loss == 0.5  # of predictions that are all right


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_in_half_precision_predictions_stay_in_units(dtype: torch.dtype) -> None:
    module = task().to(dtype)
    assert module.scale.mean.tolist() == [200_000]  # half precision ends at 65,504
    features = TWO["inputs"]["features"].to(dtype)
    loss, predictions = module.loss_and_predictions({**TWO, "inputs": {"features": features}})
    assert predictions.dtype == torch.float32
    assert predictions.tolist() == [[250_000.0], [100_000.0]]
    assert loss.item() == pytest.approx(0.625)
    with pytest.raises(UserError, match=r"targets are torch\.\w*float16.*16-mixed"):
        module.loss_and_predictions({**TWO, "target": TWO["target"].to(dtype)})


def test_scaling_is_in_the_state() -> None:
    other = Regression(Echo(), ["price"], [0.0], [1.0])
    other.load_state_dict(task().state_dict())
    served = other.serve(TWO["inputs"]["features"])["predictions"]
    assert served.tolist() == [[250_000.0], [100_000.0]]
    assert other.decode(TWO["inputs"]["features"], TWO) == {"prediction": [250_000, 100_000]}


@pytest.mark.slow
def test_a_checkpoint_alone_predicts_what_the_run_did(
    command: Callable[..., int], latest: Callable[[], Run]
) -> None:
    config = ("--config", "configs/tabular.yaml")
    assert command("fit", *config, "--trainer.max_epochs", "2") == 0
    assert command("predict", *config) == 0
    with (latest().path / "predictions.csv").open() as file:
        written = [float(row["prediction"]) for row in csv.DictReader(file)]
    loaded, data = load_task(latest().checkpoint("best")), Tabular()
    data.setup("predict")
    predicted: list[float] = []
    for one in data.predict_dataloader():
        with torch.no_grad():
            predicted += loaded.decode(loaded(**one["inputs"]), one)["prediction"]
    assert predicted == written
    assert 25 < min(predicted) < max(predicted) < 350  # progression, not standard deviations


def test_what_can_be_monitored_and_which_way() -> None:
    assert task().best_is == {
        "train_loss": "min", "val_loss": "min", "val_rmse": "min", "val_mae": "min",
        "val_r2": "max",
    }  # fmt: skip


@pytest.mark.parametrize(
    "numbers", [([1.0], [0.0]), ([1.0, 2.0], [1.0]), ([], [])], ids=["no spread", "uneven", "none"]
)
def test_nonsense_is_refused(numbers: tuple) -> None:
    mean, std = numbers
    with pytest.raises(UserError, match="every std above 0"):
        Regression(Echo(), ["price"][: len(mean)], mean, std)
