"""Links between the pages of the repository lead somewhere; no network is needed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    page
    for pattern in (
        "*.md",
        "docs/*.md",
        "docs/[!_]*/*.md",
        "benchmarks/*.md",
    )
    for page in ROOT.glob(pattern)
)
LINK = re.compile(r"(?<!`)!?\[[^\]]*\]\(([^)\s]+)\)")
ROLE = re.compile(r"\{doc\}`(?:[^`<]*<)?([^`>]+)>?`")
FENCED = re.compile(r"^(`{3,}|:{3,}).*?^\1", flags=re.DOTALL | re.MULTILINE)
INLINE_CODE = re.compile(r"`[^`\n]*`")


def prose(page: Path) -> str:
    return FENCED.sub("", page.read_text())


def slug(heading: str) -> str:
    """Return the anchor of a heading, as GitHub and MyST make it."""
    plain = re.sub(r"[`*]", "", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    return {slug(found) for found in re.findall(r"^#{1,6} (.*)$", prose(page), flags=re.MULTILINE)}


def found(page: Path, target: str) -> Path | None:
    """Return the file that a link of a page leads to."""
    if target.startswith("gallery/") or "/gallery/" in target:  # made from examples at build time
        name = Path(target).stem
        made = ROOT / "examples" / ("README.rst" if name == "index" else f"{name}.py")
        return made if made.is_file() else None
    place = page.parent / target
    return next((p for p in (place, place.with_name(place.name + ".md")) if p.exists()), None)


def broken(page: Path) -> list[str]:
    """Return the links of a page that lead nowhere."""
    text = prose(page)
    if page.parent == ROOT / "docs" and (
        included := re.search(r"{include} (\S+)", page.read_text())
    ):
        assert (page.parent / included[1]).is_file()
    wrong = []
    for link in [*LINK.findall(INLINE_CODE.sub("", text)), *ROLE.findall(text)]:
        if re.match(r"(https?|mailto):", link):
            continue
        name, _, anchor = link.partition("#")
        target = page if not name else found(page, name)
        if target is None or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            wrong.append(link)
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert not broken(page)


def test_a_dead_link_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A heading\n[a](page.md#a-heading) [b](gone.md) [c](#gone) {doc}`nowhere`\n")
    assert broken(page) == ["gone.md", "#gone", "nowhere"]


def test_every_page_of_the_site_is_in_a_table_of_contents() -> None:
    docs = ROOT / "docs"
    listed = set()
    for page in docs.rglob("*.md"):
        for block in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(), flags=re.DOTALL):
            lines = [line for line in block.splitlines() if line and not line.startswith(":")]
            listed |= {(page.parent / line).resolve() for line in lines}
    pages = {p.with_suffix("").resolve() for p in PAGES if p.is_relative_to(docs)}
    assert pages - listed == {docs / "index"}
