"""Mistakes in loss, optimizer and learning, and in the machine."""

from collections import namedtuple
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from project.checks import environment, resources
from project.data.loader import Loader
from tests.checks.cases import Columns, Net, Own, Project, fault, images, numbers


class Ends(Net):
    """Something after the head."""

    def __init__(self, end: nn.Module) -> None:
        super().__init__()
        self.end = end

    def forward(self, image: Tensor) -> Tensor:
        return self.end(super().forward(image))


@fault("loss", "loss.outputs", r"each row sums to 1\): softmax twice")
def softmax_before_cross_entropy() -> Project:
    return images(Ends(nn.Softmax(dim=1)))


@fault("loss", "loss.outputs", "a sigmoid before the loss")
def sigmoid_before_cross_entropy() -> Project:
    return images(Ends(nn.Sigmoid()))


@fault("loss", "loss.outputs", "a ReLU before the loss")
def relu_before_cross_entropy() -> Project:
    return images(Ends(nn.ReLU()))


@fault("loss", "loss.outputs", "a tanh before the loss")
def tanh_before_cross_entropy() -> Project:
    return images(Ends(nn.Tanh()))


class Positive(Columns):
    """A regression that ends in a ReLU."""

    def forward(self, features: Tensor) -> Tensor:
        return super().forward(features).relu()


@fault("loss", "loss.outputs", "outputs are never below 0, targets are: a ReLU at the end")
def relu_at_the_end_of_a_regression() -> Project:
    return numbers(Positive())


class Squashed(Columns):
    """A regression that ends in a tanh."""

    def forward(self, features: Tensor) -> Tensor:
        return super().forward(features).tanh()


@fault("loss", "loss.outputs", "a tanh or sigmoid at the end")
def tanh_at_the_end_of_a_regression() -> Project:
    return numbers(Squashed())


@fault("loss", "loss.outputs", r"mse_loss compares \[16, 1\] with \[16\]: every output meets every")
def a_target_that_is_broadcast() -> Project:
    _, data = numbers()
    for split in data.splits.values():
        split.target = [(y[0] - 300) / 50 for y in split.target]
    return Own(Columns(), F.mse_loss), data


@fault("loss", "loss.target_scale", "targets at the loss: mean 300, std .*: not scaled")
def targets_that_are_not_scaled() -> Project:
    _, data = numbers(scale=1.0)
    return Own(Columns(), F.mse_loss), data


@fault("loss", "loss.first", r"a guess gives 1.39 \(ln 4\); output 2 is the largest .* a bias")
def a_constant_bias_of_the_output() -> Project:
    network = Net()
    with torch.no_grad():
        network.head.bias[2] = 60.0
    return images(network)


@fault("loss", "loss.first", "a guess gives 1.39")
def a_head_that_starts_large() -> Project:
    network = Net()
    with torch.no_grad():
        network.head.weight *= 100
    return images(network)


@fault("loss", "loss.first", "its sign is turned")
def a_loss_that_is_maximised() -> Project:
    _, data = images()
    return Own(Net(), lambda output, target: -F.cross_entropy(output, target)), data


@fault("loss", "loss.first", "the first loss is nan")
def a_logarithm_of_nothing() -> Project:
    _, data = images()
    return Own(Net(), lambda output, target: output.relu().log().mul(0).sum()), data


@fault("loss", "loss.per_sample", "it is a sum")
def a_loss_that_is_a_sum() -> Project:
    _, data = images()
    return Own(Net(), partial(F.cross_entropy, reduction="sum")), data


@fault("loss", "model.step", r"the loss is \[2\], not one number")
def a_loss_for_each_sample() -> Project:
    _, data = images()
    return Own(Net(), partial(F.cross_entropy, reduction="none")), data


@fault("loss", "model.step", r"the graph is cut in Own.loss_and_predictions, after the network")
def a_loss_of_class_numbers() -> Project:
    _, data = images()
    return Own(Net(), lambda output, target: (output.argmax(1) - target).float().mean()), data


@fault("training", "rate.usual", "AdamW at 0.03 is high")
def a_learning_rate_ten_times_too_high() -> Project:
    return images(optimizer=partial(torch.optim.AdamW, lr=3e-2))


@fault("training", "learning.falls", r"at .* it does: the learning rate 50 is too large")
def a_learning_rate_that_bursts() -> Project:
    return images(optimizer=partial(torch.optim.SGD, lr=50.0, momentum=0.9))


