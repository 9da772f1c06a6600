"""Tables larger than memory, and clusters."""

from __future__ import annotations

from typing import Any

from benchmarks.tables.page import Sections, rows_of

FITS = ("density", "moments", "linear", "tree", "additive", "duckdb, plain sums")


def _memory(numbers: list[dict[str, Any]]) -> str:
    head = (
        "Parquet of 20 numbers and a label, each fit in a process whose address space is limited "
        "to 1 GiB: CPU seconds, and the largest memory in GiB. Linear on 20 columns, additive and "
        "tree on 3, density on 1, two gradients; beside them the 231 plain sums that are behind "
        "the moments, by DuckDB on one thread and without a limit. A dash was not run."
    )
    rows = [
        [f"{r['rows'] // 10**6} million", r["gigabytes"], *(_cell(r.get(name)) for name in FITS)]
        for r in numbers
    ]
    return f"{head}\n\n" + rows_of(["rows", "GB", *FITS], rows)


def _cell(found: dict[str, Any] | None) -> str:
    if found is None or "cpu_s" not in found:
        return "-"
    memory = f" ({found['peak_rss_gib']})" if "peak_rss_gib" in found else ""
    return f"{found['cpu_s']}{memory}"


def _cluster(numbers: list[dict[str, Any]]) -> str:
    head = (
        "Moments of Parquet files read in one process, and by workers of Dask on the same machine, "
        "scheduler and client counted. The sums are equal to the bit."
    )
    places = ("one process", "1 workers", "2 workers")
    rows = []
    for r in numbers:
        size = f"{r['rows'] // 10**6} million x {r['columns']}"
        for place in places:
            same = "yes" if r[place].get("same bits", True) else "NO"
            rows.append([size, place, r[place]["cpu_s"], r[place]["wall_s"], same])
    return f"{head}\n\n" + rows_of(["rows", "where", "CPU s", "clock s", "same bits"], rows)


SECTIONS: Sections = {
    "engines_memory": ("Tables larger than memory", _memory),
    "engines_cluster": ("Tables on workers of Dask", _cluster),
}
