"""What theme and highlighter leave out for people who use a keyboard or a screen reader."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from sphinx.application import Sphinx


def mend(_app: Sphinx, _page: str, _template: str, context: dict[str, Any], _tree: Any) -> None:
    """Let code and tables be scrolled by keyboard, and give captions their level."""
    if "body" in context:
        body = context["body"].replace("<pre>", '<pre tabindex="0">')
        table = '<div class="table-wrapper'
        body = body.replace(table, table.replace("<div", '<div tabindex="0"'))
        body = TABLE.sub(_as_cards, body)
        body = body.replace("<h1>sfumato.", '<h1 class="symbol">sfumato.<wbr>')
        context["body"] = PARAMETER.sub(r"\1: ", body)
    if "furo_navigation_tree" in context:
        context["furo_navigation_tree"] = context["furo_navigation_tree"].replace(
            'role="heading"', 'role="heading" aria-level="2"'
        )


TABLE = re.compile(r'<table class="[^"]*\bdocutils\b[^"]*">.*?</table>', re.DOTALL)
CODE = re.compile(r'(<span class="pre">)([^<]*)')
MAX_CELL = 70  # letters: a table with a longer cell is laid out as one of sentences
PARAMETER = re.compile(r"(<p><strong>[^<]*</strong> \(.*\)) -- ")
ROLES = {"table": "table", "tr": "row", "th": "columnheader", "td": "cell"}


def _as_cards(found: re.Match[str]) -> str:
    """Let each cell of a table of sentences know its title: on a phone the cells are stacked.

    Then the elements are laid out as blocks, so that what they are must be said by their roles.
    """
    table = found[0]
    opening = table[: table.index(">")]
    if "prose" not in opening:
        cells = re.findall(r"<td.*?</td>", table, re.DOTALL)
        longest = max((len(re.sub(r"<.*?>", "", cell)) for cell in cells), default=0)
        if longest <= MAX_CELL or table.count("<th ") not in range(3, 7):
            return table
        table = table.replace('class="', 'class="prose ', 1)
    heads = re.findall(r"<th .*?>(.*?)</th>", table, re.DOTALL)
    titles = [re.sub(r"<.*?>", "", head).strip() for head in heads]
    table = CODE.sub(
        lambda word: word[1] + re.sub(r"(?<=\w)([.=,])(?=\w)", r"\1<wbr>", word[2]), table
    )
    for tag, role in ROLES.items():
        table = re.sub(f"<{tag}(?=[ >])", f'<{tag} role="{role}"', table)
    first, *rows = table.split("<tr")
    return "<tr".join([first, *(_titled(row, titles) for row in rows)])


def _titled(row: str, titles: list[str]) -> str:
    named = iter(titles)
    row = re.sub("<td", lambda _: f'<td data-title="{escape(next(named, ""))}"', row)
    return re.sub(r"<td([^>]*)>(<p></p>)?</td>", r'<td class="blank"\1></td>', row)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", mend, priority=900)  # after the theme
    return {"parallel_read_safe": True, "parallel_write_safe": True}
