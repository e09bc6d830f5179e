"""The command's run, with all its habits, ends with bitwise the weights of a plain loop."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from project.checkpoints import load_task
from project.data import Digits
from project.models import ResNet
from project.randomness import combine, seed_all
from project.runs import Run

SEED, EPOCHS, BATCH_SIZE = 5, 2, 200  # of 1,079 samples: five batches of 200, and one of 79


@dataclass(frozen=True)
class Recipe:
    """What is switched on, for both."""

    window: int = 1
    max_norm: float | None = None
    cosine: bool = False
    dropout: float = 0.0
    augmentation: str = "none"

    def options(self) -> list[str]:
        """The recipe as typed."""
        settings = {
            "seed_everything": SEED,
            "run.test_after_fit": "false",
            "trainer.max_epochs": EPOCHS,
            "trainer.accumulate_grad_batches": self.window,
            "data.batch_size": BATCH_SIZE,
            "data.augmentation": self.augmentation,
            "model.network.width": 4,
            "model.network.dropout": self.dropout,
            "model.schedule": "Cosine" if self.cosine else "null",
            **({"model.schedule.warmup_fraction": 0.25} if self.cosine else {}),
            **({"clipping.max_norm": self.max_norm} if self.max_norm else {}),
        }
        return [word for key, value in settings.items() for word in (f"--{key}", str(value))]


RECIPES = {
    "plain": Recipe(),
    "accumulation": Recipe(window=4),
    "clipping": Recipe(max_norm=0.5),
    "schedule": Recipe(cosine=True),
    "dropout and augmentation": Recipe(dropout=0.3, augmentation="medium"),
    "all together": Recipe(4, 0.5, cosine=True, dropout=0.3, augmentation="medium"),
}


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_the_same_weights_bit_by_bit(
    recipe: Recipe, command: Callable[..., int], latest: Callable[[], Run]
) -> None:
    assert command("fit", "--config", "configs/digits.yaml", *recipe.options()) == 0
    trained = load_task(latest().checkpoint("last")).network.state_dict()
    by_hand = hand_written(recipe)
    assert trained.keys() == by_hand.keys()
    assert [
        name for name, tensor in by_hand.items() if not torch.equal(tensor, trained[name])
    ] == []


def test_every_recipe_ends_elsewhere() -> None:
    """Else a setting that does nothing would pass."""
    heads = [hand_written(recipe)["head.3.weight"] for recipe in RECIPES.values()]
    assert not any(torch.equal(a, b) for n, a in enumerate(heads) for b in heads[:n])


def hand_written(recipe: Recipe) -> dict[str, Tensor]:
    """Zero, forward, loss, backward, clip, step, schedule: the weights it ends with."""
    torch.manual_seed(SEED)
    network = ResNet(1, 10, width=4, dropout=recipe.dropout)
    data = Digits(augmentation=recipe.augmentation)
    data.setup("fit")
    parameters = list(network.parameters())
    decayed, rest = [p for p in parameters if p.ndim > 1], [p for p in parameters if p.ndim < 2]
    groups = [{"params": decayed}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.003, weight_decay=0.05)
    step, num_steps = 0, EPOCHS * math.ceil(6 / recipe.window)
    for epoch in range(EPOCHS):
        network.train()
        for window in windows(list(batches(data, epoch)), recipe.window):
            if recipe.cosine:
                for group in optimizer.param_groups:
                    group["lr"] = 0.003 * cosine(step, num_steps)
            optimizer.zero_grad()
            first, total = len(window[0][2]), 0.0
            for number, image, target in window:
                seed_all(combine(SEED, epoch, number, 0))  # what dropout draws from
                loss = F.cross_entropy(network(image), target)
                weight = len(target) / first  # a smaller batch counts for less
                total += weight
                (loss * weight / recipe.window).backward()
            for parameter in parameters:  # an incomplete window was divided by too much
                parameter.grad.mul_(recipe.window / total)
            if recipe.max_norm:
                nn.utils.clip_grad_norm_([*decayed, *rest], recipe.max_norm)
            optimizer.step()
            step += 1
    assert step == num_steps
    return network.state_dict()


def batches(data: Digits, epoch: int) -> Iterator[tuple[int, Tensor, Tensor]]:
    """An epoch in an order of its own; each sample is augmented with a seed of its own."""
    train = data.datasets["train"]
    generator = torch.Generator().manual_seed(combine(SEED, epoch) >> 1)
    order = torch.randperm(len(train), generator=generator).tolist()
    for number, start in enumerate(range(0, len(order), BATCH_SIZE)):
        samples = []
        for index in order[start : start + BATCH_SIZE]:
            seed_all(combine(SEED, epoch, index))
            samples.append(train[index])
        images = torch.stack([sample["inputs"]["image"] for sample in samples])
        yield number, images, torch.stack([sample["target"] for sample in samples])


def windows(items: list, size: int) -> list[list]:
    """Accumulated together; the last window is smaller where the batches do not go round."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def cosine(step: int, num_steps: int) -> float:
    """A linear rise over a quarter of the steps, then half a cosine down to 0."""
    warmup = round(0.25 * num_steps)
    if step < warmup:
        return (step + 1) / (warmup + 1)
    return (1 + math.cos(math.pi * (step - warmup) / (num_steps - warmup))) / 2
