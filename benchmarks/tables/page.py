"""What every section of the page is made of."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

# Name of a results file: its title, and what makes text of its numbers.
Sections = dict[str, tuple[str, Callable[[Any], str]]]

Picture = tuple[str, str]  # its title and its file under charts/

HEAD = """# Benchmarks

This page shows one chart per chapter. The chapter's own page has the rest, with every table behind
a line that opens it. In charts of ratios, a bar to the right of the line is in our favour, and a
bar to the left is a loss.

`make bench` runs all benchmarks and rebuilds these pages from `results/*.json`, which contain
every number with machine, versions and seeds. Real data are found through `SFUMATO_DATA`. Seconds
are those of one run on one machine: compare rows, not machines.
"""


def opening(page: str, title: str, about: str, titles: list[str], pictures: list[Picture]) -> str:
    """Give what the first page says of a chapter: its first chart and the way to its page."""
    parts = [f"## {title}", about, *(shown(picture, "charts") for picture in pictures)]
    measured = "1 measurement" if len(titles) == 1 else f"{len(titles)} measurements"
    return "\n\n".join([*parts, f"[{title}: {measured}](measured/{page}.md)"]) + "\n"


def chapter(title: str, about: str, titles: list[str], sections: list[str]) -> str:
    """Give the page of a chapter: its contents and its sections."""
    links = "\n".join(f"- [{title}](#{anchor(title)})" for title in titles)
    return "\n".join([f"# {title}\n\n{about}\n\n{links}\n", *sections])


def shown(picture: Picture, folder: str) -> str:
    title, file = picture
    return f"![{title}]({folder}/{file})"


def anchor(title: str) -> str:
    """Name a heading as GitHub does."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


LONGEST_TABLE = 4  # rows that stand open


def section(
    entry: tuple[str, Callable[[Any], str]], record: dict[str, Any], pictures: list[Picture]
) -> str:
    """Give one section: title, pictures, machine, numbers; long tables are folded."""
    title, text = entry
    drawn = [shown(picture, "../charts") for picture in pictures]
    parts = [f"## {title}", *drawn, _machine(record), folded(text(record["numbers"]))]
    return "\n\n".join(parts) + "\n"


def folded(text: str) -> str:
    """Put long tables behind a line that opens them."""
    parts = []
    for part in text.split("\n\n"):
        lines = part.count("\n") - 1
        if part.startswith("|") and lines > LONGEST_TABLE:
            opening = f"<details><summary>Table, {lines} rows</summary>"
            part = f"{opening}\n\n{part}\n\n</details>"
        parts.append(part)
    return "\n\n".join(parts)


def rows_of(titles: list[str], rows: list[list[Any]]) -> str:
    """Give a Markdown table."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def _machine(record: dict[str, Any]) -> str:
    machine, versions = record["machine"], record["versions"]
    device = record.get("device") or machine["processor"]
    return (
        f"{device}, {machine['cores']} cores, threads: {machine['threads']}; Python "
        f"{record['python']}, NumPy {versions['numpy']}, scikit-learn {versions['scikit-learn']}."
    )
