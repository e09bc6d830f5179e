"""From a list of samples to a batch, explicitly: stacked, padded, or kept as a list."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from project.batches import IGNORED, VARIABLE
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


def pad(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """Pad the inputs that differ in length at their ends with 0, and say where in `padding`.

    Args:
        samples: Samples as in `project.batches`; of the inputs, those in `VARIABLE` have a length,
            and all of a sample the same one.

    Raises:
        UserError: A sample is empty, for which nothing could be predicted.

    Shapes:
        tokens int64 [T] → [B, max T]; sequence float [T, F] → [B, max T, F]
        padding: bool [B, max T]
    """
    names = [name for name in samples[0]["inputs"] if name in VARIABLE]
    lengths = torch.tensor([len(sample["inputs"][names[0]]) for sample in samples])  # [B]
    if not lengths.all():
        index = samples[int(lengths.argmin())].get("index", "unknown")
        raise UserError(
            f"Sample {index} has no {names[0]}: its length is 0. Leave it out, or give it one step."
        )
    fixed = [
        {**s, "inputs": {n: v for n, v in s["inputs"].items() if n not in names}} for s in samples
    ]
    batch = stack(fixed)
    for name in names:
        batch["inputs"][name] = pad_sequence([s["inputs"][name] for s in samples], batch_first=True)
    batch["inputs"]["padding"] = torch.arange(int(lengths.max())) >= lengths[:, None]
    return batch


def listed(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """Stack the inputs, and keep the targets as a list: images have any number of boxes, or none.

    Args:
        samples: Samples as in `project.batches`, with a dictionary of tensors for a target.
    """
    batch = stack([{name: s[name] for name in s if name != "target"} for s in samples])
    if "target" in samples[0]:
        batch["target"] = [sample["target"] for sample in samples]
    return batch


def bordered(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """Stack samples whose masks differ in size: smaller ones get a border that is ignored.

    Args:
        samples: Samples as in `project.batches`, with a mask [H, W] for a target, if any.

    Shapes:
        target: int64 [H, W] → [B, max H, max W], `IGNORED` to the right and below
    """
    batch = stack([{name: s[name] for name in s if name != "target"} for s in samples])
    if "target" in samples[0]:
        masks = [sample["target"] for sample in samples]
        height, width = (max(mask.shape[side] for mask in masks) for side in (0, 1))
        target = masks[0].new_full((len(masks), height, width), IGNORED)
        for row, mask in enumerate(masks):
            target[row, : mask.shape[0], : mask.shape[1]] = mask
        batch["target"] = target
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
