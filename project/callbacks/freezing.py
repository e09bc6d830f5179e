"""Transfer learning: parts that are not trained, or later, or at a lower rate."""

from typing import Any, Literal

import lightning as L
from lightning.pytorch.callbacks import Callback
from torch import nn

from project.errors import UserError
from project.models import freezing
from project.optim import Part
from project.tasks import Task


class Freezing(Callback):
    """Freezes parts of the network, and unfreezes them as planned; off unless told what.

    A frozen part takes no gradient and is in evaluation mode in every step: not a weight of it
    changes, nor a statistic, and its dropout is off. When a part is trained is a function of the
    epoch alone, and the optimizer knows all that will ever be trained from the start: so a run can
    be resumed at any moment.

    Args:
        freeze: Names of modules or parameters of the network, such as `body`; `*` stands for any
            characters.
        unfreeze: What of it is trained after all, by the first epoch, counted from 0. What is
            trained from epoch 0 on is not frozen, but its BatchNorm layers keep to `batch_norm`.
        lr_factors: What the learning rate of a part is multiplied with, by name or pattern. Of
            several that match, the first counts.
        batch_norm: What the BatchNorm layers in `freeze` do. `frozen`: they keep their statistics
            to the end, even when they are unfrozen. `adapt`: they are trained from the start, and
            their statistics follow the new data. `groupnorm`: they are replaced by group
            normalisation, which has no statistics and is trained from the start.
    """

    def __init__(
        self,
        freeze: list[str] | None = None,
        unfreeze: dict[int, list[str]] | None = None,
        lr_factors: dict[str, float] | None = None,
        batch_norm: Literal["frozen", "adapt", "groupnorm"] = "frozen",
    ) -> None:
        self.freeze, self.unfreeze = freeze or [], unfreeze or {}
        self.lr_factors, self.batch_norm = lr_factors or {}, batch_norm
        if not self.freeze and (self.unfreeze or batch_norm != "frozen"):
            raise UserError(
                f"freezing.unfreeze is {unfreeze}, freezing.batch_norm is {batch_norm!r}, but "
                "freezing.freeze is empty, and they are about what is in there. Name the parts, "
                "such as freeze: [body]; what is unfrozen at epoch 0 is trained from the start."
            )
        for epoch in self.unfreeze:
            if epoch < 0:
                raise UserError(f"freezing.unfreeze has epoch {epoch}; epochs count from 0.")
        for name, factor in self.lr_factors.items():
            if factor <= 0:
                raise UserError(
                    f"freezing.lr_factors has {factor} for {name!r}; a factor is above 0. What is "
                    "not to be trained belongs in freezing.freeze."
                )
        self._plan = freezing.Plan({}, {})
        self._num_norms = 0
        self._epoch = -1

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if stage != "fit" or not isinstance(pl_module, Task):
            return
        network, names = pl_module.network, freezing.part_names(pl_module.network)
        norms = freezing.batch_norms(
            network, freezing.matching(names, self.freeze, "freezing.freeze")
        )
        if self.batch_norm == "groupnorm":
            pl_module.group_norms += freezing.replace_batch_norms(network, norms)
            norms = pl_module.group_norms
        self._num_norms = len(norms)
        self._plan = freezing.plan(
            network,
            self.freeze,
            self.unfreeze,
            fixed=norms if self.batch_norm == "frozen" else (),
            free=() if self.batch_norm == "frozen" else norms,
        )
        if not any(self._trains(name, epoch=0) for name, _ in network.named_parameters()):
            raise UserError(
                f"freezing.freeze is {self.freeze}, which is all of {type(network).__name__}, so "
                "there is nothing to train in the first epoch. Leave the head out of it."
            )
        # what is unfrozen later is frozen when training starts, not now: the optimizer (and
        # DistributedDataParallel) must know it
        for name, start in self._plan.parameters.items():
            network.get_parameter(name).requires_grad_(start is not None)
        names = freezing.part_names(network)
        pl_module.parts = [
            Part(pattern, factor, freezing.matching(names, [pattern], "freezing.lr_factors"))
            for pattern, factor in self.lr_factors.items()
        ]

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._epoch = -1
        self._apply(trainer, pl_module)

    def on_train_epoch_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._apply(trainer, pl_module)

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        # a run resumed in mid-epoch has no start of an epoch; a validation within one may have
        # changed the modes
        self._apply(trainer, pl_module)

    def _apply(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if not isinstance(pl_module, Task):
            return
        network, epoch = pl_module.network, trainer.current_epoch
        for name, start in self._plan.modules.items():
            network.get_submodule(name).training = freezing.begun(start, epoch)
        if epoch == self._epoch:
            return
        for name in self._plan.parameters:
            network.get_parameter(name).requires_grad_(self._trains(name, epoch))
        if self.freeze and (self._epoch < 0 or epoch in self._plan.parameters.values()):
            pl_module.print(self._share(network, epoch))
        self._epoch = epoch

    def _trains(self, parameter: str, epoch: int) -> bool:
        return freezing.begun(self._plan.parameters.get(parameter, 0), epoch)

    def _share(self, network: nn.Module, epoch: int) -> str:
        """How much of the network is trained, in words."""
        trained = sum(p.numel() for p in network.parameters() if p.requires_grad)
        of_all = sum(p.numel() for p in network.parameters())
        later = sorted({s for s in self._plan.parameters.values() if s is not None and s > epoch})
        more = f"; more from epoch {', '.join(str(s + 1) for s in later)} on" if later else ""
        does = {
            "frozen": "keep their statistics",
            "adapt": "adapt to the data",
            "groupnorm": "are now GroupNorm",
        }
        return (
            f"epoch {epoch + 1}: {trained:,} of {of_all:,} parameters are trained "
            f"({trained / of_all:.1%}){more}; {self._num_norms} BatchNorm layers "
            f"{does[self.batch_norm]}"
        )
