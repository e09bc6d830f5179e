"""Batches of similar lengths, so that little of them is padding; and how much it is."""

import numpy as np
import torch

from project.findings import Finding


def alike(order: torch.Tensor, lengths: np.ndarray, pool: int) -> torch.Tensor:
    """Sort a random order by length, within stretches: near samples then have similar lengths.

    The order within a stretch of one length stays random, and which samples share a stretch changes
    with the order, so that batches differ from epoch to epoch.

    Args:
        order: Sample numbers, in random order [N].
        lengths: Of all samples.
        pool: Samples of a stretch.
    """
    sorted_stretches = [
        stretch[np.argsort(lengths[stretch], kind="stable")]
        for stretch in np.split(order.numpy(), range(pool, len(order), pool))
    ]
    return torch.from_numpy(np.concatenate(sorted_stretches))


def padded_share(lengths: np.ndarray, batches: list[torch.Tensor]) -> float:
    """Share of what the network is given that is padding, over all batches.

    Args:
        lengths: Of all samples.
        batches: Sample numbers.
    """
    filled = sum(int(lengths[batch.numpy()].sum()) for batch in batches)
    given = sum(int(lengths[batch.numpy()].max()) * len(batch) for batch in batches)
    return 1 - filled / given if given else 0.0


def waste(used: list[torch.Tensor], random: list[torch.Tensor], lengths: np.ndarray) -> Finding:
    """What bucketing saves, as a note.

    Args:
        used: The batches of an epoch.
        random: Those in random order.
        lengths: Of all samples.
    """
    median, longest = int(np.median(lengths)), int(lengths.max())
    share, plain = padded_share(lengths, used), padded_share(lengths, random)
    told = f"lengths from {lengths.min()} to {longest}, half up to {median}; "
    told += f"{share:.1%} of the training batches is padding"
    return Finding("note", f"{told}, in random order {plain:.1%}")
