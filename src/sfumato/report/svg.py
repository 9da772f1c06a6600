"""What every SVG picture of a report begins with, and its texts and lines."""

from __future__ import annotations

from html import escape

__all__ = ["cut", "opening", "rule", "text"]


def opening(title: str, size: tuple[int, int], said: str = "", key: str = "") -> str:
    """Open a picture with its title and, for a screen reader, what it shows; `key` makes ids."""
    frame = f'<svg role="img" viewBox="0 0 {size[0]} {size[1]}" width="{size[0]}"'
    frame += f' height="{size[1]}"'
    if not said:
        return f'{frame} aria-label="{escape(title)}"><title>{escape(title)}</title>'
    return (
        f'{frame} aria-labelledby="{key}-title {key}-desc"><title id="{key}-title">{escape(title)}'
        f'</title><desc id="{key}-desc">{escape(said)}.</desc>'
    )


def text(x: float, y: float, words: str, style: str, *, anchor: str = "start") -> str:
    """Write words at a place."""
    return (
        f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
        f"{escape(words)}</text>"
    )


def rule(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    """Draw a straight line."""
    return f'<line class="{style}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def cut(words: str, longest: int) -> str:
    """Shorten words to so many characters."""
    return words if len(words) <= longest else words[: max(longest - 1, 1)] + "…"
