"""What theme and highlighter leave out for people who use a keyboard or a screen reader."""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx


def mend(_app: Sphinx, _page: str, _template: str, context: dict[str, Any], _tree: Any) -> None:
    """Let code and tables be scrolled by keyboard, and give captions their level."""
    if "body" in context:
        body = context["body"].replace("<pre>", '<pre tabindex="0">')
        table = '<div class="table-wrapper'
        context["body"] = body.replace(table, table.replace("<div", '<div tabindex="0"'))
    if "furo_navigation_tree" in context:
        context["furo_navigation_tree"] = context["furo_navigation_tree"].replace(
            'role="heading"', 'role="heading" aria-level="2"'
        )


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", mend, priority=900)  # after the theme
    return {"parallel_read_safe": True, "parallel_write_safe": True}
