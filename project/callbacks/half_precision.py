"""What half precision does behind one's back: said once, and per epoch where it happens."""

from typing import Any

import lightning as L
from lightning.pytorch.callbacks import Callback
from torch.optim import Optimizer

from project.tasks import Task


class HalfPrecision(Callback):
    """Says which part of the loss stays in float32, and how many steps the loss scaler left out.

    A scaler multiplies the loss, so that small gradients do not vanish in float16; where one
    overflows it leaves the step out and halves its factor. A few of these at the beginning are its
    way of finding the factor; many later on are a run that learns nothing.
    """

    def __init__(self) -> None:
        self.skipped = 0  # of the run
        self._taken = 0  # optimizer steps that were really taken, of this epoch
        self._due = 0  # and that were due
        self._handles: list[Any] = []

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if "mixed" in str(trainer.precision) and isinstance(pl_module, Task):
            kept = ", ".join(filter(None, ["weights and optimizer", pl_module.in_float32]))
            pl_module.print(f"{trainer.precision}: in float32 are {kept}")
        if self._scaler(trainer) is not None:
            self._handles = [o.register_step_post_hook(self._count) for o in trainer.optimizers]

    def on_before_optimizer_step(
        self, trainer: L.Trainer, pl_module: L.LightningModule, optimizer: Optimizer
    ) -> None:
        self._due += 1

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        scaler, skipped = self._scaler(trainer), self._due - self._taken
        if scaler is not None and skipped:
            self.skipped += skipped
            pl_module.print(
                f"epoch {trainer.current_epoch + 1}: the loss scaler left out {skipped} of "
                f"{self._due} optimizer steps, {self.skipped} since the run began; its factor is "
                f"now {scaler.get_scale():g}"
            )
        self._due = self._taken = 0

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def state_dict(self) -> dict[str, int]:
        return {"skipped": self.skipped, "due": self._due, "taken": self._taken}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        self.skipped, self._due = state_dict["skipped"], state_dict["due"]
        self._taken = state_dict["taken"]

    def _count(self, *_: Any) -> None:
        self._taken += 1

    def _scaler(self, trainer: L.Trainer) -> Any:
        return getattr(trainer.precision_plugin, "scaler", None)
