"""Draw the picture of the home page twice, for wide and for narrow screens.

python docs/pictures/idea.py

Colours are those of the page's theme, so that the picture follows it from light to dark.
"""

from __future__ import annotations

import math
from pathlib import Path

HERE = Path(__file__).parent
TITLE = "How a private release works"
STORY = (
    "Rows inside public bounds become one exact statistic. Both are secret. The ledger is charged, "
    "then noise is added: that is the release, the only way across the boundary. Models, "
    "fabricated rows, functions and reports are made from the released numbers and cost nothing."
)
INK = "var(--color-foreground-primary, #222)"
SOFT = "var(--color-foreground-secondary, #555)"
FILL = "var(--color-background-secondary, #f4f6f6)"
PAPER = "var(--color-background-primary, #fff)"
ACCENT = "var(--color-brand-primary, #0d676d)"


def text(x: float, y: float, words: str, *, bold: bool = False, soft: bool = False) -> str:
    """Write a line around x."""
    colour, weight = (SOFT if soft else INK), (600 if bold else 400)
    style = f'text-anchor="middle" font-size="16" font-weight="{weight}" fill="{colour}"'
    return f'<text x="{x:g}" y="{y:g}" {style}>{words}</text>'


def box(x: float, y: float, width: float, height: float, style: str) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" {style}/>'


def arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    """Draw a line with its head at the end."""
    angle = math.atan2(y2 - y1, x2 - x1)
    ends = [(x2 - 10 * math.cos(angle + s), y2 - 10 * math.sin(angle + s)) for s in (-0.5, 0.5)]
    head = " ".join(f"{x:.1f},{y:.1f}" for x, y in [*ends, (x2, y2)])
    return (
        f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{SOFT}" stroke-width="2"/>'
        f'<polygon points="{head}" fill="{SOFT}"/>'
    )


def rows(x: float, y: float) -> str:
    """Draw a table around (x, y); one row is somebody's; a dashed frame are the bounds."""
    parts = [box(x - 58, y - 52, 116, 104, f'fill="none" stroke="{ACCENT}" stroke-dasharray="5 4"')]
    for i in range(5):
        shade = ACCENT if i == 2 else SOFT
        for j in range(4):
            wide = 22 if (i + j) % 3 else 17
            style = f'fill="{shade}" opacity="{1 if i == 2 else 0.45}"'
            parts.append(box(x - 48 + 25 * j, y - 42 + 18 * i, wide, 11, style))
    return "".join(parts)


def statistic(x: float, y: float) -> str:
    """Draw bars of exact heights."""
    return bars(x, y, (30, 62, 48, 76, 40), SOFT)


def released(x: float, y: float) -> str:
    """Draw the same bars, blurred by noise."""
    heights = (36, 55, 52, 70, 47)
    parts = [bars(x, y, heights, ACCENT)]
    for i, height in enumerate(heights):
        at, top = x - 40 + 20 * i, y + 40 - height
        parts.append(
            f'<path d="M{at:g} {top - 9:g}V{top + 9:g}M{at - 4:g} {top - 9:g}h8M{at - 4:g} '
            f'{top + 9:g}h8" stroke="{INK}" stroke-width="1.5"/>'
        )
    return "".join(parts)


def bars(x: float, y: float, heights: tuple[int, ...], colour: str) -> str:
    base = f'<line x1="{x - 52:g}" y1="{y + 40:g}" x2="{x + 52:g}" y2="{y + 40:g}" stroke="{INK}"/>'
    return base + "".join(
        box(x - 47 + 20 * i, y + 40 - h, 14, h, f'fill="{colour}" opacity="0.75"')
        for i, h in enumerate(heights)
    )


def bell(x: float, y: float) -> str:
    """Draw the density of the noise."""
    at = [(x + 3 * t, y + 24 - 44 * math.exp(-((t / 7) ** 2))) for t in range(-17, 18)]
    line = " ".join(f"{a:.1f},{b:.1f}" for a, b in at)
    return (
        f'<polyline points="{line}" fill="none" stroke="{ACCENT}" stroke-width="2.5"/>'
        f'<line x1="{x - 54:g}" y1="{y + 24:g}" x2="{x + 54:g}" y2="{y + 24:g}" stroke="{SOFT}"/>'
    )


