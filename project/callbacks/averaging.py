"""An exponential moving average of the weights (EMA), evaluated and kept in their place."""

from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from project.errors import UserError
from project.tasks import Task


class Averaging(Callback):
    """Keeps an average of the weights over the last optimizer steps; off unless given a decay.

    Validation uses the average, and checkpoints have it where the weights are: so it is what is
    tested, exported and loaded. The weights that training goes on from are beside it, and come back
    on a resume. Running statistics are averaged as the weights are.

    (Lightning's `WeightAveraging` copies the whole module, with the metrics that it is accumulating
    at that moment, and writes those copies into the checkpoint.)

    Args:
        decay: Share of the average that a step keeps, such as 0.999: the average is over about
            1 / (1 - decay) steps, and over fewer at the beginning of a run.
    """

    def __init__(self, decay: float | None = None) -> None:
        if decay is not None and not 0 < decay < 1:
            raise UserError(
                f"ema.decay is {decay}; it is a share between 0 and 1, such as 0.999. To switch "
                "the average off, leave it out."
            )
        self.decay = decay
        self.updates = 0
        self._step = 0  # optimizer steps at the last update
        self._other: dict[str, Tensor] = {}  # the average, or the weights while it is in use
        self._in_use = False  # whether the average is in the network
        self._weights_before: dict[str, Tensor] = {}  # of the checkpoint gone on from

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self.decay is None or not isinstance(pl_module, Task):
            return
        self._use(pl_module.network, average=False)  # after an earlier fit
        self._step = trainer.global_step
        network = pl_module.network.state_dict()
        self._other = {name: tensor.detach().clone() for name, tensor in network.items()}
        if self._weights_before:  # what was loaded is the average
            pl_module.network.load_state_dict(self._weights_before)
            self._weights_before = {}

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        if self._other and trainer.global_step > self._step and isinstance(pl_module, Task):
            self._step = trainer.global_step
            self._update(pl_module.network)

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if isinstance(pl_module, Task) and trainer.state.fn == "fit":
            self._use(pl_module.network, average=True)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if isinstance(pl_module, Task) and trainer.state.fn == "fit":
            self._use(pl_module.network, average=False)

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if isinstance(pl_module, Task):
            self._use(pl_module.network, average=True)

    def on_save_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        if not self._other or not isinstance(pl_module, Task):
            return
        network = {name: tensor.detach() for name, tensor in pl_module.network.state_dict().items()}
        average, weights = (network, self._other) if self._in_use else (self._other, network)
        checkpoint["state_dict"] |= {f"network.{name}": tensor for name, tensor in average.items()}
        checkpoint["ema"] = {"weights": weights, "updates": self.updates}

    def on_load_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        ema = checkpoint.get("ema")
        if ema is None or trainer.state.fn != "fit":
            return
        if self.decay is None:
            pl_module.print("the run had averaged weights (ema.decay); it goes on from the average")
            return
        self.updates, self._weights_before = ema["updates"], ema["weights"]

    def _update(self, network: nn.Module) -> None:
        """Move the average towards the weights, at first faster, since it starts from anywhere."""
        assert self.decay is not None
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        self.updates += 1
        now = network.state_dict()
        for floating in (True, False):
            names = [name for name in now if now[name].is_floating_point() == floating]
            average, latest = ([of[name] for name in names] for of in (self._other, now))
            if floating:
                get_ema_multi_avg_fn(decay)(average, latest, None)
            else:  # a counter
                for mine, theirs in zip(average, latest, strict=True):
                    mine.copy_(theirs)

    def _use(self, network: nn.Module, *, average: bool) -> None:
        """Put the average into the network, or the weights."""
        if not self._other or self._in_use == average:
            return
        self._in_use = average
        with torch.no_grad():
            for name, tensor in network.state_dict().items():
                mine = tensor.clone()
                tensor.copy_(self._other[name])
                self._other[name].copy_(mine)
