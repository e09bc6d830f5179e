"""What the curves of a run show while there is time to change something."""

import sys
from itertools import pairwise

import lightning as L
from lightning.pytorch.callbacks import Callback
from tqdm import tqdm

DOCS = "docs/checks.md#during-training"

EPOCHS = 5
"""Epochs that are looked at together."""

FLAT = 0.005
"""Share of the first loss by which it must have fallen in so many epochs."""

SWINGS = 0.15
"""Share of its mean by which the loss must go up and down in turns to be called oscillating."""

VANISHED = 1e-6
"""Mean norm of the gradient below which nothing is learnt, where the loss has not yet fallen."""


class Hints(Callback):
    """Says at most once each, in a line: the loss is flat, the loss oscillates, gradients vanish.

    It reads what is logged per epoch anyway, so it costs nothing. The norm of the gradient is known
    where `clipping.max_norm` is set.
    """

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.said: list[str] = []

    def on_train_epoch_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        # the epoch before is logged by now, which it is not when its own end is announced
        logged = trainer.callback_metrics
        if "train_loss" not in logged or trainer.current_epoch == 0:
            return
        self.losses.append(float(logged["train_loss"]))
        norm = float(logged["grad_norm"]) if "grad_norm" in logged else None
        for name, line in _hints(self.losses, norm).items():
            if name not in self.said:
                self.said.append(name)
                if trainer.is_global_zero:
                    tqdm.write(f"hint: {line}", file=sys.stderr)

    def state_dict(self) -> dict[str, list]:
        return {"losses": list(self.losses), "said": list(self.said)}

    def load_state_dict(self, state_dict: dict[str, list]) -> None:
        self.losses, self.said = list(state_dict["losses"]), list(state_dict["said"])


def _hints(losses: list[float], norm: float | None) -> dict[str, str]:
    """What there is to say, by what it is about.

    Args:
        losses: The training loss of every epoch so far.
        norm: Mean norm of the last epoch's gradients, where it is known.
    """
    found: dict[str, str] = {}
    fallen = (losses[0] - min(losses)) / max(abs(losses[0]), 1e-12)
    if norm is not None and norm < VANISHED and fallen < 0.5:
        found["vanishing"] = (
            f"the gradient's norm is {norm:.1g}, and the loss has hardly fallen: gradients vanish. "
            f"python -m project check names the layers [X7, {DOCS}]"
        )
    if len(losses) == EPOCHS and fallen < FLAT:  # later a flat loss is how training ends
        found["flat"] = (
            f"the training loss has not fallen in {EPOCHS} epochs ({losses[0]:.4g} → "
            f"{losses[-1]:.4g}). python -m project check tells whether the learning rate, the "
            f"augmentation or the labels are at fault [X4, {DOCS}]"
        )
    recent = losses[-EPOCHS - 1 :]
    steps = [b - a for a, b in pairwise(recent)]
    swing = min((abs(step) for step in steps), default=0.0)
    mean = sum(map(abs, recent)) / len(recent)
    in_turns = len(steps) == EPOCHS and all(a * b < 0 for a, b in pairwise(steps))
    if in_turns and swing > SWINGS * mean:
        found["oscillating"] = (
            f"the training loss goes up and down ({', '.join(f'{x:.3g}' for x in recent)}): lower "
            f"--model.optimizer.lr tenfold [T7, {DOCS}]"
        )
    return found