def ledger(x: float, y: float) -> str:
    """Draw a book with charged lines."""
    parts = [box(x - 32, y - 26, 64, 52, f'fill="{PAPER}" stroke="{INK}" stroke-width="1.5"')]
    for i, length in enumerate((40, 32, 44)):
        parts.append(
            f'<line x1="{x - 22:g}" y1="{y - 12 + 13 * i:g}" x2="{x - 22 + length:g}" '
            f'y2="{y - 12 + 13 * i:g}" stroke="{ACCENT if i == 2 else SOFT}" stroke-width="2.5"/>'
        )
    return "".join(parts)


def outcomes(x: float, y: float) -> str:
    """Name what is made of a release."""
    parts = []
    for i, word in enumerate(("models", "fabricated rows", "functions", "reports")):
        top = y - 68 + 36 * i
        parts.append(box(x - 72, top, 144, 29, f'fill="{PAPER}" stroke="{SOFT}"'))
        parts.append(text(x, top + 20, word))
    return "".join(parts)


def drawing(width: int, height: int, parts: list[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{TITLE}" font-family="inherit"><title>{TITLE}</title><desc>{STORY}</desc>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def wide() -> str:
    """Lay the steps out from left to right."""
    y = 165
    return drawing(
        960,
        300,
        [
            box(2, 40, 388, 240, f'fill="{FILL}" stroke="{SOFT}" stroke-dasharray="2 3"'),
            box(568, 40, 390, 240, f'fill="none" stroke="{ACCENT}" stroke-width="2"'),
            text(196, 26, "secret", bold=True),
            text(479, 26, "release", bold=True),
            text(763, 26, "public: from here on all is free", bold=True),
            *(rows(100, y), text(100, 242, "rows, clipped"), text(100, 263, "to public bounds")),
            *(arrow(170, y, 222, y), statistic(292, y)),
            *(text(292, 242, "statistic,"), text(292, 263, "exact sums")),
            *(
                arrow(356, y, 408, y),
                ledger(479, 82),
                text(479, 130, "1  ledger charged", soft=True),
            ),
            *(bell(479, y + 20), text(479, 242, "2  noise added", soft=True)),
            *(arrow(548, y, 602, y), released(668, y)),
            *(text(668, 242, "released"), text(668, 263, "numbers"), arrow(734, y, 786, y)),
            outcomes(868, y),
        ],
    )


def tall() -> str:
    """Lay the steps out from top to bottom."""
    x, side = 110, 250
    return drawing(
        360,
        708,
        [
            box(2, 32, 356, 254, f'fill="{FILL}" stroke="{SOFT}" stroke-dasharray="2 3"'),
            box(2, 446, 356, 260, f'fill="none" stroke="{ACCENT}" stroke-width="2"'),
            text(180, 20, "secret", bold=True),
            *(rows(x, 100), text(side, 98, "rows, clipped"), text(side, 119, "to public bounds")),
            *(arrow(x, 160, x, 188), statistic(x, 226)),
            *(text(side, 228, "statistic,"), text(side, 249, "exact sums")),
            *(arrow(x, 274, x, 310), text(side, 316, "release", bold=True)),
            *(ledger(x, 345), text(side, 350, "1  ledger charged", soft=True)),
            *(bell(x, 400), text(side, 408, "2  noise added", soft=True)),
            *(
                text(side, 474, "public: from here", bold=True),
                text(side, 495, "on all is free", bold=True),
            ),
            *(arrow(x, 426, x, 464), released(x, 516)),
            *(text(side, 532, "released"), text(side, 553, "numbers"), arrow(x, 566, x, 590)),
            *_pairs(180, 632),
        ],
    )


def _pairs(x: float, y: float) -> list[str]:
    words = ("models", "fabricated rows", "functions", "reports")
    parts = []
    for i, word in enumerate(words):
        left, top = x - 160 + 164 * (i % 2), y - 34 + 48 * (i // 2)
        parts.append(box(left, top, 156, 36, f'fill="{PAPER}" stroke="{SOFT}"'))
        parts.append(text(left + 78, top + 24, word))
    return parts


if __name__ == "__main__":
    (HERE / "idea_wide.svg").write_text(wide())
    (HERE / "idea_tall.svg").write_text(tall())
