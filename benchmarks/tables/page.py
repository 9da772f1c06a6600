"""What every section of the page is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Name of a results file: its title, and what makes text of its numbers.
Sections = dict[str, tuple[str, Callable[[Any], str]]]

HEAD = """# Benchmarks

`make bench` runs all of them and rebuilds this page from `results/*.json`, which hold every number
here with machine, versions and seeds. Real data are found through `SFUMATO_DATA`. Seconds are those
of one run on one machine: compare rows, not machines.
"""


def section(title: str, text: Callable[[Any], str], record: dict[str, Any]) -> str:
    """Give one section: title, machine, numbers."""
    return f"## {title}\n\n{_machine(record)}\n\n{text(record['numbers'])}\n"


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
