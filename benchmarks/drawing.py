"""Small charts as SVG, for the page of benchmarks.

Texts and axes take the colours of the page's theme where a picture stands inside of a page, and
follow the reader's light or dark setting where it is an image. The colours of lines and bars can
be told from white and from black. Everything is legible when the picture is 340 pixels wide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape, unescape
from textwrap import wrap

COLOURS = ("#0d8a92", "#c2571a", "#8a63d2", "#808080", "#b03a6f", "#6b8e23", "#3a78c2", "#a07800")
INK = "var(--color-foreground-primary, var(--sheet-ink))"
SOFT = "var(--color-foreground-secondary, var(--sheet-soft))"
STYLE = (
    "<style>.sheet{--sheet-ink:#222;--sheet-soft:#555}"
    "@media(prefers-color-scheme:dark){.sheet{--sheet-ink:#ddd;--sheet-soft:#aaa}}</style>"
)
WIDTH = 360
LINE = 17  # height of a line of text
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Line:
    """A named line of a chart."""

    name: str
    points: Points
    dashed: bool = False
    joined: bool = True


def drawing(title: str, story: str, height: float, parts: Sequence[str]) -> str:
    """Wrap the parts of a picture, with what it says for those who do not see it."""
    return (
        f'<svg class="sheet" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" '
        f'role="img" aria-label="{escape(title)}" font-family="sans-serif">'
        f"<title>{escape(title)}</title><desc>{escape(story)}</desc>{STYLE}\n"
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def title_of(drawn: str) -> str:
    """Return the title of a picture."""
    return unescape(drawn.partition("<title>")[2].partition("</title>")[0])


def text(
    x: float, y: float, words: str, *, anchor: str = "start", soft: bool = False, size: int = 13
) -> str:
    colour = SOFT if soft else INK
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} font-size="{size}" style="fill:{colour}">{escape(words)}</text>'


def rule(x1: float, y1: float, x2: float, y2: float, *, soft: bool = True) -> str:
    colour = SOFT if soft else INK
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'style="stroke:{colour}" stroke-width="1"/>'
    )


def block(x: float, y: float, width: float, height: float, colour: str) -> str:
    size = f'width="{max(width, 0.5):.1f}" height="{max(height, 0.5):.1f}"'
    return f'<rect x="{x:.1f}" y="{y:.1f}" {size} fill="{colour}"/>'


def ticks(low: float, high: float, *, log: bool = False, most: int = 5) -> list[float]:
    """Return round numbers inside a range."""
    if log:
        tens = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        whole = [10.0**k for k in tens if low * 0.999 <= 10.0**k <= high * 1.001]
        if len(whole) > 2:
            return whole[:: max(1, math.ceil(len(whole) / most))]
        steps = [f * 10.0**k for k in tens for f in (1, 2, 5)]
        return [round(v, 12) for v in steps if low * 0.999 <= v <= high * 1.001]
    step = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(step * f for f in (1, 2, 5, 10) if (high - low) / (step * f) <= most)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 10) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def short(value: float) -> str:
    """Write a number of an axis."""
    if value and not 1e-3 <= abs(value) < 1e5:
        power = math.floor(math.log10(abs(value)) + 1e-9)
        factor = value / 10.0**power
        raised = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return f"10{raised}" if abs(factor - 1) < 1e-9 else f"{factor:g}·10{raised}"
    return f"{value:g}".replace("-", "−")


class Scale:
    """A public range of numbers as a range of pixels."""

    def __init__(self, low: float, high: float, start: float, end: float, *, log: bool) -> None:
        self.log, self.low, self.high, self.start, self.end = log, low, high, start, end

    def __call__(self, value: float) -> float:
        low, high = self.low, self.high
        if self.log:
            value, low, high = (math.log10(max(v, 1e-300)) for v in (value, low, high))
        share = (value - low) / (high - low)
        return self.start + min(max(share, -0.02), 1.02) * (self.end - self.start)


def chart(
    title: str,
    story: str,
    lines: Sequence[Line],
    *,
    x: str,
    y: str,
    x_log: bool = False,
    y_log: bool = False,
    y_range: tuple[float, float] | None = None,
    dots: bool = False,
) -> str:
    """Draw lines over two axes, their names below."""
    every = [point for line in lines for point in line.points]
    low, high = y_range or (min(b for _, b in every), max(b for _, b in every))
    top, bottom, left = 30.0, 190.0, 52.0
    across = Scale(
        *(min(a for a, _ in every), max(a for a, _ in every)), left, WIDTH - 10, log=x_log
    )
    up = Scale(low, high, bottom, top, log=y_log)
    parts = [text(4, 16, y, soft=True), text(WIDTH - 10, bottom + 34, x, anchor="end", soft=True)]
    for at in ticks(low, high, log=y_log):
        parts += [
            rule(left - 4, up(at), left, up(at)),
            text(left - 7, up(at) + 4, short(at), anchor="end", size=12),
        ]
    for at in ticks(across.low, across.high, log=x_log):
        parts += [
            rule(across(at), bottom, across(at), bottom + 4),
            text(across(at), bottom + 18, short(at), anchor="middle", size=12),
        ]
    parts += [rule(left, top - 4, left, bottom), rule(left, bottom, WIDTH - 10, bottom)]
    for number, line in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        places = [(across(a), up(b)) for a, b in line.points]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
        dashes = ' stroke-dasharray="6 4"' if line.dashed else ""
        if line.joined and places:
            parts.append(
                f'<polyline points="{path}" fill="none" stroke="{colour}" '
                f'stroke-width="2.2"{dashes}/>'
            )
        if (dots and not line.dashed) or not line.joined:
            parts += [
                f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.2" fill="{colour}"/>' for a, b in places
            ]
    named, height = legend([line.name for line in lines], bottom + 54)
    return drawing(title, story, height, [*parts, *named])


def legend(names: Sequence[str], y: float) -> tuple[list[str], float]:
    """Name the colours, a line of text each; return the height that the picture has with them."""
    parts = []
    for number, name in enumerate(names):
        at = y + LINE * number
        parts.append(block(10, at - 1, 14, 5, COLOURS[number % len(COLOURS)]))
        parts.append(text(30, at + 6, name))
    return parts, y + LINE * len(names) + 4


def figure(value: float) -> str:
    """Write the number behind a bar."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def bars(
    title: str,
    story: str,
    rows: Sequence[tuple[str, Sequence[float]]],
    names: Sequence[str],
    *,
    unit: str,
    log: bool = False,
    base: float = 0.0,
    limits: tuple[float, float] | None = None,
) -> str:
    """Draw a group of bars per row, from a base; the row's name stands above, numbers behind."""
    values = [value for _, group in rows for value in group]
    low, high = limits or (min([base, *values]), max([base, *values]))
    along = Scale(low, high, 10.0, WIDTH - 62.0, log=log)
    parts, y = [text(4, 16, unit, soft=True)], 26.0
    zero = along(base)
    for name, group in rows:
        for words in wrap(name, width=50):
            parts.append(text(10, y + 12, words))
            y += 15
        y += 2
        start = y
        for number, value in enumerate(group):
            at = along(value)
            parts.append(block(min(zero, at), y, abs(at - zero), 11, COLOURS[number]))
            parts.append(text(max(at, zero) + 4, y + 10, figure(value), size=12))
            y += 14
        parts.append(rule(zero, start - 2, zero, y, soft=False))
        y += 5
    if len(names) > 1:
        named, height = legend(names, y + 10)
        return drawing(title, story, height, [*parts, *named])
    return drawing(title, story, y + 2, parts)
