"""Drawings stand inside of their page, so that their colours follow its theme."""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx


def put_inside(app: Sphinx, doctree: nodes.document, _name: str) -> None:
    """Replace images of drawings by the drawings, with the words of the image as caption."""
    if app.builder.format != "html":
        return
    for image in list(doctree.findall(nodes.image)):
        path = Path(app.srcdir, image["uri"])
        if path.suffix == ".svg" and path.is_file():
            words = nodes.Text(image.get("alt", "")).astext()
            caption = f"<figcaption>{words}</figcaption>" if words else ""
            classes = " ".join(["drawing", *image["classes"]])  # such as only-dark
            drawn = f'<figure class="{classes}">{caption}{path.read_text()}</figure>'
            paragraph = image.parent
            raw = nodes.raw("", drawn, format="html")
            if isinstance(paragraph, nodes.paragraph) and len(paragraph) == 1:
                paragraph.replace_self(raw)
            else:
                image.replace_self(raw)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-resolved", put_inside)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
