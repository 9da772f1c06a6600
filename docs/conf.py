"""Sphinx configuration. Nothing here needs the network: not the build, and not the pages."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from sfumato import __version__

os.environ.setdefault("MPLBACKEND", "Agg")
sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "Sfumato"
author = "The Sfumato developers"
copyright = "2026, the Sfumato developers"
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
    "accessible",
    "commands",
    "inline_svg",
    "mathml",
]
myst_enable_extensions = ["dollarmath", "colon_fence", "attrs_block", "attrs_inline"]
myst_heading_anchors = 3
smartquotes_action = "qe"  # two hyphens are options of commands, not dashes
napoleon_custom_sections = [("Privacy", "params_style")]
napoleon_google_docstring = False
autosummary_generate = True
autodoc_typehints = "none"
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "gallery_order.position",
    "show_memory": False,
    "thumbnail_size": (720, 500),
    "write_computation_times": False,
    "min_reported_time": 3600,  # times of one machine say nothing on another
}
exclude_patterns = ["_build", "templates", "gallery/*.ipynb", "gallery/*.zip", "pictures/*.py"]
# Methods inherited from scikit-learn refer to pages of its own documentation.
suppress_warnings = ["ref.ref"]

html_theme = "furo"
html_title = "Sfumato"
html_math_renderer = "mathml"
html_static_path = ["static"]
html_css_files = ["sfumato.css"]
html_copy_source = False
templates_path = ["templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/versions.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
# Sites of other releases beside this one, where tools/versioned_docs.sh puts them.
html_context = {"versions": os.environ.get("SFUMATO_VERSIONS", "").split()}
html_favicon = "static/logo-light.svg"
html_theme_options = {
    "light_logo": "logo-light.svg",
    "dark_logo": "logo-dark.svg",
    "light_css_variables": {"color-brand-primary": "#0d676d", "color-brand-content": "#0a5d8f"},
    "dark_css_variables": {"color-brand-primary": "#5cc4cb", "color-brand-content": "#7ab8e0"},
}

linkcheck_timeout = 20
linkcheck_retries = 2
linkcheck_ignore = [r"postgresql://.*"]
