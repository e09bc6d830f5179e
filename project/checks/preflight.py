"""The cheap part of the checks, before every training."""

import sys

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback

from project.checks.outcome import counted
from project.checks.report import Check, run
from project.checks.subject import Subject
from project.data import DataModule
from project.errors import UserError
from project.tasks import Task

SECONDS = 3.0


class Preflight(Callback):
    """Runs the quick checks before training, says so in a line, and stops at what would spoil it.

    Nothing of the run is changed: the checks work on copies, and the generators are put back. A
    resumed run is not looked at again.

    Args:
        checks: The quick ones are run.
    """

    def __init__(self, checks: tuple[Check, ...]) -> None:
        self.checks = [check for check in checks if check.quick]

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        data = getattr(trainer, "datamodule", None)
        resumes = getattr(trainer, "ckpt_path", None) is not None
        if resumes or not isinstance(pl_module, Task) or not isinstance(data, DataModule):
            return
        subject = Subject(
            pl_module,
            data,
            accumulate=trainer.accumulate_grad_batches,
            epochs=trainer.max_epochs,
        )
        subject.quick = True
        on_gpu = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        report = run(subject, self.checks, SECONDS)
        torch.cuda.set_rng_state_all(on_gpu)
        self._tell(report.alarms(), counted(report.outcomes), sum(report.seconds.values()))
        lines = [f"- {each.line()}" for each in report.alarms() if each.status == "failed"]
        if lines:
            raise UserError(
                "Training would be spoilt (all of it: python -m project check; to train all the "
                "same: --run.preflight false):\n" + "\n".join(lines)
            )

    def _tell(self, alarms: list, told: str, seconds: float) -> None:
        print(f"preflight: {told}, in {seconds:.1f} s", file=sys.stderr)
        for each in alarms:
            if each.status == "warning":
                print(f"warning: {each.line()}", file=sys.stderr)
