"""Small pictures of a report: two histograms on one axis, pairs of columns, ROC curves, as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from sfumato.report import svg
from sfumato.report.chart import number

__all__ = ["paired_bars", "roc_curves", "square_matrix"]

WIDTH, HEIGHT = 340, 190
LEFT, RIGHT, TOP, BOTTOM = 8.0, 332.0, 26.0, 160.0
SIDE = 300.0  # of the square of a ROC curve
_CHARACTER = 6.9


def paired_bars(
    title: str,
    labels: Sequence[str],
    first: Sequence[float],
    second: Sequence[float],
    *,
    names: tuple[str, str],
    key: str,
) -> str:
    """Draw two shares a label: the first filled, the second as an outline above it.

    `key` makes the element ids unique.
    """
    highest = max(*first, *second, 1e-300)
    step = (RIGHT - LEFT) / len(labels)
    width = max(step * 0.82, 0.5)
    parts = [
        svg.opening(title, (WIDTH, HEIGHT), _shares_told(labels, first, second, names), key),
        f'<text class="axis-name" x="{LEFT:.0f}" y="14">{escape(svg.cut(title, 44))}</text>',
    ]
    for i, (filled, outlined) in enumerate(zip(first, second, strict=True)):
        x = LEFT + i * step + (step - width) / 2
        parts += [
            _bar(x, width, filled / highest, "bar"),
            _bar(x, width, outlined / highest, "bar-outline"),
        ]
    parts.append(f'<line class="base" x1="{LEFT}" y1="{BOTTOM}" x2="{RIGHT}" y2="{BOTTOM}"/>')
    return "\n".join([*parts, *_labels(labels, step), "</svg>"])


def _shares_told(
    labels: Sequence[str], first: Sequence[float], second: Sequence[float], names: tuple[str, str]
) -> str:
    told = [
        f"{label}: {names[0]} {number(a)}, {names[1]} {number(b)}"
        for label, a, b in zip(labels, first, second, strict=True)
    ]
    more = "" if len(told) <= 12 else f"; and {len(told) - 12} more"
    return "; ".join(told[:12]) + more


def _bar(x: float, width: float, share: float, style: str) -> str:
    height = share * (BOTTOM - TOP)
    place = f'x="{x:.1f}" y="{BOTTOM - height:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect class="{style}" {place}/>'


def _labels(labels: Sequence[str], step: float) -> list[str]:
    """Write the labels that have room below their bars; else the first and the last."""
    room = int(step / _CHARACTER)
    if room >= 3 and len(labels) <= 12:
        places = [(LEFT + (i + 0.5) * step, "middle", i) for i in range(len(labels))]
    else:
        places, room = [(LEFT, "start", 0), (RIGHT, "end", -1)], 22
    return [
        f'<text class="tick" x="{x:.1f}" y="{BOTTOM + 18:.0f}" text-anchor="{anchor}">'
        f"{escape(svg.cut(labels[i], room))}</text>"
        for x, anchor, i in places
    ]


def square_matrix(
    title: str,
    names: Sequence[str],
    values: Mapping[tuple[str, str], float],
    *,
    key: str,
) -> str:
    """Draw a square for each pair of columns, the darker the larger its value; names on the left.

    `key` makes the element ids unique.
    """
    left = 110.0
    side = (RIGHT - left) / len(names)
    highest = max(*values.values(), 1e-300)
    told = "; ".join(f"{a} and {b}: {number(v)}" for (a, b), v in list(values.items())[:12])
    size = (WIDTH, int(TOP + side * len(names)) + 10)
    parts = [
        svg.opening(title, size, told, key),
        svg.text(LEFT, 14, f"{title}, at most {number(highest)}", "axis-name"),
    ]
    places = {name: i for i, name in enumerate(names)}
    for name, i in places.items():
        if side >= 9:
            parts.append(
                svg.text(left - 6, TOP + (i + 0.7) * side, svg.cut(name, 14), "tick", anchor="end")
            )
    for pair, value in values.items():
        i, j = sorted((places[pair[0]], places[pair[1]]))
        for row, column in ((i, j), (j, i)):
            x, y = left + column * side, TOP + row * side
            parts.append(
                f'<rect class="bar" x="{x:.1f}" y="{y:.1f}" width="{side:.1f}" '
                f'height="{side:.1f}" fill-opacity="{value / highest:.2f}"/>'
            )
            if side >= 24:
                parts.append(
                    svg.text(
                        *(x + side / 2, y + side * 0.62, f"{100 * value:.1f}", "tick"),
                        anchor="middle",
                    )
                )
    return "\n".join([*parts, "</svg>"])


def roc_curves(curves: Sequence[tuple[str, Sequence[float], Sequence[float]]], *, key: str) -> str:
    """Draw true against false positive rates; the diagonal is what guessing gives."""
    size = (WIDTH, int(SIDE) + 50 + 18 * len(curves))
    told = "; ".join(f"{name}: {len(x)} points" for name, x, _ in curves)
    bottom = 20 + SIDE
    parts = [
        svg.opening("True against false positive rate", size, told, key),
        '<text class="axis-name" x="0" y="12">true positive rate</text>',
        f'<rect class="frame" x="20" y="20" width="{SIDE:.0f}" height="{SIDE:.0f}"/>',
        f'<line class="ceiling" x1="20" y1="{bottom:.0f}" x2="{20 + SIDE:.0f}" y2="20"/>',
        f'<text class="axis-name" x="{20 + SIDE:.0f}" y="{bottom + 18:.0f}" text-anchor="end">'
        "false positive rate</text>",
    ]
    for i, (name, x, y) in enumerate(curves):
        corners = " ".join(
            f"{20 + SIDE * a:.1f},{bottom - SIDE * b:.1f}" for a, b in zip(x, y, strict=True)
        )
        dash = f' stroke-dasharray="{_DASHES[i % len(_DASHES)]}"'
        parts.append(f'<polyline class="line"{dash} points="{corners}"/>')
        level = bottom + 34 + 18 * i
        parts.append(
            f'<line class="line"{dash} x1="20" y1="{level - 4:.0f}" x2="52" y2="{level - 4:.0f}"/>'
            f'<text class="label" x="60" y="{level:.0f}">{escape(svg.cut(name, 38))}</text>'
        )
    return "\n".join([*parts, "</svg>"])


_DASHES = ("none", "6 4", "2 3", "10 3 2 3")
