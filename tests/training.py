"""A small training in memory, for tests about single steps."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.plugins import MixedPrecision
from torch import Tensor, nn
from torch.utils.data import DataLoader

from project.callbacks import Checkpoint, History
from project.checkpoints import AtomicCheckpointIO
from project.tasks import Classification
from project.trainer import Trainer


class Small(nn.Module):
    """Two layers with normalisation in between; `middle` may be anything."""

    def __init__(self, middle: nn.Module | None = None) -> None:
        super().__init__()
        self.hidden = nn.Linear(2, 4)
        self.norm = nn.BatchNorm1d(4)
        self.middle = middle or nn.ReLU()
        self.head = nn.Linear(4, 2)

    def forward(self, features: Tensor) -> Tensor:
        return self.head(self.middle(self.norm(self.hidden(features))))


class Weighted(Classification):
    """Its batches say how much their loss counts."""

    def loss_weight(self, batch: Any) -> Tensor | int:
        return batch.get("weight", super().loss_weight(batch))


def task(network: Callable[[], nn.Module] = Small, **options: Any) -> Weighted:
    """The same one every time."""
    torch.manual_seed(0)
    options.setdefault("optimizer", lambda groups: torch.optim.SGD(groups, lr=0.1, momentum=0.9))
    return Weighted(network(), ["a", "b"], **options)


def batches(*sizes: int) -> list[dict[str, Any]]:
    """One batch of each size; the samples are numbered through."""
    generator, made, start = torch.Generator().manual_seed(1), [], 0
    for size in sizes:
        features = torch.randn(size, 2, generator=generator)
        made.append(
            {
                "inputs": {"features": features},
                "target": (features.sum(dim=1) > 0).long(),
                "index": torch.arange(start, start + size),
            }
        )
        start += size
    return made


def fit(
    trained: L.LightningModule,
    given: list[dict[str, Any]],
    folder: Path,
    *callbacks: Callback,
    checkpoint: Checkpoint | None = None,
    resume: bool = False,
    **options: Any,
) -> Trainer:
    """Train over batches, validate on the first of them; one epoch, if nothing else is said."""
    defaults = {"max_epochs": 1, "logger": False, "num_sanity_val_steps": 0}
    kept = [checkpoint] if checkpoint else []
    options.setdefault("plugins", [])
    trainer = Trainer(
        **{**defaults, **options, "plugins": [*options["plugins"], AtomicCheckpointIO()]},
        default_root_dir=folder,
        callbacks=[*callbacks, History(), *kept],
        accelerator="cpu",
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    loader = DataLoader(given, batch_size=None)  # ty: ignore[invalid-argument-type]
    path = str(folder / "checkpoints" / "last.ckpt") if resume else None
    trainer.fit(trained, loader, DataLoader(given[:1], batch_size=None), ckpt_path=path)
    return trainer


def fp16(init_scale: float = 2.0**16) -> MixedPrecision:
    """Real float16 with a real loss scaler, on a CPU."""
    scaler = torch.amp.GradScaler("cpu", init_scale=init_scale)
    return MixedPrecision("16-mixed", "cpu", scaler)


class Spy(Callback):
    """Calls a function before every optimizer step, and after every batch."""

    def __init__(
        self, before_step: Callable[..., Any] | None = None, after: Callable[..., Any] | None = None
    ) -> None:
        self.before_step, self.after, self.seen = before_step, after, []

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        if self.before_step:
            self.seen.append(self.before_step(pl_module))

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *rest: Any) -> None:
        if self.after:
            self.seen.append(self.after(pl_module))


def gradient(trained: nn.Module) -> Tensor:
    """All gradients in a row."""
    return torch.cat([p.grad.flatten().clone() for p in trained.parameters() if p.grad is not None])


def weights(trained: Any) -> dict[str, Tensor]:
    """The network's state, as it is now."""
    return {name: tensor.clone() for name, tensor in trained.network.state_dict().items()}


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    """Whether two states are bitwise equal."""
    return all(torch.equal(tensor, second[name]) for name, tensor in first.items())
