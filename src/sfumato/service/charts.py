"""Charts of what was released: their numbers, written next to a release, and Vega-Lite of them.

A chart is ``{"title", "form", "x", "y", "rows"}``; each row has x, y, and where there is one a
band from `low` to `high` and a `series` (a class). Nothing here reads a raw row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

NAMES = {"axis": {"labelAngle": -30}}
MAX_CHARTS, BINS, MAX_BARS, PREVIEW_ROWS, MAX_POINTS = 30, 24, 30, 12, 200


def charts_of(model: Any, table: Any, task: Mapping[str, Any]) -> dict[str, Any]:
    """Return the charts of what is released, and the first rows of its table."""
    if task["kind"] == "statistic":
        return _statistic(model, task)
    if hasattr(model, "explain"):
        told = model.explain()
        charts = [_curve(one, told.scores) for one in told.curves[:MAX_CHARTS]]
        return {"charts": charts, "note": told.note}
    if table is not None and hasattr(model, "fabricate"):
        names = table.column_names
        charts = [_counted(name, table[name].to_pylist()) for name in names[:MAX_CHARTS]]
        return {"charts": charts, "columns": names, "preview": _first(table, PREVIEW_ROWS)}
    if table is not None:
        (name, values), (_, densities) = table.to_pydict().items()
        rows = [{"x": x, "y": y} for x, y in zip(values, densities, strict=True)]
        return {"charts": [_chart("density", "line", name, "density", rows)]}
    return {"charts": []}


def _statistic(found: Any, task: Mapping[str, Any]) -> dict[str, Any]:
    """Return figures with their error bars: a point of each group, a colour of each last one."""
    names = found.table.column_names
    place = names.index("low") - 1
    keys, rows = names[:place], []
    for row in found.table[:MAX_POINTS].to_pylist():
        cells = [_cell(row[name]) for name in keys]
        if keys[-2:] in (["from", "to"], ["first", "second"]):
            cells[-2:] = [" to ".join(cells[-2:])]
        ends = {"y": row[names[place]], "low": row["low"], "high": row["high"]}
        if all(value is not None and math.isfinite(value) for value in ends.values()):
            group = ", ".join(cells[:-1] or cells) or "all"
            rows.append({"x": group, **ends, "series": cells[-1] if cells[1:] else ""})
    title = " of ".join([found.statistic, *filter(None, [" and ".join(task["columns"])])])
    title += f" by {' and '.join(task['by'])}" if task["by"] else ""
    note = f"Of {found.counts}. Each error bar, low to high, contains the figure without noise "
    note += f"at {100 * found.confidence:g} % confidence."
    x = ", ".join(task["by"]) or " to ".join(keys)
    chart = _chart(title, "points", x, names[place], rows)
    return {
        "charts": [chart],
        "note": note,
        "columns": names,
        "preview": _first(found.table, MAX_POINTS),
    }


def _first(table: Any, most: int) -> list[list[str]]:
    return [[_cell(cell) for cell in row.values()] for row in table[:most].to_pylist()]


def _cell(value: Any) -> str:
    if value is None:
        return "missing"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _chart(title: str, form: str, x: str, y: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"title": title, "form": form, "x": x, "y": y, "rows": rows}


def _curve(curve: Any, scores: Sequence[str]) -> dict[str, Any]:
    """Return what one column adds to each score, with its band."""
    kept = range(len(scores)) if len(scores) != 2 or len(curve.curve) == 1 else [1]
    rows = [
        {
            "x": float(value) if curve.is_number else str(value),
            "y": float(curve.curve[k][place]),
            "low": float(curve.curve[k][place] - curve.band[k][place]),
            "high": float(curve.curve[k][place] + curve.band[k][place]),
            "series": str(scores[min(k, len(scores) - 1)]),
        }
        for k in kept
        if k < len(curve.curve)
        for place, value in enumerate(curve.values)
    ]
    form = "line" if curve.is_number else "points"
    y = f"towards {scores[-1]}" if len(kept) == 1 else "adds to the score"
    return _chart(curve.name, form, curve.name, y, rows)


def _counted(name: str, cells: Sequence[Any]) -> dict[str, Any]:
    """Return a histogram of a column of fabricated rows."""
    known = [cell for cell in cells if cell is not None]
    numbers = [cell for cell in known if isinstance(cell, int | float) and cell is not True]
    if len(numbers) == len(known) and len(set(numbers)) > MAX_BARS:
        counts, edges = np.histogram(np.asarray(numbers, dtype=float), BINS)
        rows = [
            {"x": float(low), "x2": float(high), "y": int(n)}
            for low, high, n in zip(edges[:-1], edges[1:], counts, strict=True)
        ]
        return _chart(name, "histogram", name, "rows", rows)
    values, counts = np.unique([str(cell) for cell in known], return_counts=True)
    order = np.argsort(-counts)[:MAX_BARS]
    are_numbers = len(numbers) == len(known)
    kept = sorted(order, key=lambda at: (float(values[at]) if are_numbers else 0.0, values[at]))
    bars: list[dict[str, Any]] = [{"x": str(values[at]), "y": int(counts[at])} for at in kept]
    return _chart(name, "bars", name, "rows", bars)


def spec(charts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return Vega-Lite of one chart, or of the same chart of several releases, by their names."""
    first = next(iter(charts.values()))
    rows = [{**row, "release": name} for name, chart in charts.items() for row in chart["rows"]]
    form, one = first["form"], rows[0]
    n_series = len({row.get("series") for row in rows})
    by = "release" if len(charts) > 1 else "series" if n_series > 1 else None
    x: dict[str, Any] = {"field": "x", "title": first["x"], "type": "quantitative"}
    is_number = form in ("line", "histogram")
    x |= {"scale": {"zero": False}} if is_number else {**NAMES, "type": "nominal", "sort": None}
    y: dict[str, Any] = {"field": "y", "title": first["y"], "type": "quantitative"}
    told = {"x": first["x"] or "of", "y": first["y"], "low": "from", "high": "to"}
    tooltip: list[dict[str, Any]] = [
        {"field": key, "title": words, **({} if isinstance(one[key], str) else {"format": ".4~g"})}
        for key, words in told.items()
        if key in one
    ]
    encoding: dict[str, Any] = {"x": x, "y": y, "tooltip": tooltip}
    if by is not None:
        encoding["color"] = {"field": by, "type": "nominal", "title": by}
        tooltip.append({"field": by, "title": by})
        if form in ("points", "bars"):
            encoding["xOffset"] = {"field": by}
    band = {**encoding, "y": {**y, "field": "low"}, "y2": {"field": "high"}}
    marks: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "line": ({"type": "line", "point": {"size": 12}}, {"type": "area", "opacity": 0.22}),
        "points": ({"type": "point", "filled": True, "size": 60}, {"type": "rule"}),
    }
    mark, band_mark = marks.get(form, ({"type": "bar", "opacity": 0.55 if by else 1.0}, {}))
    if form == "histogram":
        encoding |= {"x": {**x, "bin": {"binned": True}}, "x2": {"field": "x2"}}
        encoding["y"] = {**y, "stack": None}
    layers = [{"mark": mark, "encoding": encoding}]
    if "low" in one:
        layers.insert(0, {"mark": band_mark, "encoding": band})
    return {"data": {"values": rows}, "layer": layers, "title": first["title"]}
