"""The officer's pages as Markdown: the same words as on the page, read off its HTML."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from typing import TYPE_CHECKING

from sfumato.report.officer import first_pages

if TYPE_CHECKING:
    from sfumato.report.report import Report

__all__ = ["officer_lines"]

LINE = "________________"


def officer_lines(report: Report, plain: Callable[[str], str]) -> list[str]:
    """Give the lines of the first two pages; pictures are left out, their text says the same.

    plain: Makes text mean itself in Markdown.
    """
    reader = _Reader(plain)
    reader.feed(first_pages(report))
    return reader.lines


class _Reader(HTMLParser):
    """Reads the few elements that the pages are made of."""

    def __init__(self, plain: Callable[[str], str]) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._plain = plain
        self._text: list[str] = []
        self._cells: list[str] = []
        self._hidden = 0  # depth inside of pictures
        self._is_line = False
        self._after = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin an element."""
        if tag == "figure":
            self._hidden += 1
        if tag in ("h2", "p", "li", "th", "td", "dt"):
            self._text = []
            self._is_line = ("class", "line") in attrs
        if tag == "tr":
            self._cells = []
        if tag == "dd":
            self._text.append(": ")
        if tag == "span" and ("class", "number") not in attrs and dict(attrs).get("class"):
            self._text.append("Signal: ")
            self._after = "."

    def handle_data(self, data: str) -> None:
        """Take its text."""
        if not self._hidden:
            self._text.append(data)

    def handle_endtag(self, tag: str) -> None:
        """Write it as a line, a row or a heading."""
        if tag == "figure":
            self._hidden -= 1
            return
        if tag == "span":
            self._text.append(self._after)
            self._after = ""
            return
        said = self._plain("".join(self._text))
        if tag == "h2":
            self.lines += [f"## {said}", ""]
        elif tag == "p":
            self.lines += [f"{said}: {LINE}" if self._is_line else said, ""]
        elif tag in ("li", "dd"):
            self.lines.append(f"- {said}")
        elif tag in ("ul", "dl", "table"):
            self.lines.append("")
        elif tag in ("th", "td"):
            self._cells.append(said)
        elif tag == "tr":
            self.lines.append("| " + " | ".join(self._cells) + " |")
        elif tag == "thead":
            self.lines.append("|" + "---|" * len(self._cells))
