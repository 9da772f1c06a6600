"""The chart of a report: one metric against epsilon, drawn as SVG with the standard library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from sfumato.report import svg

__all__ = ["Point", "aligned", "draw", "drawable", "number"]

_LINE_HEIGHT = 18.0  # of a label, in pixels
_CHARACTER = 6.9  # mean width of one, generously, at the 12.5 pixels of the labels
_TICK_ROOM = 38.0
_LABEL_ROOM = 230.0
_TOP = 34.0  # the name of the metric stands above


@dataclass(frozen=True)
class Point:
    """One result on the chart; `proved` False draws it hollow."""

    name: str
    epsilon: float
    value: float
    proved: bool = True


@dataclass(frozen=True)
class _Frame:
    """The plotting area and its two scales: logarithmic in epsilon where all are positive."""

    left: float
    right: float
    top: float
    bottom: float
    epsilons: tuple[float, float]
    values: tuple[float, float]

    def x(self, epsilon: float) -> float:
        low, high = self.epsilons
        if low > 0:
            low, high, epsilon = math.log(low), math.log(high), math.log(epsilon)
        if low == high:
            return (self.left + self.right) / 2
        inset = 18.0  # a point never sits on the frame
        return (
            self.left
            + inset
            + (epsilon - low) / (high - low) * (self.right - self.left - 2 * inset)
        )

    def y(self, value: float) -> float:
        low, high = self.values
        return self.bottom - (value - low) / (high - low) * (self.bottom - self.top)


def aligned(values: Sequence[float | None]) -> list[str]:
    """Write a column of numbers with one count of decimals; infinity as ∞, a gap as a dash."""
    texts = [f"{v:.4g}" for v in values if v is not None and math.isfinite(v)]
    places = max((len(t.partition(".")[2]) for t in texts), default=0)
    form = ".4g" if any("e" in t for t in texts) else f".{places}f"
    return [number(v, form) for v in values]


def number(value: float | None, form: str = ".4g") -> str:
    """Write one number to four digits; infinity as ∞, a gap as a dash."""
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return format(value, form).replace("-", "−")


def drawable(value: float) -> bool:
    """Tell whether a number can be drawn: not infinite or missing, and no scale overflows."""
    return abs(value) < 1e100


def draw(
    points: Sequence[Point], *, metric: str, ceiling: float | None, width: int, key: str
) -> str:
    """Draw `metric` against epsilon, `width` pixels wide; `key` makes the element ids unique.

    Points of one name are joined. The value without privacy, `ceiling`, is a dashed line. A wide
    chart names its lines in the right margin, a narrow one below.
    """
    wide = width >= 560
    series = _series(points)
    texts = [*series, *([] if ceiling is None else [_ceiling_label(ceiling)])]
    room = min(_LABEL_ROOM, max(map(len, texts)) * _CHARACTER + 30) if wide else 4.0
    bottom = max(270.0 if len(points) > 1 else 190.0, _TOP + len(texts) * _LINE_HEIGHT)
    height = bottom + 48 + (0 if wide else len(series) * _LINE_HEIGHT + 8)
    ticks = _round_ticks([p.value for p in points] + ([] if ceiling is None else [ceiling]))
    epsilons = [p.epsilon for p in points]
    frame = _Frame(
        left=max(map(len, aligned(ticks))) * 7.5 + 12,
        right=width - room,
        top=_TOP,
        bottom=bottom,
        epsilons=(min(epsilons), max(epsilons)),
        values=(ticks[0], ticks[-1]),
    )
    parts = [
        _opening(points, metric, ceiling, (width, int(height)), key),
        *_axes(frame, ticks, epsilons, metric),
        *([] if ceiling is None else [_ceiling_line(frame, ceiling)]),
        *(_line(frame, own) for own in series.values()),
        *(_point(frame, p, i) for i, own in enumerate(series.values()) for p in own),
        *(_margin_labels if wide else _labels_below)(frame, series, ceiling),
        "</svg>",
    ]
    return "\n".join(parts)


def _series(points: Sequence[Point]) -> dict[str, list[Point]]:
    series: dict[str, list[Point]] = {}
    for point in sorted(points, key=lambda p: p.epsilon):
        series.setdefault(point.name, []).append(point)
    return series


def _opening(
    points: Sequence[Point], metric: str, ceiling: float | None, size: tuple[int, int], key: str
) -> str:
    told = [
        f"{name}: " + ", ".join(f"{p.value:.4g} at epsilon {p.epsilon:.4g}" for p in own)
        for name, own in _series(points).items()
    ]
    if ceiling is not None:
        told.append(f"without privacy: {ceiling:.4g}")
    return svg.opening(f"{metric} against epsilon", size, "; ".join(told), key)


def _axes(
    frame: _Frame, ticks: Sequence[float], epsilons: Sequence[float], metric: str
) -> list[str]:
    parts = [svg.text(0, 14, metric, "axis-name")]
    for tick, text in zip(ticks, aligned(ticks), strict=True):
        y = frame.y(tick)
        rule = "base" if tick == ticks[0] else "grid"
        parts.append(svg.rule(frame.left, y, frame.right, y, rule))
        parts.append(svg.text(frame.left - 8, y + 4, text, "tick", anchor="end"))
    drawn = -math.inf
    for epsilon in sorted(set(epsilons)):
        x = frame.x(epsilon)
        if x - drawn >= _TICK_ROOM:
            parts.append(svg.rule(x, frame.bottom, x, frame.bottom + 5, "base"))
            parts.append(svg.text(x, frame.bottom + 20, number(epsilon), "tick", anchor="middle"))
            drawn = x
    middle = (frame.left + frame.right) / 2
    return [
        *parts,
        svg.text(middle, frame.bottom + 40, "epsilon (ε)", "axis-name", anchor="middle"),
    ]


def _ceiling_label(ceiling: float | None) -> str:
    return f"non-private {number(ceiling)}"


def _ceiling_line(frame: _Frame, ceiling: float) -> str:
    y = frame.y(ceiling)
    return svg.rule(frame.left, y, frame.right, y, "ceiling")


def _line(frame: _Frame, own: Sequence[Point]) -> str:
    corners = " ".join(f"{frame.x(p.epsilon):.1f},{frame.y(p.value):.1f}" for p in own)
    return f'<polyline class="line" points="{corners}"/>'


def _point(frame: _Frame, point: Point, series: int) -> str:
    told = f"{point.name}: {point.value:.4g} at epsilon {point.epsilon:.4g}"
    if not point.proved:
        told += ", not proved"
    x, y = frame.x(point.epsilon), frame.y(point.value)
    return _mark(x, y, series, proved=point.proved, title=f"<title>{escape(told)}</title>")


def _mark(x: float, y: float, series: int, *, proved: bool, title: str = "") -> str:
    """Draw the sign of a series: lines differ by shape, since there is one colour for all."""
    style = "mark" if proved else "mark unproved"
    place = f'class="{style}" transform="translate({x:.1f} {y:.1f})"'
    return f'<path {place} d="{_SHAPES[series % len(_SHAPES)]}">{title}</path>'


_SHAPES = (
    "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z",  # disc
    "M-4 -4h8v8h-8z",  # square
    "M0 -5.5L5 3.5H-5z",  # triangle
    "M0 -5.5L5.5 0L0 5.5L-5.5 0z",  # diamond
)


def _margin_labels(
    frame: _Frame, series: dict[str, list[Point]], ceiling: float | None
) -> list[str]:
    wanted = [(frame.y(own[-1].value), i) for i, own in enumerate(series.values())]
    if ceiling is not None:
        wanted.append((frame.y(ceiling), -1))
    names, parts = list(series), []
    for y, i in _spread(wanted, frame.bottom):
        if i < 0:
            parts.append(svg.text(frame.right + 8, y + 4, _ceiling_label(ceiling), "label faint"))
        else:
            parts += _label(frame.right + 14, y, names[i], series[names[i]], i, _LABEL_ROOM - 30)
    return parts


def _labels_below(
    frame: _Frame, series: dict[str, list[Point]], ceiling: float | None
) -> list[str]:
    parts = []
    if ceiling is not None:
        place = frame.left + 4, frame.y(ceiling) - 7
        parts.append(svg.text(*place, _ceiling_label(ceiling), "label faint"))
    for i, (name, own) in enumerate(series.items()):
        y = frame.bottom + 58 + i * _LINE_HEIGHT
        parts += _label(frame.left + 5, y, name, own, i, frame.right - frame.left - 20)
    return parts


def _label(x: float, y: float, name: str, own: list[Point], i: int, room: float) -> list[str]:
    proved = all(point.proved for point in own)
    text = svg.cut(name, int(room / _CHARACTER))
    return [_mark(x, y, i, proved=proved), svg.text(x + 11, y + 4, text, "label")]


def _spread(wanted: list[tuple[float, int]], lowest: float) -> list[tuple[float, int]]:
    """Move labels apart, downwards first, then back up where they would leave the frame."""
    wanted = sorted(wanted)
    places = [y for y, _ in wanted]
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + _LINE_HEIGHT)
    for i in reversed(range(len(places))):
        places[i] = min(places[i], lowest)
        lowest = places[i] - _LINE_HEIGHT
    return [(y, i) for y, (_, i) in zip(places, wanted, strict=True)]


def _round_ticks(values: Sequence[float]) -> list[float]:
    """Give about five round numbers that enclose all values with some air around them."""
    low, high = min(values), max(values)
    spread = max(high - low, 1e-6 * max(abs(low), abs(high)))
    air = 0.08 * (spread if spread > 1e-100 else 1.0)
    share = low >= 0 and high <= 1  # of such a metric nothing lies beyond 0 and 1
    low, high = low - air, high + air
    if share:
        low, high = max(low, 0.0), min(high, 1.0)
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(f * power for f in (1, 2, 2.5, 5, 10) if f * power >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]
