"""Pictures as SVG, all through one template: a picture is a title, its words and a list of marks.

A mark is a tag, its attributes and its text, or what it says when one points at it. `key` makes the
ids of a picture unique on its page; `told` is what a screen reader says instead of the picture.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.report.pages import render
from sfumato.report.words import number

if TYPE_CHECKING:
    from sfumato.models.additive import ColumnCurve

Mark = tuple[str, dict[str, Any], str]

WIDTH, HEIGHT = 340, 190
LEFT, RIGHT, TOP, BOTTOM = 8.0, 332.0, 26.0, 160.0
_LINE_HEIGHT = 18.0
_CHARACTER = 6.9  # mean width of one, generously, at the 12.5 pixels of the labels
_DASHES = ("none", "6 4", "2 3", "10 3 2 3")


def picture(
    title: str,
    told: str,
    marks: Iterable[Mark],
    *,
    key: str,
    size: tuple[int, int] = (WIDTH, HEIGHT),
) -> str:
    """Return the SVG of some marks, safe to put into a page."""
    from markupsafe import Markup  # here: only pages need it

    width, height = size
    return Markup(  # noqa: S704 - the template escapes what it is given
        render(
            "picture.svg",
            title=title,
            told=told,
            marks=list(marks),
            key=key,
            width=width,
            height=height,
        )
    )


def text(x: float, y: float, words: str, style: str = "tick", anchor: str = "start") -> Mark:
    """Return words at a place."""
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}"}
    return "text", {"class": style, **place, "text-anchor": anchor}, words


def rule(x1: float, y1: float, x2: float, y2: float, style: str) -> Mark:
    """Return a straight line."""
    ends = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
    return "line", {"class": style, **{name: f"{end:.1f}" for name, end in ends.items()}}, ""


def box(x: float, y: float, width: float, height: float, style: str, share: float = 1.0) -> Mark:
    """Return a rectangle, the fainter the smaller its share."""
    place = {"x": x, "y": y, "width": width, "height": height}
    faint = {} if share == 1.0 else {"fill-opacity": f"{share:.2f}"}
    sides = {name: f"{side:.1f}" for name, side in place.items()}
    return "rect", {"class": style, **sides, **faint}, ""


def path(corners: Iterable[tuple[float, float]], tag: str = "polyline", **more: str) -> Mark:
    """Return a line through corners, or the polygon that they enclose."""
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    return tag, {"class": "line" if tag == "polyline" else "bar", **more, "points": points}, ""


def ellipsize(words: str, longest: int) -> str:
    """Return words shortened to a number of characters."""
    return words if len(words) <= longest else words[: max(longest - 1, 1)] + "…"


def paired_bars(
    title: str,
    labels: Sequence[str],
    first: Sequence[float],
    second: Sequence[float],
    *,
    names: tuple[str, str],
    key: str,
) -> str:
    """Draw two shares a label: the first filled, the second as an outline above it."""
    first, second = ([each / (sum(side) or 1.0) for each in side] for side in (first, second))
    highest = max(*first, *second, 1e-300)
    step = (RIGHT - LEFT) / len(labels)
    width = max(step * 0.82, 0.5)
    marks = [text(LEFT, 14, ellipsize(title, 44), "axis-name")]
    for i, pair in enumerate(zip(first, second, strict=True)):
        for value, style in zip(pair, ("bar", "bar-outline"), strict=True):
            height = value / highest * (BOTTOM - TOP)
            x = LEFT + i * step + (step - width) / 2
            marks.append(box(x, BOTTOM - height, width, height, style))
    marks.append(rule(LEFT, BOTTOM, RIGHT, BOTTOM, "base"))
    room = int(step / _CHARACTER)
    if room >= 3 and len(labels) <= 12:
        places = [(LEFT + (i + 0.5) * step, "middle", i) for i in range(len(labels))]
    else:  # no room for all
        places, room = [(LEFT, "start", 0), (RIGHT, "end", -1)], 22
    marks += [
        text(x, BOTTOM + 18, ellipsize(labels[i], room), anchor=side) for x, side, i in places
    ]
    told = [
        f"{label}: {names[0]} {number(a)}, {names[1]} {number(b)}"
        for label, a, b in zip(labels, first, second, strict=True)
    ]
    more = "" if len(told) <= 12 else f"; and {len(told) - 12} more"
    return picture(title, "; ".join(told[:12]) + more, marks, key=key)


def square_matrix(
    title: str, names: Sequence[str], values: Mapping[tuple[str, str], float], *, key: str
) -> str:
    """Draw a square for each pair of columns, the darker the larger its value."""
    left = 110.0
    side = (RIGHT - left) / len(names)
    highest = max(*values.values(), 1e-300)
    marks = [text(LEFT, 14, f"{title}, at most {number(highest)}", "axis-name")]
    places = {name: i for i, name in enumerate(names)}
    if side >= 9:
        marks += [
            text(left - 6, TOP + (i + 0.7) * side, ellipsize(name, 14), anchor="end")
            for name, i in places.items()
        ]
    for (a, b), value in values.items():
        for row, column in ((places[a], places[b]), (places[b], places[a])):
            x, y = left + column * side, TOP + row * side
            marks.append(box(x, y, side, side, "bar", value / highest))
            if side >= 24:
                marks.append(
                    text(x + side / 2, y + side * 0.62, f"{100 * value:.1f}", anchor="middle")
                )
    told = "; ".join(f"{a} and {b}: {number(v)}" for (a, b), v in list(values.items())[:12])
    return picture(title, told, marks, key=key, size=(WIDTH, int(TOP + side * len(names)) + 10))


def roc_curves(curves: Sequence[Mapping[str, Any]], *, key: str, decades: int | None = None) -> str:
    """Draw true against false positive rates; the diagonal is what guessing gives."""
    left, top, side = 44.0, 20.0, 280.0
    bottom = top + side

    def share(rate: float) -> float:
        return rate if decades is None else 1 + math.log10(max(rate, 10.0**-decades)) / decades

    marks = [
        text(0, 12, "true positive rate", "axis-name"),
        box(left, top, side, side, "frame"),
        rule(left, bottom, left + side, top, "ceiling"),
        text(left + side, bottom + 34, "false positive rate", "axis-name", "end"),
    ]
    rates = (0.0, 0.5, 1.0) if decades is None else [10.0**-i for i in range(decades, -1, -1)]
    for rate in rates:
        at = side * share(rate)
        marks.append(text(left + at, bottom + 16, number(rate), anchor="middle"))
        marks.append(text(left - 6, bottom - at + 4, number(rate), anchor="end"))
    for i, each in enumerate(curves):
        dash = {"stroke-dasharray": _DASHES[i % len(_DASHES)]}
        corners = [
            (left + side * share(a), bottom - side * share(b))
            for a, b in zip(each["false_positive_rate"], each["true_positive_rate"], strict=True)
        ]
        marks.append(path(corners, **dash))
        level = bottom + 52 + _LINE_HEIGHT * i
        marks.append(path([(left, level - 4), (left + 32, level - 4)], **dash))
        marks.append(text(left + 40, level, ellipsize(each["name"], 34), "label"))
    axes = "" if decades is None else ", logarithmic axes"
    told = "; ".join(each["name"] for each in curves)
    size = (WIDTH, int(bottom + 44 + _LINE_HEIGHT * len(curves)))
    return picture(f"True against false positive rate{axes}", told, marks, key=key, size=size)


def column_curve(curve: ColumnCurve, *, key: str) -> str:
    """Draw what a column adds to the last score, with its band."""
    values, band = curve.curve[-1], curve.band[-1]
    low, high = float((values - band).min()), float((values + band).max())
    count = len(curve.values)
    if curve.is_number:
        days = [each.toordinal() if isinstance(each, date) else each for each in curve.values]
        at = np.array(days, dtype=float)
        across = LEFT + (at - at[0]) / max(at[-1] - at[0], 1e-300) * (RIGHT - LEFT)
    else:
        across = LEFT + (np.arange(count) + 0.5) * (RIGHT - LEFT) / count

    def down(level: np.ndarray) -> np.ndarray:
        return BOTTOM - (level - low) / max(high - low, 1e-12) * (BOTTOM - TOP)

    def shown(value: object) -> str:
        return number(value) if isinstance(value, float) else str(value)

    marks = [
        text(LEFT, 14, ellipsize(curve.name, 40), "axis-name"),
        text(RIGHT, 14, f"{number(low, '.3g')} to {number(high, '.3g')}", anchor="end"),
        text(LEFT, BOTTOM + 18, ellipsize(shown(curve.values[0]), 20)),
        text(RIGHT, BOTTOM + 18, ellipsize(shown(curve.values[-1]), 20), anchor="end"),
    ]
    if low <= 0 <= high:
        level = float(down(np.zeros(1))[0])
        marks.append(rule(LEFT, level, RIGHT, level, "base"))
    upper, middle, lower = down(values + band), down(values), down(values - band)
    if curve.is_number:
        edge = [*zip(across, upper, strict=True), *zip(across[::-1], lower[::-1], strict=True)]
        marks += [path(edge, "polygon"), path(zip(across, middle, strict=True))]
    else:
        for x, a, b, c in zip(across, upper, middle, lower, strict=True):
            marks += [rule(x, a, x, c, "base"), rule(x - 5, b, x + 5, b, "line")]
    told = "; ".join(
        f"{shown(value)}: {number(float(a), '.3g')} ± {number(float(b), '.3g')}"
        for value, a, b in zip(curve.values[:12], values, band, strict=False)
    )
    return picture(curve.name, told, marks, key=key)
