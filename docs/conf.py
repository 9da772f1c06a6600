"""Sphinx configuration."""

from __future__ import annotations

import os

from sfumato import __version__

os.environ.setdefault("MPLBACKEND", "Agg")

project = "Sfumato"
author = "The Sfumato developers"
copyright = "2026, the Sfumato developers"
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
napoleon_custom_sections = [("Privacy", "params_style")]
napoleon_google_docstring = False
autosummary_generate = True
autodoc_typehints = "none"
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "show_memory": False,
    "write_computation_times": False,
}
exclude_patterns = ["_build", "gallery/*.ipynb", "gallery/*.zip"]
# Methods inherited from scikit-learn refer to pages of its own documentation.
suppress_warnings = ["ref.ref"]
html_theme = "furo"
html_title = "Sfumato"
