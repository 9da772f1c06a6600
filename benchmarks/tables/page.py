"""What every section of the page is made of."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

# Name of a results file: its title, and what makes text of its numbers.
Sections = dict[str, tuple[str, Callable[[Any], str]]]

HEAD = """# Benchmarks

`make bench` runs all of them and rebuilds this page from `results/*.json`, which hold every number
here with machine, versions and seeds. Real data are found through `SFUMATO_DATA`. Seconds are those
of one run on one machine: compare rows, not machines. In charts of ratios a bar to the right of the
line is in our favour, a bar to the left is a loss; the tables behind the charts open with a click.
"""


def contents(titles: list[str]) -> str:
    """Give links to all sections, behind a line that opens them."""
    links = "\n".join(f"- [{title}](#{anchor(title)})" for title in titles)
    opening = f"<details><summary>Contents, {len(titles)} sections</summary>"
    return f"{opening}\n\n{links}\n\n</details>\n"


def anchor(title: str) -> str:
    """Name a heading as GitHub does."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


LONGEST_TABLE = 4  # rows that stand open


def section(
    title: str, text: Callable[[Any], str], record: dict[str, Any], pictures: list[str]
) -> str:
    """Give one section: title, pictures, machine, numbers; long tables are folded."""
    parts = [f"## {title}", *pictures, _machine(record), folded(text(record["numbers"]))]
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
