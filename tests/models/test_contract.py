"""What every model in `project.models` keeps to. A new one needs a line in EXAMPLES, no test."""

import inspect
import math
import pickle

import pytest
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from project import models
from project.batches import INPUTS, SIZES, VARIABLE

NUM_OUTPUTS = 5
SIZE_VALUES = {
    "in_channels": 3,
    "num_tokens": 30,
    "num_channels": 4,
    "num_features": 6,
    "num_outputs": NUM_OUTPUTS,
}
EXAMPLES = {
    "FCOS": {"width": 8, "pyramid": 16, "num_convs": 1},
    "UNet": {"width": 8, "depth": 2},
    "ResNet": {"width": 8},
    "Backbone": {"name": "resnet18"},
    "Fusion": {"width": 16, "image_width": 8},
    "MLP": {"width": 32},
    "SequenceCNN": {"width": 16},
    "TokenCNN": {"width": 16},
}
LENGTHS = (7, 3, 9, 1)  # repeated for more samples
INPUT_VALUES = {
    "image": lambda n: torch.randn(n, 3, 40, 32),
    "tokens": lambda n: torch.randint(1, 30, (n, 9)).masked_fill(padding(n), 0),
    "sequence": lambda n: torch.randn(n, 9, 4).masked_fill(padding(n)[..., None], 0),
    "padding": lambda n: padding(n),
    "features": lambda n: torch.randn(n, 6),
}
MODELS = sorted(models.__all__)
BOXES = torch.tensor([[2.0, 3.0, 18.0, 25.0]])
OUTPUTS = {"UNet": [(NUM_OUTPUTS, 40, 32)], "FCOS": [(28, NUM_OUTPUTS), (28, 4), (28, 1), (28, 4)]}
"""Shapes of what is predicted of one sample, where it is not one number per output."""
GUESS = {"FCOS": -0.25 * 0.99**2 * math.log(0.01) + 1 + math.log(2)}
"""First losses that are no cross-entropy: of a class whose probability is 0.01 (focal), of boxes
that do not overlap, and of a centre that may be one or not."""


def padding(count: int) -> Tensor:
    lengths = torch.tensor([LENGTHS[n % len(LENGTHS)] for n in range(count)])
    return torch.arange(9) >= lengths[:, None]


def make(name: str) -> nn.Module:
    torch.manual_seed(0)
    model = getattr(models, name)
    sizes = {k: v for k, v in SIZE_VALUES.items() if k in inspect.signature(model).parameters}
    return model(**sizes, **EXAMPLES[name])


def inputs(network: nn.Module, count: int) -> dict[str, Tensor]:
    torch.manual_seed(1)
    names = inspect.signature(network.forward).parameters
    return {name: INPUT_VALUES[name](count) for name in names}


def loss_of(network: nn.Module, count: int) -> Tensor:
    """Cross-entropy where the outputs are logits, else the network's own."""
    given = inputs(network, count)
    outputs = network(**given)
    classes = torch.arange(count) % NUM_OUTPUTS
    if isinstance(outputs, dict):
        return network.loss(outputs, [{"boxes": BOXES, "labels": n[None]} for n in classes])
    if outputs.ndim == 4:  # of every pixel: how bright it is
        classes = (given["image"][:, 0] > 0).long()
    return nn.functional.cross_entropy(outputs, classes)


def assert_close(outputs: object, others: object) -> None:
    for one, other in zip(tree_leaves(outputs), tree_leaves(others), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def _spoilt(values: Tensor, padded: Tensor) -> Tensor:
    """The same where it counts, nonsense where it is padded."""
    mask = padded if values.ndim == 2 else padded[..., None]
    return torch.where(mask, torch.full_like(values, 5), values)


def test_examples_are_complete() -> None:
    assert sorted(EXAMPLES) == MODELS
    assert set(SIZE_VALUES) == set(SIZES)
    assert set(INPUT_VALUES) == set(INPUTS)


@pytest.mark.parametrize("name", MODELS)
class TestModel:
    def test_takes_named_inputs_and_sizes(self, name: str) -> None:
        network = make(name)
        assert set(inspect.signature(network.forward).parameters) <= set(INPUTS)
        required = [
            p.name
            for p in inspect.signature(type(network)).parameters.values()
            if p.default is p.empty
        ]
        assert set(required) <= set(SIZES) | set(EXAMPLES[name])

    def test_output_shape_at_every_batch_size(self, name: str) -> None:
        network = make(name).eval()
        for count in (1, 2, 3):
            outputs = tree_leaves(network(**inputs(network, count)))
            expected = OUTPUTS.get(name, [(NUM_OUTPUTS,)])
            assert [each.shape for each in outputs] == [(count, *shape) for shape in expected]

    def test_gradient_reaches_every_parameter(self, name: str) -> None:
        network = make(name)
        for _ in range(2):
            outputs = tree_leaves(network(**inputs(network, 4)))
            sum(each.square().mean() for each in outputs if each.requires_grad).backward()
        missing = [n for n, p in network.named_parameters() if p.grad is None]
        assert not missing

    def test_first_loss_is_that_of_a_guess(self, name: str) -> None:
        network = make(name)
        guess = GUESS.get(name, math.log(NUM_OUTPUTS))
        assert loss_of(network, 16).item() == pytest.approx(guess, abs=1.0)

    def test_a_sample_does_not_depend_on_its_batch_mates(self, name: str) -> None:
        network = make(name).eval()
        with torch.no_grad():
            together = network(**inputs(network, 4))
            alone = network(**{k: v[2:3] for k, v in inputs(network, 4).items()})
        assert_close([each[2:3] for each in tree_leaves(together)], alone)

    def test_padding_changes_nothing(self, name: str) -> None:
        network = make(name).eval()
        given = inputs(network, 4)
        if "padding" not in given:
            pytest.skip("its inputs are not padded")
        for row, length in enumerate(LENGTHS):
            alone = {k: v[row : row + 1] for k, v in given.items()}
            bare = {
                k: v[:, :length] if k in (*VARIABLE, "padding") else v for k, v in alone.items()
            }
            garbage = {
                k: _spoilt(v, alone["padding"]) if k in VARIABLE else v for k, v in alone.items()
            }
            with torch.no_grad():
                torch.testing.assert_close(network(**bare), network(**alone), rtol=1e-4, atol=1e-5)
                torch.testing.assert_close(
                    network(**garbage), network(**alone), rtol=1e-4, atol=1e-5
                )

    def test_same_seed_same_weights(self, name: str) -> None:
        first, second = make(name).state_dict(), make(name).state_dict()
        assert all(torch.equal(first[key], second[key]) for key in first)

    def test_can_be_sent_to_another_process(self, name: str) -> None:
        network = make(name).eval()
        copy = pickle.loads(pickle.dumps(network))
        with torch.no_grad():
            first, second = copy(**inputs(copy, 2)), network(**inputs(network, 2))
        assert all(map(torch.equal, tree_leaves(first), tree_leaves(second)))

    def test_overfits_a_handful(self, name: str) -> None:
        network = make(name)
        optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
        for _ in range(100):
            optimizer.zero_grad()
            loss = loss_of(network, 8)
            if loss.item() < (1.0 if name in GUESS else 0.1):
                return
            loss.backward()
            optimizer.step()
        pytest.fail(f"the loss is still {loss.item():.2f}")
