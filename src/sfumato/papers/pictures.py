"""Pictures of reproductions; matplotlib is an extra and is imported when one is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, BinaryIO

from sfumato.papers.entry import Comparison, Outcome

COLOURS = {"printed": "0.35", "paper": "tab:orange", "strict": "tab:blue"}
RESOLUTION = 120


def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def picture(title: str, outcome: Outcome, file: BinaryIO) -> None:
    """Draw an outcome as PNG: its own picture, or its comparisons."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    if outcome.draw is None:
        draw_comparisons(figure, outcome.comparisons)
    else:
        outcome.draw(figure, outcome.series)
    figure.suptitle(title, fontsize=11, wrap=True)
    figure.savefig(file, format="png", dpi=RESOLUTION)


def draw_comparisons(figure: Any, rows: Sequence[Comparison]) -> None:
    """Draw printed, paper and strict figures as dots, a line a row and a panel a unit."""
    units = list(dict.fromkeys(row.unit for row in rows))
    panels = [[row for row in rows if row.unit == unit] for unit in units]
    tallest = max(4, *(len(panel) for panel in panels))
    figure.set_size_inches(2 + 5 * len(units), 1.4 + 0.26 * tallest)
    for axes, panel in zip(figure.subplots(1, len(units), squeeze=False)[0], panels, strict=True):
        for name, colour in COLOURS.items():
            values = [getattr(row, name) for row in panel]
            shown = [(value, i) for i, value in enumerate(values) if value is not None]
            if shown:
                axes.plot(*zip(*shown, strict=True), "o", color=colour, label=name, alpha=0.8)
        axes.set_yticks(range(len(panel)), [row.what for row in panel], fontsize=8)
        axes.invert_yaxis()
        axes.grid(axis="x", alpha=0.3)
        axes.set_xlabel(panel[0].unit)
        axes.legend(fontsize=8)


def draw_lines(
    axes: Any, x: Sequence[float], curves: Mapping[str, Sequence[float | None]], **labels: str
) -> None:
    """Draw curves over one axis, dashed where they are the printed ones; gaps stay gaps."""
    for name, values in curves.items():
        gapless = [(a, b) for a, b in zip(x, values, strict=True) if b is not None]
        if gapless:
            style = "--" if name.startswith("printed") else "-"
            axes.plot(*zip(*gapless, strict=True), style, marker="o", markersize=3, label=name)
    axes.set(**labels)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
