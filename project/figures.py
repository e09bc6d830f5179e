"""Pictures a person would look at; drawn without pyplot, so without a display and without state."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

_MAX_WRITTEN_CLASSES = 20  # beyond that, numbers in cells are too small to read


def confusion_matrix(counts: Sequence[Sequence[int]], names: Sequence[str]) -> Figure:
    """Counts of true class (row) against predicted class (column), coloured by share of the row.

    Args:
        counts: One row per true class.
        names: Class names, in the order of the rows.
    """
    side = min(16.0, 3.0 + 0.45 * len(names))
    figure = Figure(figsize=(side + 1, side), layout="constrained")
    axes = figure.add_subplot()
    shares = [[value / max(1, sum(row)) for value in row] for row in counts]
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    figure.colorbar(image, ax=axes, label="share of the true class", shrink=0.8)
    right = sum(row[i] for i, row in enumerate(counts))
    total = sum(map(sum, counts))
    axes.set(
        xlabel="predicted class",
        ylabel="true class",
        title=f"{right} of {total} right ({right / max(1, total):.1%})",
    )
    ticks = range(len(names))
    axes.set_xticks(ticks, names, rotation=90 if max(map(len, names)) > 3 else 0)
    axes.set_yticks(ticks, names)
    if len(names) <= _MAX_WRITTEN_CLASSES:
        _write_counts(axes, counts, shares)
    return figure


def _write_counts(
    axes: Axes, counts: Sequence[Sequence[int]], shares: Sequence[Sequence[float]]
) -> None:
    for row, values in enumerate(counts):
        for column, value in enumerate(values):
            if value:
                colour = "white" if shares[row][column] > 0.5 else "black"
                axes.text(column, row, str(value), ha="center", va="center", color=colour)


def learning_curves(
    rows: Sequence[dict[str, float | None]], monitor: str, best_epoch: int | None
) -> Figure | None:
    """Loss, the other metrics and the learning rate over the epochs, one below the other.

    Args:
        rows: One per epoch, as in `metrics.csv`.
        monitor: The metric that chooses the best checkpoint.
        best_epoch: Epoch of the best checkpoint, marked with a line.

    Returns:
        None when there is nothing to draw yet.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    losses = [name for name in names if name.endswith("loss")]
    rates = [name for name in names if name.startswith("lr")]
    metrics = [n for n in names if n not in {*losses, *rates, "epoch", "step"}]
    panels = [
        (label, group)
        for label, group in (("loss", losses), ("metric", metrics), ("learning rate", rates))
        if group
    ]
    if not rows or not panels:
        return None
    figure = Figure(figsize=(8, 2.6 * len(panels)), layout="constrained")
    for axes, (label, group) in zip(
        figure.subplots(len(panels), sharex=True, squeeze=False)[:, 0], panels, strict=True
    ):
        for name in group:
            drawn = [(row["epoch"], row[name]) for row in rows if row.get(name) is not None]
            axes.plot(*zip(*drawn, strict=True), marker=".", label=name)
        if best_epoch is not None:
            axes.axvline(best_epoch, color="grey", linestyle=":", label=f"best {monitor}")
        if label == "loss" and all((row.get(n) or 1) > 0 for row in rows for n in group):
            axes.set_yscale("log")
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def augmentation_grid(images: Sequence[Sequence[np.ndarray]], titles: Sequence[str]) -> Figure:
    """Pictures in rows and columns: one row per sample, the first column as it is.

    They are put together before they are drawn, since every axes of its own takes as long as all.

    Args:
        images: uint8 [H, W] or [H, W, C] of any sizes.
        titles: Of the columns.
    """
    tiles = np.concatenate([np.concatenate([_tile(i) for i in row], axis=1) for row in images])
    rows, columns = len(images), len(titles)
    figure = Figure(figsize=(1.6 * columns, 1.6 * rows + 0.4), layout="constrained")
    axes = figure.add_subplot()
    axes.imshow(tiles, extent=(0, columns, rows, 0), interpolation="nearest")
    axes.set_xticks([n + 0.5 for n in range(columns)], titles)
    axes.set_yticks([])
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return figure


_TILE = 160  # pixels


def _tile(image: np.ndarray) -> np.ndarray:
    """uint8 [_TILE, _TILE, 3] with the picture as large as fits, by the nearest pixel, on white."""
    pixels = image if image.ndim == 3 else image[:, :, None]
    height, width = pixels.shape[:2]
    rows, columns = (max(1, _TILE * side // max(height, width)) for side in (height, width))
    pixels = pixels[np.arange(rows) * height // rows][:, np.arange(columns) * width // columns]
    tile = np.full((_TILE, _TILE, 3), 255, np.uint8)
    top, left = (_TILE - rows) // 2, (_TILE - columns) // 2
    tile[top : top + rows, left : left + columns] = pixels
    return tile
