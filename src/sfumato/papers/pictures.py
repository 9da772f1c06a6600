"""Pictures of reproductions; matplotlib is an extra and is imported when one is drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, BinaryIO

RESOLUTION = 120
MAX_LINE = 45  # points that are joined by a line
MAX_SPACE = 3  # dimensions; a row of more numbers is an image


def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def picture(title: str, series: Mapping[str, Mapping[str, Any]], file: BinaryIO) -> None:
    """Draw a panel for each part as PNG: points of the plane or of space, or images in a row."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure: Any = Figure(layout="constrained")
    FigureCanvasAgg(figure)
    are_images = len(next(iter(next(iter(series.values())).values()))[0]) > MAX_SPACE
    shape = (len(series), 1) if are_images else (1, len(series))
    size = (8, len(series) + 0.6) if are_images else (3.4 * len(series) + 0.5, 3.6)
    figure.set_size_inches(*size)
    for number, (part, sets) in enumerate(series.items()):
        first = next(iter(sets.values()))
        space = {"projection": "3d"} if len(first[0]) == MAX_SPACE else {}
        axes = figure.add_subplot(*shape, number + 1, **space)
        axes.set_title(part, fontsize=8, wrap=True)
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
    figure.suptitle(title, fontsize=11, wrap=True)
    figure.savefig(file, format="png", dpi=RESOLUTION)
