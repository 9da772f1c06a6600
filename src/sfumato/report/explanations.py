"""What models say about their columns, in a report: released numbers only."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from html import escape

import numpy as np

from sfumato.additive.explanation import ColumnCurve, Explanation
from sfumato.report import svg
from sfumato.report.chart import number

__all__ = ["HEADS", "curve_picture", "explanation_article", "summary_rows"]

HEADS = ("Column", "Importance", "From", "To", "Band ±")
MOST_DRAWN = 6  # columns, the most important ones
WIDTH, HEIGHT = 340, 190
LEFT, RIGHT, TOP, BOTTOM = 8.0, 332.0, 26.0, 160.0


def summary_rows(explanation: Explanation) -> list[tuple[str, ...]]:
    """Give one line per column, as text."""
    return [
        (name, *(number(each, ".3g") for each in rest)) for name, *rest in explanation.summary()
    ]


def explanation_article(name: str, explanation: Explanation, key: str) -> str:
    """Give the table of all columns, and pictures of the most important ones."""
    head = "".join(f'<th scope="col" class="n">{each}</th>' for each in HEADS[1:])
    rows = "".join(
        f'<tr><th scope="row">{escape(column)}</th>'
        + "".join(
            f'<td class="n" data-name="{name}">{escape(value)}</td>'
            for name, value in zip(HEADS[1:], values, strict=True)
        )
        + "</tr>"
        for column, *values in summary_rows(explanation)
    )
    drawn = "".join(
        f"<figure>{curve_picture(each, key=f'{key}-{i}')}</figure>"
        for i, each in enumerate(explanation.curves[:MOST_DRAWN])
    )
    about = f"What each column adds to {explanation.scores[-1]}. {explanation.note}"
    return (
        f'<article><h3>{escape(name)}</h3><p class="quiet">{escape(about)}</p>'
        f'<table class="cards"><thead><tr><th scope="col">{HEADS[0]}</th>{head}</tr></thead>'
        f'<tbody>{rows}</tbody></table><div class="gallery">{drawn}</div></article>'
    )


def curve_picture(curve: ColumnCurve, *, key: str, score: int = -1) -> str:
    """Draw the curve of a column with its band; `key` makes the element ids unique."""
    values, band = curve.curve[score], curve.band[score]
    across = _across(curve)
    low, high = float((values - band).min()), float((values + band).max())
    scale = (BOTTOM - TOP) / max(high - low, 1e-12)

    def down(level: np.ndarray) -> np.ndarray:
        return np.asarray(BOTTOM - (np.clip(level, low, high) - low) * scale)

    told = "; ".join(
        f"{_shown(value)}: {number(float(a), '.3g')} ± {number(float(b), '.3g')}"
        for value, a, b in zip(curve.values[:12], values, band, strict=False)
    )
    parts = [
        svg.opening(curve.name, (WIDTH, HEIGHT), told, key),
        svg.text(LEFT, 14, svg.cut(curve.name, 40), "axis-name"),
        svg.text(RIGHT, 14, f"{number(low, '.3g')} to {number(high, '.3g')}", "tick", anchor="end"),
    ]
    if low <= 0 <= high:
        level = float(down(np.zeros(1))[0])
        parts.append(svg.rule(LEFT, level, RIGHT, level, "base"))
    if curve.is_number:
        edge = [*zip(across, down(values + band), strict=True)]
        edge += [*zip(across, down(values - band), strict=True)][::-1]
        parts.append(f'<polygon class="bar" points="{_points(edge)}"/>')
        line = _points([*zip(across, down(values), strict=True)])
        parts.append(f'<polyline class="line" points="{line}"/>')
    else:
        for x, top, middle, bottom in zip(
            across, down(values + band), down(values), down(values - band), strict=True
        ):
            parts.append(svg.rule(x, top, x, bottom, "base"))
            parts.append(svg.rule(x - 5, middle, x + 5, middle, "line"))
    ends = ((LEFT, "start", 0), (RIGHT, "end", -1))
    parts += [
        svg.text(x, BOTTOM + 18, svg.cut(_shown(curve.values[i]), 20), "tick", anchor=anchor)
        for x, anchor, i in ends
    ]
    return "\n".join([*parts, "</svg>"])


def _across(curve: ColumnCurve) -> np.ndarray:
    n_values = len(curve.values)
    if not curve.is_number:
        return LEFT + (np.arange(n_values) + 0.5) * (RIGHT - LEFT) / n_values
    days = [each.toordinal() if isinstance(each, date) else each for each in curve.values]
    places = np.array(days, dtype=float)
    share = (places - places[0]) / max(places[-1] - places[0], 1e-300)
    return np.asarray(LEFT + share * (RIGHT - LEFT))


def _points(corners: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)


def _shown(value: object) -> str:
    return number(value, ".4g") if isinstance(value, float) else str(value)
