"""Pictures of what was released, as SVG: densities, curves, what models say of their columns."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.report import svg
from sfumato.report.chart import number
from sfumato.report.explanations import curve_picture
from sfumato.storage.models import load
from sfumato.tables.files import TableFile

__all__ = ["drawn"]

WIDTH, HEIGHT = 340, 190
LEFT, RIGHT, TOP, BOTTOM = 8.0, 332.0, 26.0, 160.0
MOST_COLUMNS = 6


def drawn(folder: Path, release: dict[str, Any]) -> list[str]:
    """Draw a release, from its files alone.

    folder: The files of the release.
    release: Its record.
    Returns: Pictures, as elements of a page.
    """
    if "grid.parquet" in release["files"]:
        return _of_grid(folder / "grid.parquet", release["id"])
    if release["class"].startswith("PrivateAdditive"):
        explanation = load(folder / "model.sfumato").explain()
        curves = explanation.curves[:MOST_COLUMNS]
        return [
            curve_picture(one, key=f"c{release['id']}{place}") for place, one in enumerate(curves)
        ]
    return []


def _of_grid(path: Path, identity: str) -> list[str]:
    table = TableFile(path).read()
    values = [np.asarray(table[name], dtype=float) for name in table.column_names]
    if len(values) == 2:
        return [_line(values[0], values[1], table.column_names, identity)]
    if len(values) == 3:
        return [_squares(values, table.column_names, identity)]
    return []


def _line(x: np.ndarray, y: np.ndarray, names: list[str], identity: str) -> str:
    low, high = min(0.0, float(y.min())), float(y.max())
    across = LEFT + (x - x[0]) / max(x[-1] - x[0], 1e-300) * (RIGHT - LEFT)
    down = BOTTOM - (y - low) / max(high - low, 1e-300) * (BOTTOM - TOP)
    told = "; ".join(
        f"{number(float(a), '.4g')}: {number(float(b), '.3g')}"
        for a, b in list(zip(x, y, strict=True))[:: max(len(x) // 10, 1)]
    )
    title = f"{names[1]} of {names[0]}"
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, down, strict=True))
    return "".join(
        [
            svg.opening(title, (WIDTH, HEIGHT), told, f"g{identity}"),
            svg.text(LEFT, 14, svg.cut(title, 40), "axis-name"),
            svg.text(RIGHT, 14, f"up to {number(high, '.3g')}", "tick", anchor="end"),
            svg.rule(LEFT, BOTTOM, RIGHT, BOTTOM, "base"),
            f'<polyline class="line" points="{points}"/>',
            svg.text(LEFT, BOTTOM + 18, number(float(x[0]), ".4g"), "tick"),
            svg.text(RIGHT, BOTTOM + 18, number(float(x[-1]), ".4g"), "tick", anchor="end"),
            "</svg>",
        ]
    )


def _squares(values: list[np.ndarray], names: list[str], identity: str) -> str:
    x, y, z = values
    xs, ys = np.unique(x), np.unique(y)
    shares = np.clip(z / max(float(z.max()), 1e-300), 0.0, 1.0)
    width, height = (RIGHT - LEFT) / len(xs), (BOTTOM - TOP) / len(ys)
    across = LEFT + np.searchsorted(xs, x) * width
    down = BOTTOM - (np.searchsorted(ys, y) + 1) * height
    title = f"{names[2]} of {names[0]} (across) and {names[1]} (up)"
    cells = "".join(
        f'<rect class="cell" x="{a:.1f}" y="{b:.1f}" width="{width:.2f}" height="{height:.2f}" '
        f'fill-opacity="{share:.2f}"/>'
        for a, b, share in zip(across, down, shares, strict=True)
        if share > 0.005
    )
    opened = svg.opening(title, (WIDTH, HEIGHT), f"Darker is denser: {title}", f"g{identity}")
    label = svg.text(LEFT, 14, svg.cut(escape(title), 50), "axis-name")
    return f"{opened}{label}{cells}</svg>"
