"""A NaN or an infinity never reaches the weights, and where it came from is said."""

import math
from pathlib import Path
from typing import Any, Literal

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor
from torch.optim import Optimizer

from project.callbacks.clipping import gradient_norm, with_gradient
from project.errors import UserError
from project.tasks import Task
from project.tasks.tracing import all_finite, count, first_gradient_not_finite, first_not_finite

MAX_NAMED = 8
"""Samples of a batch that a message names."""


class NonFinite(Callback):
    """Stops, or skips the step, when the loss or a gradient is NaN or infinite.

    One number is looked at per step: the loss plus the gradient's norm. Only when it is not finite
    is the step run again, to name the first module whose output is not. Infinite gradients under a
    loss scaler (fp16) are the scaler's business. Weights that are not finite are never written to a
    checkpoint, so that the last one is always good.

    Args:
        on_error: `stop` the run with a message; `skip` the optimizer step (with accumulation: the
            whole window), as if its batch had not been there, and say how many; `off` looks at
            nothing, not even when a checkpoint is written.
    """

    def __init__(self, on_error: Literal["stop", "skip", "off"] = "stop") -> None:
        self.on_error = on_error
        self.skipped = 0  # optimizer steps of the run
        self._skipped_now = 0  # of this epoch
        self._steps_now = 0
        self._batch: Any = None
        self._loss: Tensor | None = None  # of the window so far
        self._found = ""  # what is wrong in this window
        self._kept: list[Tensor] = []  # statistics before this window, to be put back

    def on_train_epoch_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._skipped_now = self._steps_now = 0

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        self._batch, self._batch_idx = batch, batch_idx
        if self.on_error == "skip" and self._loss is None and isinstance(pl_module, Task):
            self._kept = [tensor.clone() for tensor in _statistics(pl_module)]

    def on_before_backward(
        self, trainer: L.Trainer, pl_module: L.LightningModule, loss: Tensor
    ) -> None:
        if self.on_error != "off":
            loss = loss.detach()
            self._loss = loss if self._loss is None else self._loss + loss

    def on_after_backward(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        # of a window, the batch is known only now; without accumulation the next hook does it all
        if trainer.accumulate_grad_batches > 1 and self._loss is not None and not self._found:
            self._check(trainer, pl_module, self._loss, None)

    def on_before_optimizer_step(
        self, trainer: L.Trainer, pl_module: L.LightningModule, optimizer: Optimizer
    ) -> None:
        if self._loss is None:
            return
        if not self._found:
            scaled = getattr(trainer.precision_plugin, "scaler", None) is not None
            norm = None if scaled else gradient_norm(optimizer)
            self._check(trainer, pl_module, self._loss, norm)
        if self._found:
            self._skip(pl_module, optimizer)
        self._steps_now += 1
        self._loss, self._found = None, ""

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if not self._skipped_now:
            return
        told = (
            f"epoch {trainer.current_epoch + 1}: {self._skipped_now} of {self._steps_now} optimizer"
            f" steps were skipped, {self.skipped} since the run began: not finite"
        )
        if self._skipped_now == self._steps_now:
            raise UserError(f"{told}. Not one was left; see what was said of the first.")
        pl_module.print(told)

    def on_save_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        if self.on_error == "off" or not isinstance(pl_module, Task):
            return
        for name, tensor in pl_module.network.named_parameters():
            if not all_finite(tensor):
                raise UserError(
                    f"epoch {trainer.current_epoch + 1}, step {trainer.global_step}: "
                    f"network.{name} has {count(tensor)}, so no checkpoint is written. "
                    + self._advice(trainer)
                )

    def state_dict(self) -> dict[str, int]:
        return {"skipped": self.skipped, "now": self._skipped_now, "steps": self._steps_now}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        self.skipped, self._skipped_now = state_dict["skipped"], state_dict["now"]
        self._steps_now = state_dict["steps"]

    def _check(
        self, trainer: L.Trainer, pl_module: L.LightningModule, loss: Tensor, norm: Tensor | None
    ) -> None:
        value = loss if norm is None else loss.float() + norm.to(loss.device)
        bad = not math.isfinite(float(value.float().cpu().numpy()))  # the one wait of a step
        if trainer.world_size > 1:  # all processes or none
            bad = trainer.strategy.reduce_boolean_decision(bad, all=False)
        if not bad:
            return
        self._found = self._explain(trainer, pl_module, loss, norm)
        if self.on_error == "stop":
            raise UserError(f"{self._found} {self._advice(trainer)}")
        if not self.skipped:
            pl_module.print(f"warning: {self._found} The step is skipped.")

    def _explain(
        self, trainer: L.Trainer, pl_module: L.LightningModule, loss: Tensor, norm: Tensor | None
    ) -> str:
        what, samples = "", []
        if isinstance(pl_module, Task):
            pl_module.on_train_batch_start(self._batch, self._batch_idx)  # the seeds of the step
            with trainer.precision_plugin.forward_context():
                what, samples = first_not_finite(pl_module, self._batch)
            what = what or first_gradient_not_finite(pl_module) or "not found again in this batch"
        optimizer = trainer.optimizers[0]
        rate = max(group["lr"] for group in optimizer.param_groups)
        numbers = [f"loss {float(loss):.4g}", f"learning rate {rate:.3g}"]
        numbers += [f"gradient norm {float(norm):.3g}"] if norm is not None else []
        weights = torch.nn.utils.get_total_norm([p.detach() for p in with_gradient(optimizer)])
        numbers.append(f"weight norm {float(weights):.3g}")
        return (
            f"epoch {trainer.current_epoch + 1}, step {trainer.global_step + 1}: not finite. First "
            f"in {what}. {', '.join(numbers)}. {self._samples(trainer, samples)}"
        )

    def _samples(self, trainer: L.Trainer, positions: list[int]) -> str:
        """The samples of the batch by name, or those of them that are at fault."""
        index = self._batch["index"].tolist()
        chosen = [index[position] for position in positions] or index
        data = getattr(trainer, "datamodule", None)
        names = data.names("train") if data is not None else None
        named = [str(names[n]) if names else f"number {n}" for n in chosen[:MAX_NAMED]]
        more = f" and {len(chosen) - MAX_NAMED} more" if len(chosen) > MAX_NAMED else ""
        which = "Samples at fault" if positions else "Samples of the batch"
        return f"{which}: {', '.join(named)}{more}."

    def _advice(self, trainer: L.Trainer) -> str:
        last = Path(trainer.default_root_dir) / "checkpoints" / "last.ckpt"
        kept = (
            f"The last good checkpoint is {last}."
            if last.is_file()
            else "There is no checkpoint yet."
        )
        return (
            f"{kept} Look at the data first (python -m project check), then lower "
            "--model.optimizer.lr tenfold, then --clipping.max_norm 1.0, then --trainer.precision "
            "32-true. To go on without such steps: --non_finite.on_error skip."
        )

    def _skip(self, pl_module: L.LightningModule, optimizer: Optimizer) -> None:
        """Leave everything as it was before the window: an optimizer passes over no gradient."""
        for parameter in with_gradient(optimizer):
            parameter.grad = None
        if isinstance(pl_module, Task):
            with torch.no_grad():
                for tensor, kept in zip(_statistics(pl_module), self._kept, strict=True):
                    tensor.copy_(kept)
        self.skipped += 1
        self._skipped_now += 1


def _statistics(task: Task) -> list[Tensor]:
    """What a forward pass changes: running statistics, and the mean loss of the epoch."""
    of_loss = task.train_loss.metric_state.values()
    return [*task.network.buffers(), *(t for t in of_loss if isinstance(t, Tensor))]
