"""The preflight: what can be known to go wrong before a run is started.

A check is a function of the subject (a task and its data) that yields outcomes; a new one goes into
`CHECKS`, in the order in which a person would look.
"""

import math

from project.checks import (
    behaviour,
    environment,
    first_loss,
    labels,
    learning,
    learning_rate,
    loading,
    model,
    resources,
    splits,
    statistics,
    values,
)
from project.checks.files import audit
from project.checks.outcome import Outcome
from project.checks.report import Check, Report, run
from project.checks.subject import Subject

CHECKS = (
    Check("data.files", audit, "D2", seconds=math.inf),
    Check("environment.versions", environment.versions, "S8", quick=True),
    Check("environment.accelerator", environment.accelerator, "X9", quick=True),
    Check("environment.workers", environment.workers, "D5", quick=True),
    Check("environment.shared_memory", environment.shared_memory, "D5", quick=True),
    Check("environment.open_files", environment.open_files, "D5", quick=True),
    Check("environment.disk", environment.disk, "S2", quick=True),
    Check("data.finite", values.finite, "X5", seconds=8, quick=True),
    Check("data.types", values.types, "D4", quick=True),
    Check("data.ranges", values.ranges, "X5", quick=True),
    Check("data.constant", values.constant, "X5", quick=True),
    Check("data.tokens", values.tokens, "X5", quick=True),
    Check("data.labels", labels.labels, "X5", quick=True),
    Check("data.balance", labels.balance, "X5"),
    Check("data.order", labels.order, "D7"),
    Check("data.leakage", splits.leakage, "D13"),
    Check("data.contradictions", splits.contradictions, "D2"),
    Check("data.evaluation", splits.evaluation, "D3"),
    Check("data.meaning", splits.meaning, "X6", seconds=6),
    Check("data.batches", loading.batches, "D8", quick=True),
    Check("data.batch_of_one", loading.batch_of_one, "D8", quick=True),
    Check("data.padding", values.padding, "D9", quick=True),
    Check("data.pickling", loading.pickling, "D10"),
    Check("data.randomness", loading.randomness, "T4"),
    Check("model.step", model.step, "X1", quick=True),
    Check("model.layers", model.layers, "X2", needs_forward=True),
    Check("model.hidden", model.hidden, "M2", quick=True),
    Check("model.gradients", model.gradients, "X1", quick=True, needs_forward=True),
    Check("model.devices", model.devices, "M3", needs_forward=True),
    Check("model.modes", behaviour.modes, "M8", quick=True, needs_forward=True),
    Check("model.batch_mates", behaviour.batch_mates, "M8", needs_forward=True),
    Check("model.padding", behaviour.padding, "D9", needs_forward=True),
    Check("model.symmetry", statistics.symmetry, "M4"),
    Check("loss.first", first_loss.first_loss, "X3", quick=True, needs_forward=True),
    Check("loss.outputs", first_loss.outputs, "X3", quick=True, needs_forward=True),
    Check("loss.target_scale", first_loss.target_scale, "D16", quick=True, needs_forward=True),
    Check("loss.per_sample", behaviour.loss_per_sample, "T2", needs_forward=True),
    Check("learning.falls", learning.falls, "X4", seconds=6, needs_forward=True),
    Check("learning.augmented", learning.falls_augmented, "X4", seconds=6, needs_forward=True),
    Check("learning.uses_inputs", behaviour.uses_inputs, "X3", needs_forward=True),
    Check("learning.overfits", learning.overfits, "X6", seconds=12, needs_forward=True),
    Check("layers.gradients", statistics.gradients, "X7", needs_forward=True),
    Check("layers.dead_units", statistics.dead_units, "X7", needs_forward=True),
    Check("rate.usual", learning_rate.usual, "T7", quick=True, needs_forward=True),
    Check("rate.range_test", learning_rate.range_test, "T7", seconds=6, needs_forward=True),
    Check("resources.largest_batch", resources.largest_batch, "T11", needs_forward=True),
    Check("resources.waiting", resources.waiting, "X10", seconds=6, needs_forward=True),
)
"""All of them, in the order in which they run."""

__all__ = ["CHECKS", "Check", "Outcome", "Report", "Subject", "run"]
