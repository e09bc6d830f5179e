"""Pictures a person would look at; drawn without pyplot, so without a display and without state."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from torchvision.utils import draw_bounding_boxes, draw_segmentation_masks

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


def predicted_and_true(
    predicted: Sequence[Sequence[float]], true: Sequence[Sequence[float]], names: Sequence[str]
) -> Figure:
    """Each prediction against what is true; on the line they are equal.

    Args:
        predicted: One row per sample, one number per target.
        true: The same.
        names: Of the targets, a panel for each.
    """
    figure = Figure(figsize=(4.6 * len(names), 4.8), layout="constrained")
    rows = range(0, len(true), len(true) // _MAX_POINTS + 1)
    for k, (axes, name) in enumerate(
        zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True)
    ):
        x, y = [true[row][k] for row in rows], [predicted[row][k] for row in rows]
        axes.plot(x, y, ".", markersize=3, alpha=0.5)
        ends = [min(*x, *y), max(*x, *y)]
        axes.plot(ends, ends, color="grey", linewidth=1)
        axes.set(xlabel="true", ylabel="predicted", title=name, aspect="equal")
        axes.grid(alpha=0.3)
    return figure


_MAX_POINTS = 5000  # beyond that, they hide each other


Colour = tuple[int, int, int]


def colours(count: int) -> list[Colour]:
    """Colours that can be told apart, the same for the same number of classes; red, green, blue."""
    table = colormaps["tab10" if count <= 10 else "tab20" if count <= 20 else "hsv"]
    many = count > 20
    found = [table(number / count if many else number) for number in range(count)]
    return [(round(255 * r), round(255 * g), round(255 * b)) for r, g, b, _ in found]


def with_boxes(
    picture: np.ndarray, boxes: np.ndarray, labels: np.ndarray, num_classes: int
) -> np.ndarray:
    """A picture with boxes drawn on it in the colours of their classes.

    Args:
        picture: uint8 [H, W, C].
        boxes: Left, top, right, bottom in pixels: float [N, 4].
        labels: Class numbers: int [N].
        num_classes: Of which these are some.
    """
    pixels = _coloured(picture)
    if len(boxes):
        of_class = colours(num_classes)
        pixels = draw_bounding_boxes(
            pixels,
            torch.from_numpy(boxes),
            colors=[of_class[number] for number in labels],
            width=max(1, round(max(picture.shape[:2]) / 160)),
        )
    return pixels.permute(1, 2, 0).numpy()


def with_mask(picture: np.ndarray, mask: np.ndarray, num_classes: int) -> np.ndarray:
    """A picture with each pixel tinted by its class; others than these are left as they are.

    Args:
        picture: uint8 [H, W, C].
        mask: Class numbers: int [H, W].
        num_classes: How many there are.
    """
    layers = torch.from_numpy(mask == np.arange(num_classes)[:, None, None])  # bool [C, H, W]
    tinted = draw_segmentation_masks(
        _coloured(picture), layers, alpha=0.5, colors=list(colours(num_classes))
    )
    return tinted.permute(1, 2, 0).numpy()


def beside(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Two pictures of one height side by side, uint8 [H, W, 3], with a white line between them."""
    line = np.full((left.shape[0], max(2, left.shape[1] // 50), 3), 255, np.uint8)
    return np.concatenate([left, line, right], axis=1)


def gallery(
    pictures: Sequence[np.ndarray],
    captions: Sequence[str],
    *,
    title: str = "",
    legend: Mapping[str, Colour] | None = None,
) -> Figure:
    """Pictures with what is to be said of each below it.

    Args:
        pictures: uint8 [H, W, C] of any sizes.
        captions: One each.
        title: Of all.
        legend: What colours mean.
    """
    columns = min(4, len(pictures))
    rows = -(-len(pictures) // columns)
    tallest = max(each.shape[0] / each.shape[1] for each in pictures)
    lines = max(caption.count("\n") + 1 for caption in captions)
    height = rows * (3 * min(1.5, tallest) + 0.2 * lines) + 0.4 * bool(title) + 0.4 * bool(legend)
    figure = Figure(figsize=(3 * columns, height), layout="constrained")
    places = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in places:
        axes.set_axis_off()
    for axes, picture, caption in zip(places, pictures, captions, strict=False):
        axes.imshow(picture, cmap="gray")  # small ones by pixels, large ones smoothly
        axes.set_title(caption, fontsize="small", y=-0.02, verticalalignment="top")
    if title:
        figure.suptitle(title)
    if legend:
        patches = [
            Patch(color=(r / 255, g / 255, b / 255), label=n) for n, (r, g, b) in legend.items()
        ]
        shown = patches[:_MAX_WRITTEN_CLASSES]
        figure.legend(handles=shown, loc="outside lower center", ncols=6, fontsize="small")
    return figure


def _coloured(picture: np.ndarray) -> torch.Tensor:
    """uint8 [3, H, W] of a picture [H, W, C] that may be grey."""
    pixels = picture if picture.shape[2] == 3 else picture[:, :, :1].repeat(3, axis=2)
    return torch.from_numpy(np.ascontiguousarray(pixels)).permute(2, 0, 1)
