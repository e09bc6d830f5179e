"""From a list of samples to a batch, explicitly."""

from typing import Any

import torch
from torch import Tensor

from project.errors import UserError


def stack(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """Stack equal samples: every tensor gets a batch dimension in front, numbers become tensors.

    Args:
        samples: Samples as in `project.batches`, all with the same entries.

    Raises:
        UserError: A sample lacks an entry, or two tensors of one entry differ in shape.
    """
    first = samples[0]
    batch: dict[str, Any] = {}
    for name in first:
        values = [_entry(sample, name, first) for sample in samples]
        if isinstance(first[name], dict):
            batch[name] = stack(values)
        elif isinstance(first[name], Tensor):
            batch[name] = _stacked(name, values)
        else:
            batch[name] = torch.tensor(values)
    return batch


def _entry(sample: dict[str, Any], name: str, first: dict[str, Any]) -> Any:
    if set(sample) != set(first):
        odd = sorted(set(sample) ^ set(first))
        raise UserError(
            f"The samples of a batch differ in their entries: {odd} is in one but not in another "
            f"(sample {sample.get('index', 'unknown')} against {first.get('index', 'unknown')}). "
            "Give every sample the same entries."
        )
    return sample[name]


def _stacked(name: str, values: list[Tensor]) -> Tensor:
    shapes = {tuple(value.shape) for value in values}
    if len(shapes) > 1:
        raise UserError(
            f"Samples of one batch have different shapes of {name!r}: {sorted(shapes)}. Bring them "
            "to one shape (resize, crop), or give the data module a collate that pads."
        )
    return torch.stack(values)
