"""Formulas as MathML, made at build time by docutils: pages need no script and no network."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)


def written(node: Any, *, as_block: bool) -> str:
    """Return the MathML of a node; what docutils cannot read is a warning and stays as it is."""
    try:
        return tex2mathml(re.sub(r"\\dots\b", r"\\ldots", node.astext()), as_block=as_block)
    except MathError as error:
        logger.warning("formula not understood: %s", error, location=node)
        return f"<code>{node.astext()}</code>"


def inline(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(f'<span class="math">{written(node, as_block=False)}</span>')
    raise nodes.SkipNode


def block(translator: HTML5Translator, node: nodes.math_block) -> None:
    # A wide formula scrolls inside its own box, also by keyboard.
    translator.body.append('<div class="math" tabindex="0" role="group" aria-label="formula">')
    translator.body.append(written(node, as_block=True) + "</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer(
        "mathml", inline_renderers=(inline, None), block_renderers=(block, None)
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
