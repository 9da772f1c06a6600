"""Pictures of reproductions; matplotlib is an extra and is imported when one is drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, BinaryIO

from sfumato.papers.entry import Comparison, Outcome

SHOWN = {  # fields of a comparison
    "printed": ("printed", "0.35"),
    "paper": ("as printed", "tab:orange"),
    "strict": ("mended", "tab:blue"),
}
RESOLUTION = 120
MAX_LINE = 45  # points that are joined by a line
MAX_SPACE = 3  # dimensions; a row of more numbers is an image


def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def picture(title: str, outcome: Outcome, file: BinaryIO) -> None:
    """Draw an outcome as PNG: its own picture, or its comparisons."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    if outcome.series:
        draw_panels(figure, outcome.series)
    else:
        draw_comparisons(figure, outcome.comparisons)
    figure.suptitle(title, fontsize=11, wrap=True)
    figure.savefig(file, format="png", dpi=RESOLUTION)


def draw_comparisons(figure: Any, rows: Sequence[Comparison]) -> None:
    """Draw printed, paper and strict figures as dots, a line a row and a panel a unit."""
    units = list(dict.fromkeys(row.unit for row in rows))
    panels = [[row for row in rows if row.unit == unit] for unit in units]
    tallest = max(4, *(len(panel) for panel in panels))
    figure.set_size_inches(2 + 5 * len(units), 1.4 + 0.26 * tallest)
    for axes, panel in zip(figure.subplots(1, len(units), squeeze=False)[0], panels, strict=True):
        for field, (name, colour) in SHOWN.items():
            values = [getattr(row, field) for row in panel]
            shown = [(value, i) for i, value in enumerate(values) if value is not None]
            if shown:
                axes.plot(*zip(*shown, strict=True), "o", color=colour, label=name, alpha=0.8)
        axes.set_yticks(range(len(panel)), [row.what for row in panel], fontsize=8)
        axes.invert_yaxis()
        axes.grid(axis="x", alpha=0.3)
        axes.set_xlabel(panel[0].unit)
        axes.legend(fontsize=8)


def draw_panels(figure: Any, series: Mapping[str, Mapping[str, Any]]) -> None:
    """Draw a panel a title: points of the plane or of space, or square images in a row."""
    are_images = len(next(iter(next(iter(series.values())).values()))[0]) > MAX_SPACE
    shape = (len(series), 1) if are_images else (1, len(series))
    size = (8, len(series) + 0.6) if are_images else (3.4 * len(series) + 0.5, 3.6)
    figure.set_size_inches(*size)
    for number, (title, sets) in enumerate(series.items()):
        first = next(iter(sets.values()))
        space = {"projection": "3d"} if len(first[0]) == MAX_SPACE else {}
        axes = figure.add_subplot(*shape, number + 1, **space)
        axes.set_title(title, fontsize=8, wrap=True)
        if are_images:
            side = math.isqrt(len(first[0]))
            strips = [
                [x for image in first for x in image[i : i + side]]
                for i in range(0, side * side, side)
            ]
            axes.imshow(strips, cmap="gray_r", vmin=0, vmax=1)
            axes.set_axis_off()
            continue
        for name, points in sets.items():
            style = ".-" if len(points) <= MAX_LINE else "."
            axes.plot(*zip(*points, strict=True), style, markersize=3, label=name, alpha=0.7)
        axes.legend(fontsize=7)