@fault("training", "learning.falls", r"learning rate 1e-09 is too small")
def a_learning_rate_that_does_nothing() -> Project:
    return images(optimizer=partial(torch.optim.AdamW, lr=1e-9))


@fault("training", "rate.usual", "AdamW at 0: nothing is learnt")
def a_learning_rate_of_zero() -> Project:
    return images(optimizer=partial(torch.optim.AdamW, lr=0.0))


@fault("training", "rate.usual", "with weight_decay 10")
def weights_that_decay_at_once() -> Project:
    return images(optimizer=partial(torch.optim.AdamW, lr=3e-3, weight_decay=10.0))


@fault("training", "rate.range_test", "configured 30, the loss falls fastest near .* bursts from")
def a_learning_rate_beyond_the_range() -> Project:
    return images(optimizer=partial(torch.optim.SGD, lr=30.0, momentum=0.9))


class HeadOnly(Own):
    """Forgets the body."""

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.network.head.parameters())


@fault("training", "model.gradients", "the optimizer does not have: network.body.0.weight")
def an_optimizer_without_the_body() -> Project:
    _, data = images()
    return HeadOnly(Net(), F.cross_entropy), data


@fault(
    "training", "learning.falls", r"not finite, first in .*the learning rate 1e\+30 is too large"
)
def a_loss_that_becomes_nan() -> Project:
    return images(optimizer=partial(torch.optim.SGD, lr=1e30))


def noise(image: Tensor) -> Tensor:
    return torch.randn_like(image)


@fault("training", "learning.augmented", "by .*% with it.* destroys what the label says")
def an_augmentation_that_destroys_the_label() -> Project:
    task, data = images()
    data.splits["train"].augmentation = noise
    return task, data


class Bottleneck(Net):
    """Lets a single bit through."""

    def forward(self, image: Tensor) -> Tensor:
        return self.head(0 * self.body(image) + self.body(image).mean(1, keepdim=True).sign())


@fault("training", "learning.overfits", "can't be learnt by heart")
def a_bottleneck() -> Project:
    return images(Bottleneck())


@fault(
    "training", "resources.waiting", r"of the time goes by waiting for data .*num_workers \(now 0"
)
def a_slow_data_set() -> Project:
    import time

    task, data = images()
    data.batch_size = 8
    data.splits["train"].transform = lambda image: (time.sleep(0.01), image)[1]
    return task, data


@fault("machine", "environment.versions", r"must not be run: lightning 2.6.3 \(it was a malicious")
def a_release_that_was_malicious(monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setattr(
        environment, "version", lambda name: "2.6.3" if name == "lightning" else "9"
    )
    return images()


@fault("machine", "environment.accelerator", "there is an NVIDIA driver, but torch")
def a_build_for_another_driver(monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setattr(environment, "has_nvidia_driver", lambda: True)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    return images()


@fault("machine", "environment.workers", "64 loader workers for 2 CPUs")
def more_workers_than_cpus(monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setattr(environment, "available_cpus", lambda: 2)
    task, data = images()
    data.loader = Loader(num_workers=64)
    return task, data


def _with_free(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    usage: Any = namedtuple("Usage", "total used free")
    monkeypatch.setattr(environment.shutil, "disk_usage", lambda path: usage(free, 0, free))


@fault(
    "machine", "environment.shared_memory", r"/dev/shm has 9 kB, the workers' batches take up to"
)
def little_shared_memory(monkeypatch: pytest.MonkeyPatch) -> Project:
    _with_free(monkeypatch, 9000)
    task, data = images()
    data.loader = Loader(num_workers=2)
    return task, data


@fault("machine", "environment.open_files", "32 files may be open")
def few_open_files(monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setattr(environment, "_open_file_limit", lambda: 32)
    return images()


@fault("machine", "environment.disk", r"1 kB free at .*, the checkpoints take about")
def a_full_disk(monkeypatch: pytest.MonkeyPatch) -> Project:
    _with_free(monkeypatch, 1000)
    return images()


@fault(
    "machine", "resources.largest_batch", r"--data.batch_size \d+ --trainer.accumulate_grad_batches"
)
def a_batch_beyond_the_memory(monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setattr(resources, "_free_memory", lambda: 400_000)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    task, data = images()
    data.batch_size = 64
    return task, data
