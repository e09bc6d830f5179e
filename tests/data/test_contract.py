"""What every data module keeps to. A new one needs a line in EXAMPLES, no test."""

import inspect
import json
import re
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_flatten

from project import data
from project.batches import IGNORED, INPUTS, SIZES, batch_size
from project.data import DataModule, Loader, Vocabulary
from project.errors import UserError
from tests.data.photos import fake_cifar10, folder_of_classes

EXAMPLES: dict[str, dict] = {
    "Boxes": {"size": 32, "loader": Loader(num_workers=0)},
    "CIFAR10": {"batch_size": 16, "loader": Loader(num_workers=0)},
    "Digits": {},
    "Images": {"batch_size": 8, "size": 12, "loader": Loader(num_workers=0)},
    "Masks": {"size": 32, "loader": Loader(num_workers=0)},
    "Mixed": {"batch_size": 8, "size": 12, "loader": Loader(num_workers=0)},
    "Sequences": {"batch_size": 8},
    "Tabular": {},
    "Texts": {"batch_size": 16, "vocabulary": Vocabulary(unit="character")},
}
MODULES = sorted(
    name
    for name in data.__all__
    if inspect.isclass(getattr(data, name))
    and issubclass(getattr(data, name), DataModule)
    and getattr(data, name) is not DataModule
)


@pytest.fixture(scope="module", autouse=True)
def _files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What the data modules read, which a test can't download."""
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        EXAMPLES["CIFAR10"]["root"] = str(fake_cifar10(folder / "cifar10", patch))
        EXAMPLES["Images"]["root"] = str(folder_of_classes(folder / "photos", per_class=20))
        EXAMPLES["Sequences"]["table"] = str(series(folder / "series.ts", count=120))
        EXAMPLES["Texts"]["table"] = str(words(folder / "texts.csv", count=240))
        yield


def words(path: Path, count: int) -> Path:
    """A table of texts of one to nine words, of three classes."""
    rows = [f"{'word ' * (number % 9)}{number},{'abc'[number % 3]}" for number in range(count)]
    path.write_text("\n".join(["text,label", *rows]))
    return path


def series(path: Path, count: int) -> Path:
    """Sequences of two to ten steps and two channels, of three classes."""
    lines = ["@classLabel true a b c", "@data"]
    for number in range(count):
        steps = ",".join(str(number + step) for step in range(2 + number % 9))
        lines.append(f"{steps}:{steps}:{'abc'[number % 3]}")
    path.write_text("\n".join(lines))
    return path


def make(name: str, seed: int = 0, **options: object) -> DataModule:
    torch.manual_seed(seed)
    module = getattr(data, name)(**{**EXAMPLES[name], **options})
    module.setup("fit")
    return module


def equal(first: dict, second: dict) -> bool:
    (leaves, form), (others, other_form) = tree_flatten(first), tree_flatten(second)
    return form == other_form and all(map(torch.equal, leaves, others))


def check_target(module: DataModule, target: Any) -> None:
    if isinstance(target, list):  # boxes
        assert all(set(each) == {"boxes", "labels"} for each in target)
        assert all(each["boxes"].shape == (len(each["labels"]), 4) for each in target)
        target = torch.cat([each["labels"] for each in target])
    if hasattr(module, "class_names"):
        classes = target[target != IGNORED]
        assert classes.dtype == torch.int64
        assert 0 <= classes.min() <= classes.max() < len(module.class_names)
    else:
        assert target.dtype == torch.float32
        assert target.shape[1:] == (len(module.target_names),)


def epoch_of(module: DataModule, epoch: int, count: int = 3) -> list[dict]:
    loader = module.train_dataloader()
    loader.batch_sampler.set_epoch(epoch)
    return list(islice(iter(loader), count))


def test_examples_are_complete() -> None:
    assert sorted(EXAMPLES) == MODULES


