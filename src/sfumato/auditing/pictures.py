"""Pictures of an audit as SVG: a ROC curve on logarithmic axes, epsilon promised and certified."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from sfumato.report.chart import number

__all__ = ["epsilon_bars", "log_roc"]

SIDE = 300.0
LEFT, TOP = 44.0, 22.0


def log_roc(name: str, false: Sequence[float], true: Sequence[float], *, decades: int = 4) -> str:
    """Draw true against false positive rate, both on logarithmic axes; dashed: guessing."""
    least = 10.0**-decades
    bottom, right = TOP + SIDE, LEFT + SIDE

    def place(x: float, y: float) -> str:
        across, up = (1 + math.log10(max(v, least)) / decades for v in (x, y))
        return f"{LEFT + SIDE * across:.1f},{bottom - SIDE * up:.1f}"

    ticks = []
    for power in range(decades + 1):
        at = SIDE * power / decades
        label = number(10.0 ** (power - decades))
        ticks += [
            _text(LEFT + at, bottom + 16, label, "tick", "middle"),
            _text(LEFT - 6, bottom - at + 4, label, "tick", "end"),
        ]
    corners = " ".join(place(x, y) for x, y in zip(false, true, strict=True) if x >= least or y > 0)
    told = f"{name}: true positive rate against false positive rate, logarithmic axes"
    return "\n".join(
        [
            _opening(told, (int(right) + 20, int(bottom) + 40)),
            f'<rect class="frame" x="{LEFT}" y="{TOP}" width="{SIDE}" height="{SIDE}"/>',
            f'<line class="ceiling" x1="{LEFT}" y1="{bottom}" x2="{right}" y2="{TOP}"/>',
            *ticks,
            f'<polyline class="line" points="{corners}"/>',
            _text(0, 12, "true positive rate", "axis-name", "start"),
            _text(right, bottom + 34, "false positive rate", "axis-name", "end"),
            "</svg>",
        ]
    )


def epsilon_bars(promised: float | None, certified: float, largest: float, method: str) -> str:
    """Draw epsilon promised, certified at least, and the most that could have been certified."""
    bars = [
        ("promised", promised, "bar-outline"),
        ("certified at least", certified, "bar"),
        ("could be certified", largest, "bar-outline"),
    ]
    finite = [value for _, value, _ in bars if value is not None and math.isfinite(value)]
    unit = 190.0 / max(*finite, 1e-9) if len(finite) > 1 else 190.0
    parts = []
    for i, (name, value, style) in enumerate(bars):
        if value is None:
            continue
        y = 26.0 + 30 * i
        width = unit * min(value, max(finite, default=1.0))
        parts += [
            _text(118, y + 14, name, "tick", "end"),
            f'<rect class="{style}" x="126" y="{y}" width="{width:.1f}" height="18"/>',
            _text(132 + width, y + 14, number(value, ".3g"), "label", "start"),
        ]
    told = ", ".join(f"{name} {number(value)}" for name, value, _ in bars if value is not None)
    how = ", converted as for Gaussian noise" if method == "gaussian" else ""
    opening = _opening(f"Epsilon{how}: {told}", (380, 124))
    name = _text(0, 12, f"epsilon (ε){how}", "axis-name", "start")
    return "\n".join([opening, name, *parts, "</svg>"])


def _opening(told: str, size: tuple[int, int]) -> str:
    return (
        f'<svg role="img" viewBox="0 0 {size[0]} {size[1]}" width="{size[0]}" height="{size[1]}" '
        f'aria-label="{escape(told)}"><title>{escape(told)}</title>'
    )


def _text(x: float, y: float, text: str, style: str, anchor: str) -> str:
    return (
        f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )
