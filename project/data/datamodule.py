"""What all data modules share: loaders, seeding, position, and what the checkpoint must know."""

import warnings
from abc import abstractmethod
from collections.abc import Sized
from pathlib import Path
from typing import Any, ClassVar, cast

import lightning as L
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from project import findings
from project.batches import MEANINGS, SIZES
from project.data.bucketing import waste
from project.data.collate import stack
from project.data.loader import Collate, EpochBatches, Loader, ResumableLoader, Seeded
from project.errors import UserError
from project.findings import Finding

SPLITS = ("train", "val", "test")


class DataModule(L.LightningDataModule):
    """Loaders for up to three splits.

    A subclass reads its data in `load`. What a network and a task are built from it has as
    attributes when it is made, before anything is loaded: `sizes`, and of what
    `project.batches.MEANINGS` names that which applies, such as `class_names`.

    Args:
        batch_size: Samples per batch and process.
        loader: How batches are loaded.
    """

    collate: ClassVar[Collate] = staticmethod(stack)
    """Turns a list of samples into a batch; a subclass whose samples differ in size pads here."""

    class_names: list[str]
    """What the numbers 0, 1, … of a class target mean, for data with classes."""

    class_counts: list[int] | None = None
    """Training samples of each class, where that is known before they are loaded."""

    target_names: list[str]
    """What the numbers of a float target are called, for data with such."""

    target_mean: list[float]
    """Mean of each over the training samples, in the user's units."""

    target_std: list[float]
    """Standard deviation of the same."""

    num_samples: int | None = None
    """Training samples, where that is known before they are loaded."""

    skip: bool = False
    """Leave out what is wrong with the data instead of stopping."""

    predicts = "test"
    """The split, or whatever else a subclass has a data set for, that `predict` runs over."""

    sizes: dict[str, int]
    """The numbers of `project.batches.SIZES` that apply to this data."""

    def __init__(self, batch_size: int, loader: Loader) -> None:
        super().__init__()
        if batch_size < 1:
            raise UserError(f"data.batch_size is {batch_size}; it must be 1 or more.")
        self.batch_size = batch_size
        self.loader = loader
        self.seed = torch.initial_seed()  # the run's: the command line has seeded by now
        self.datasets: dict[str, Dataset] = {}

    @abstractmethod
    def load(self) -> dict[str, Dataset]:
        """Read the data: map-style data sets of samples, under the names of `SPLITS`."""

    def names(self, split: str) -> list[str] | None:
        """What the samples of a split are called (their files, their rows), by index, if known."""
        return None

    def shown(self, split: str, index: int) -> np.ndarray | str:
        """A sample as a person looks at it: a picture, uint8 [H, W, C], or words."""
        names = self.names(split)
        return names[index] if names else f"{split}[{index}]"

    def lengths(self, split: str) -> np.ndarray | None:
        """Steps or tokens of every sample of a split; None where all have the same."""
        return None

    def audit(self, *, seconds: float | None) -> list[Finding]:
        """All that is wrong or worth knowing of the data.

        Args:
            seconds: Look no longer than this; None looks at everything.
        """
        what = f"{type(self).__name__} is made of one source, whose contents are known"
        return [Finding("note", what)]

    def tell(self, found: list[Finding]) -> None:
        """Say what was found, a line each, keep it all in audit.csv, and stop at errors.

        Raises:
            UserError: There is an error, and `skip` does not leave out what it is about.
        """
        findings.say(found, skip=self.skip)
        trainer = self.trainer
        if trainer is not None and not getattr(trainer, "fast_dev_run", False):
            path = Path(trainer.default_root_dir) / "audit.csv"
            findings.write(found, path, skip=self.skip)
        self.refuse(found)

    def refuse(self, found: list[Finding]) -> None:
        """Stop at errors; see `tell`."""
        hint = "All of it, in full: python -m project check, with the same options."
        findings.refuse(found, skip=self.skip, hint=hint)

    def description(self) -> dict[str, Any]:
        """Plain values that whoever uses a trained model needs; kept in the checkpoint."""
        known = {name: getattr(self, name, None) for name in MEANINGS}
        return {"sizes": dict(self.sizes), **{k: v for k, v in known.items() if v is not None}}

    def fingerprint(self) -> str | None:
        """Changes when the samples change, so that a resumed run can say so; None if unknown."""
        return None

    def setup(self, stage: str) -> None:
        if not self.datasets:
            self.datasets = self.load()

    def train_dataloader(self) -> ResumableLoader:
        dataset = self._dataset("train")
        batches = self._batches(len(cast(Sized, dataset)), self.loader.bucket_batches)
        if len(batches) == 0:
            raise UserError(
                f"The training split gives no batch: {batches.num_samples} samples are fewer than "
                f"one batch of data.batch_size={self.batch_size}, and data.loader.drop_last drops "
                "it. Lower the batch size or set --data.loader.drop_last false."
            )
        return ResumableLoader(
            Seeded(dataset, self.seed),
            batch_sampler=batches,
            **self._settings(),
        )

    def padding(self) -> list[Finding]:
        """How much of the training batches is padding, if their samples differ in length."""
        lengths = self.lengths("train")
        if lengths is None or not len(lengths):
            return []
        used, random = (
            self._batches(len(lengths), pool).batches(0) for pool in (self.loader.bucket_batches, 0)
        )
        return [waste(used, random, lengths)]

    def _batches(self, num_samples: int, pool: int) -> EpochBatches:
        """The order of the training samples; sorted by length within so many batches."""
        trainer = self.trainer
        return EpochBatches(
            num_samples,
            self.batch_size,
            # over-fitting a few batches means the same ones in every epoch
            shuffle=self.loader.shuffle and not (trainer and trainer.overfit_batches),
            drop_last=self.loader.drop_last,
            seed=self.seed,
            rank=trainer.global_rank if trainer else 0,
            world_size=trainer.world_size if trainer else 1,
            lengths=self.lengths("train"),
            pool_batches=pool,
        )

    def val_dataloader(self) -> DataLoader | list:
        if "val" not in self.datasets:
            return []
        return self._evaluation_loader("val")

    def test_dataloader(self) -> DataLoader:
        return self._evaluation_loader("test")

    def predict_dataloader(self) -> DataLoader:
        return self._evaluation_loader(self.predicts)

    def state_dict(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "description": self.description(),
            "fingerprint": self.fingerprint(),
        }

    def refuse_others(self, description: dict[str, Any]) -> None:
        """Refuse to be given to a network that was trained on data of another meaning or size.

        Args:
            description: Of the data it was trained on, out of its checkpoint.

        Raises:
            UserError: The classes, the targets or the sizes of these data are others.
        """
        for name, what in {"class_names": "classes", "target_names": "targets"}.items():
            known, now = description.get(name), getattr(self, name, None)
            if known is not None and now is not None and known != now:
                raise UserError(
                    f"The checkpoint was trained on the {what} {known}, this data has {now}. Use "
                    "the data it was trained on, or start a new run."
                )
        for name, known in description.get("sizes", {}).items():
            now = self.sizes.get(name, known)
            if known != now:
                raise UserError(
                    f"The checkpoint was trained on data with {name} {known} ({SIZES[name]}), this "
                    f"data has {now}. Use the data and the --data settings it was trained with, or "
                    "start a new run."
                )

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.refuse_others(state_dict["description"])
        before, after = state_dict.get("fingerprint"), self.fingerprint()
        if before is not None and after is not None and before != after:
            warnings.warn(
                "The data have changed since the checkpoint was written (fingerprint "
                f"{before[:8]} then, {after[:8]} now): the run goes on with other samples.",
                stacklevel=2,
            )
        if state_dict["seed"] != self.seed:
            warnings.warn(
                f"The run goes on with the seed it was started with, {state_dict['seed']}; "
                f"{self.seed} is not used for the order of the data.",
                stacklevel=2,
            )
        self.seed = state_dict["seed"]

    def _dataset(self, split: str) -> Dataset:
        if split not in self.datasets:
            raise UserError(
                f"{type(self).__name__} has no {split!r} split, only {sorted(self.datasets)}."
            )
        return self.datasets[split]

    def _evaluation_loader(self, split: str) -> DataLoader:
        dataset = Seeded(self._dataset(split), self.seed)
        trainer = self.trainer
        rank, world_size = (trainer.global_rank, trainer.world_size) if trainer else (0, 1)
        return DataLoader(
            dataset,
            batch_size=self.batch_size,
            # every sample once over all processes: none is repeated to make the shares even
            sampler=range(rank, len(dataset), world_size),
            drop_last=False,
            **self._settings(),
        )

    def _settings(self) -> dict[str, Any]:
        trainer = self.trainer
        return {
            "collate_fn": self.loader.collate or self.collate,
            # torch seeds the workers from it; without one it would draw from the model's generator
            "generator": torch.Generator().manual_seed(self.seed),
            **self.loader.settings(trainer.num_devices if trainer else 1),
        }