@pytest.mark.parametrize("name", MODULES)
class TestDataModule:
    def test_known_before_anything_is_loaded(self, name: str) -> None:
        module = getattr(data, name)(**EXAMPLES[name])
        assert set(module.sizes) <= set(SIZES)
        assert all(isinstance(size, int) and size > 0 for size in module.sizes.values())
        if hasattr(module, "class_names"):
            assert all(isinstance(word, str) for word in module.class_names)
            assert module.sizes["num_outputs"] == len(module.class_names)
        else:
            assert module.sizes["num_outputs"] == len(module.target_names)
        if module.class_counts is not None:
            assert len(module.class_counts) == len(module.class_names)

    def test_batches_are_as_agreed(self, name: str) -> None:
        module = make(name)
        loaders = (module.train_dataloader(), module.val_dataloader(), module.test_dataloader())
        for loader in loaders:
            batch = next(iter(loader))
            assert set(batch) - {"size"} == {"inputs", "target", "index"}
            assert set(batch["inputs"]) <= set(INPUTS)
            assert batch_size(batch) == min(module.batch_size, len(loader.dataset))
            check_target(module, batch["target"])

    def test_every_sample_once_per_epoch(self, name: str) -> None:
        module = make(name)
        for epoch in (0, 1):
            batches = epoch_of(module, epoch, count=10**9)
            seen = torch.cat([batch["index"] for batch in batches])
            assert torch.equal(seen.sort().values, torch.arange(len(module.datasets["train"])))
        for loader in (module.val_dataloader(), module.test_dataloader()):
            seen = torch.cat([batch["index"] for batch in loader])
            assert torch.equal(seen, torch.arange(len(loader.dataset)))

    def test_a_sample_can_be_looked_at(self, name: str) -> None:
        shown = make(name).shown("test", 0)
        assert isinstance(shown, str) or (shown.dtype == np.uint8 and shown.ndim == 3)
        assert len(shown) > 0

    def test_splits_are_disjoint(self, name: str) -> None:
        module = make(name)
        names = [module.names(split) for split in module.datasets]
        together = [sample for split in names for sample in split]
        assert len(set(together)) == len(together)
        assert [len(n) for n in names] == [len(d) for d in module.datasets.values()]

    def test_another_seed_shuffles_the_same_split(self, name: str) -> None:
        first, second = make(name, seed=0), make(name, seed=1)
        assert first.names("test") == second.names("test")
        assert not torch.equal(epoch_of(first, 0)[0]["index"], epoch_of(second, 0)[0]["index"])

    def test_same_seed_same_batches_whatever_was_drawn_before(self, name: str) -> None:
        first = epoch_of(make(name), 3)
        module = make(name)
        torch.rand(100)
        epoch_of(module, 0)
        assert all(map(equal, first, epoch_of(module, 3)))

    def test_each_epoch_has_another_order_and_other_augmentation(self, name: str) -> None:
        module = make(name)
        first, second = epoch_of(module, 0), epoch_of(module, 1)
        assert not torch.equal(first[0]["index"], second[0]["index"])

    @pytest.mark.slow
    @pytest.mark.parametrize("start_method", ["fork", "spawn"])
    def test_workers_change_nothing(self, name: str, start_method: str) -> None:
        expected = epoch_of(make(name), 1)
        module = make(name, loader=Loader(num_workers=2))
        loader = module.train_dataloader()
        loader.multiprocessing_context = start_method
        loader.batch_sampler.set_epoch(1)
        assert all(map(equal, expected, islice(iter(loader), len(expected))))

    def test_validation_twice_is_the_same(self, name: str) -> None:
        module = make(name)
        first, second = list(module.val_dataloader()), list(module.val_dataloader())
        assert all(map(equal, first, second))

    def test_loading_leaves_the_main_generators_alone(self, name: str) -> None:
        module = make(name)
        torch.manual_seed(5)
        expected = torch.rand(3)
        torch.manual_seed(5)
        epoch_of(module, 0)
        assert torch.equal(torch.rand(3), expected)

    def test_position_is_picked_up(self, name: str) -> None:
        module = make(name)
        expected = epoch_of(module, 2, count=5)
        loader = module.train_dataloader()
        loader.batch_sampler.set_epoch(2)
        taken = list(islice(iter(loader), 3))
        state = loader.state_dict()
        assert state == {"epoch": 2, "position": 3}
        resumed = module.train_dataloader()
        resumed.load_state_dict(state)
        assert all(map(equal, expected, [*taken, *islice(iter(resumed), 2)]))

    def test_description_is_plain(self, name: str) -> None:
        module = make(name)
        description = module.description()
        assert json.loads(json.dumps(description)) == description
        assert description["sizes"] == module.sizes
        assert description.get("class_names") == getattr(module, "class_names", None)

    def test_changed_samples_are_said_on_resume(self, name: str) -> None:
        module = make(name)
        fingerprint = module.fingerprint()
        if fingerprint is None:
            pytest.skip("this data can't tell")
        assert make(name, seed=1).fingerprint() == fingerprint
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            module.load_state_dict(module.state_dict())
        with pytest.warns(UserWarning, match="data have changed since"):
            module.load_state_dict({**module.state_dict(), "fingerprint": "0" * 64})

    def test_other_sizes_are_refused_with_what_they_are(self, name: str) -> None:
        module = make(name)
        for size, number in module.sizes.items():
            state = module.state_dict()
            state["description"] = {**state["description"], "sizes": {size: number + 1}}
            said = re.escape(f"{size} {number + 1} ({SIZES[size]}), this data has {number}")
            with pytest.raises(UserError, match=said):
                module.load_state_dict(state)

    def test_other_targets_are_refused_on_resume(self, name: str) -> None:
        module = make(name)
        if not hasattr(module, "target_names"):
            pytest.skip("this data has no targets that are numbers")
        description = {**module.description(), "target_names": ["another"]}
        with pytest.raises(UserError, match="another"):
            module.refuse_others(description)

    def test_other_classes_are_refused_on_resume(self, name: str) -> None:
        module = make(name)
        if not hasattr(module, "class_names"):
            pytest.skip("this data has no classes")
        state = module.state_dict()
        state["description"] = {**state["description"], "class_names": ["another"]}
        with pytest.raises(UserError, match="another"):
            module.load_state_dict(state)
