"""Clipping by global norm, with the norm before it in the log."""

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor
from torch.optim import Optimizer

from project.errors import UserError

CHUNK = 1024
"""Norms kept one by one before they are put together."""


class Clipping(Callback):
    """Scales the gradients down where their global norm is too large; off unless told how large.

    The norm before that is logged per epoch, as `grad_norm` (mean) and `grad_norm_max`; a step that
    a loss scaler leaves out does not count. Clipping sees gradients as the optimizer does: without
    the loss scaler's factor, and of a whole accumulation window.

    Args:
        max_norm: Largest norm that a step may have, such as 1.0; `.inf` only measures.
    """

    def __init__(self, max_norm: float | None = None) -> None:
        if max_norm is not None and not max_norm > 0:
            raise UserError(
                f"clipping.max_norm is {max_norm}; it must be above 0, such as 1.0. To switch "
                "clipping off, leave it out."
            )
        self.max_norm = max_norm
        self._norms: list[Tensor] = []  # of this epoch: left on the device, read once at its end

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if self.max_norm is not None and trainer.gradient_clip_val is not None:
            raise UserError(
                f"clipping.max_norm is {self.max_norm} and trainer.gradient_clip_val is "
                f"{trainer.gradient_clip_val}: the gradients would be clipped twice. Leave "
                "trainer.gradient_clip_val out; clipping.max_norm logs the norm as well."
            )

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self.max_norm is None or getattr(trainer.precision_plugin, "scaler", None) is None:
            return
        for optimizer in trainer.optimizers:
            if getattr(optimizer, "_step_supports_amp_scaling", False):
                raise UserError(
                    f"clipping.max_norm is {self.max_norm}, but a fused {type(optimizer).__name__} "
                    "divides by the loss scaler's factor inside of its step, where nothing can be "
                    "clipped. Leave fused out of model.optimizer, or train in bf16-mixed."
                )

    def on_train_epoch_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._norms = []

    def on_before_optimizer_step(
        self, trainer: L.Trainer, pl_module: L.LightningModule, optimizer: Optimizer
    ) -> None:
        if self.max_norm is None:
            return
        parameters = with_gradient(optimizer)
        if not parameters:
            return
        norm = gradient_norm(optimizer)
        torch.nn.utils.clip_grads_with_norm_(parameters, self.max_norm, norm)
        self._norms.append(norm.detach().reshape(1))
        if len(self._norms) >= CHUNK:
            self._norms = [torch.cat(self._norms)]

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if not self._norms:
            return
        norms = torch.cat(self._norms)
        norms = norms[norms.isfinite()]
        if len(norms):
            self.log_dict({"grad_norm": norms.mean(), "grad_norm_max": norms.max()})
        self._norms = []

    def state_dict(self) -> dict[str, Tensor]:
        return {"norms": torch.cat(self._norms).cpu()} if self._norms else {}

    def load_state_dict(self, state_dict: dict[str, Tensor]) -> None:
        self._norms = list(state_dict.values())


def with_gradient(optimizer: Optimizer) -> list[Tensor]:
    """The parameters that the next step of an optimizer will change."""
    return [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]


def gradient_norm(optimizer: Optimizer) -> Tensor:
    """The global norm of all gradients, on their device: nothing waits for it."""
    gradients = [p.grad for p in with_gradient(optimizer) if p.grad is not None]
    return torch.nn.utils.get_total_norm(gradients)
