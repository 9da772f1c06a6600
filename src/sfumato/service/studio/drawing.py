"""Pictures of what was released, as SVG: densities, curves, what models say of their columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sfumato.models.saving import load
from sfumato.report.charts import (
    BOTTOM,
    LEFT,
    RIGHT,
    TOP,
    box,
    column_curve,
    ellipsize,
    path,
    picture,
    rule,
    text,
)
from sfumato.report.words import number
from sfumato.tables.files import TableFile

MAX_COLUMNS = 6


def drawn(folder: Path, release: dict[str, Any]) -> list[str]:
    """Draw a release, from its files alone."""
    if "grid.parquet" in release["files"]:
        table = TableFile(folder / "grid.parquet").read()
        values = [np.asarray(table[name], dtype=float) for name in table.column_names]
        draw = {2: _line, 3: _squares}.get(len(values))
        return [] if draw is None else [draw(values, table.column_names, release["id"])]
    if release["class"].startswith("PrivateAdditive"):
        explanation = load(folder / "model.sfumato").explain()
        curves = explanation.curves[:MAX_COLUMNS]
        return [
            column_curve(one, key=f"c{release['id']}{place}") for place, one in enumerate(curves)
        ]
    return []


def _line(values: list[np.ndarray], names: list[str], identity: str) -> str:
    x, y = values
    low, high = min(0.0, float(y.min())), float(y.max())
    across = LEFT + (x - x[0]) / max(x[-1] - x[0], 1e-300) * (RIGHT - LEFT)
    down = BOTTOM - (y - low) / max(high - low, 1e-300) * (BOTTOM - TOP)
    told = "; ".join(
        f"{number(float(a), '.4g')}: {number(float(b), '.3g')}"
        for a, b in list(zip(x, y, strict=True))[:: max(len(x) // 10, 1)]
    )
    title = f"{names[1]} of {names[0]}"
    marks = [
        text(LEFT, 14, ellipsize(title, 40), "axis-name"),
        text(RIGHT, 14, f"up to {number(high, '.3g')}", anchor="end"),
        rule(LEFT, BOTTOM, RIGHT, BOTTOM, "base"),
        path(zip(across, down, strict=True)),
        text(LEFT, BOTTOM + 18, number(float(x[0]))),
        text(RIGHT, BOTTOM + 18, number(float(x[-1])), anchor="end"),
    ]
    return picture(title, told, marks, key=f"g{identity}")


def _squares(values: list[np.ndarray], names: list[str], identity: str) -> str:
    x, y, z = values
    xs, ys = np.unique(x), np.unique(y)
    shares = np.clip(z / max(float(z.max()), 1e-300), 0.0, 1.0)
    width, height = (RIGHT - LEFT) / len(xs), (BOTTOM - TOP) / len(ys)
    across = LEFT + np.searchsorted(xs, x) * width
    down = BOTTOM - (np.searchsorted(ys, y) + 1) * height
    title = f"{names[2]} of {names[0]} (across) and {names[1]} (up)"
    marks = [text(LEFT, 14, ellipsize(title, 50), "axis-name")]
    marks += [
        box(a, b, width, height, "cell", share)
        for a, b, share in zip(across, down, shares, strict=True)
        if share > 0.005
    ]
    return picture(title, f"Darker is denser: {title}", marks, key=f"g{identity}")
