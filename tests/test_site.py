"""The built site in a browser, on a phone and on a desk, and every link inside it.

``make docs-check`` builds the site and runs these tests; SFUMATO_SITE names its folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

PHONE, DESKTOP = 390, 1280
LOOKED_AT = [
    "index",
    "tutorials/rows-to-guarantee",
    "tutorials/command-line",
    "howto/command-line",
    "explanation/five-papers",
    "explanation/sharp-edges",
    "explanation/hulls",
    "guarantees/process",
    "reference/index",
    "reference/command-line",
    "reference/generated/sfumato.PrivateGaussianClassifier",
    "gallery/index",
    "gallery/plot_fabricated_table",
    "benchmarks",
]


@pytest.fixture(scope="module")
def site() -> Path:
    folder = Path(os.environ.get("SFUMATO_SITE", "no-site"))
    if not (folder / "index.html").is_file():
        pytest.skip("no site to look at: `make docs-check` builds one and sets SFUMATO_SITE")
    return folder.resolve()


class Links(HTMLParser):
    """Targets of links and pictures of a page, and its anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name in ("id", "name"):
                self.anchors.add(value)
            elif name in ("href", "src") and tag != "meta":
                self.targets.append(value)


@cache
def links(page: Path) -> Links:
    reader = Links()
    reader.feed(page.read_text())
    return reader


def broken(page: Path) -> list[str]:
    """Return the targets inside the site that do not exist."""
    wrong = []
    for target in links(page).targets:
        parts = urlsplit(target)
        if parts.scheme or parts.netloc:
            continue
        file = page if not parts.path else (page.parent / unquote(parts.path)).resolve()
        # Listings of source name a class by its module, their way back ends at the page.
        anchor = "" if "_modules" in page.parts else unquote(parts.fragment)
        if not file.is_file() or (
            anchor and file.suffix == ".html" and anchor not in links(file).anchors | {"top"}
        ):
            wrong.append(target)
    return wrong


def test_links_and_anchors_of_all_pages(site: Path) -> None:
    pages = [page for page in site.rglob("*.html") if "_static" not in page.parts]
    assert len(pages) > 100
    wrong = {str(page.relative_to(site)): found for page in pages if (found := broken(page))}
    assert not wrong


def test_a_dead_link_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text('<p id="here"><a href="#here"></a><a href="#gone"></a><img src="gone.png">')
    assert broken(page) == ["#gone", "gone.png"]


@pytest.fixture(params=[(PHONE, "dark"), (DESKTOP, "light")], ids=["phone", "desktop"])
def context(request: pytest.FixtureRequest, browser: Any) -> Iterator[Any]:
    width, scheme = request.param
    opened = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    yield opened
    opened.close()


def opened(context: Any, page: Path) -> Any:
    """Open a page and note what it says and asks for."""
    tab = context.new_page()
    tab.said = []
    tab.on("console", lambda message: tab.said.append(message.text))
    tab.on("pageerror", lambda error: tab.said.append(str(error)))
    tab.on("requestfailed", lambda asked: tab.said.append(f"failed: {asked.url}"))
    tab.on(
        "request",
        lambda asked: None if asked.url[:5] in ("file:", "data:") else tab.said.append(asked.url),
    )
    tab.goto(page.as_uri())
    return tab


@pytest.mark.parametrize("name", LOOKED_AT)
def test_a_page_can_be_read(name: str, site: Path, context: Any) -> None:
    checker = pytest.importorskip("axe_playwright_python.sync_playwright")
    tab = opened(context, site / f"{name}.html")
    assert tab.said == []  # no message, no error, no network
    assert tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    for picture in tab.query_selector_all("img"):
        picture.scroll_into_view_if_needed() if picture.is_visible() else None
    dead = "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
    assert tab.evaluate(dead) == []
    # The theme has two sidebars without names of their own, and "Back to top" outside of all parts
    # of the page; everything else is asked for.
    of_the_theme = {rule: {"enabled": False} for rule in ("landmark-unique", "region")}
    found = checker.Axe().run(tab, options={"rules": of_the_theme})
    assert found.violations_count == 0, found.generate_report()
    tab.close()


def test_the_picture_of_the_idea_fits_the_screen(site: Path, context: Any) -> None:
    tab = opened(context, site / "index.html")
    shown = [svg for svg in tab.query_selector_all(".idea svg") if svg.is_visible()]
    assert len(shown) == 1
    box = shown[0].bounding_box()
    smallest = tab.evaluate(
        "svg => Math.min(...[...svg.querySelectorAll('text')]"
        ".map(t => t.getBoundingClientRect().height))",
        shown[0],
    )
    assert box["width"] > 300
    assert smallest > 11
    tab.close()
