"""Tables larger than memory, and clusters."""

from __future__ import annotations

from typing import Any

from benchmarks.tables.page import Sections, rows_of

FITS = ("density", "moments", "linear", "tree", "additive", "duckdb, plain sums")


def _memory(numbers: list[dict[str, Any]]) -> str:
    head = (
        "Parquet of 20 numbers and a label, each fit in a process whose address space is limited "
        "to 1 GiB: CPU seconds, those per GB, and the largest memory in GiB. Linear on "
        "20 columns, additive and tree on 3, density on 1, two gradients; for "
        "comparison, the 231 plain sums behind the moments, by DuckDB on one thread "
        "without a limit. A dash means not run."
    )
    rows = [
        [f"{r['rows'] // 10**6} million", r["gigabytes"], *(_cell(r.get(name)) for name in FITS)]
        for r in numbers
    ]
    return f"{head}\n\n" + rows_of(["rows", "GB", *FITS], rows)


def _cell(found: dict[str, Any] | None) -> str:
    if found is None or "cpu_s" not in found:
        return "-"
    more = [found[name] for name in ("cpu_s_per_gb", "peak_rss_gib") if name in found]
    return f"{found['cpu_s']} ({', '.join(map(str, more))})"


def _cluster(numbers: list[dict[str, Any]]) -> str:
    head = (
        "Moments of Parquet files read in one process, and by workers of Dask on the same "
        "machine, scheduler and client counted, on two cores. The sums are equal to the "
        "bit. Dask makes its workers return memory at once; Sfumato reuses it while a "
        "part is added up. The rows below the third show what else was tried."
    )
    rows = []
    for r in numbers:
        size = f"{r['rows'] // 10**6} million x {r['columns']}"
        for place, found in r.items():
            if isinstance(found, dict):
                same = "yes" if found.get("same bits", True) else "NO"
                times = found.get("cpu_over_one_process", 1)
                rows.append([size, place, found["cpu_s"], times, found["wall_s"], same])
    head_of_table = ["rows", "where", "CPU s", "times one process", "clock s", "same bits"]
    return f"{head}\n\n" + rows_of(head_of_table, rows)


def _bits(numbers: list[dict[str, Any]]) -> str:
    head = (
        "Every algorithm on every kind of records, on a messy table of 1500 rows: whether all "
        "exact sums and, with noise replayed from tape, all numbers of the model are "
        "equal to those of a frame in memory. A dash means not run."
    )
    places = list(dict.fromkeys(place for r in numbers for place in r if place != "algorithm"))
    rows = [[r["algorithm"], *(r.get(place, "-") for place in places)] for r in numbers]
    return f"{head}\n\n" + rows_of(["algorithm", *places], rows)


SECTIONS: Sections = {
    "engines_memory": ("Tables larger than memory", _memory),
    "engines_cluster": ("Tables on workers of Dask", _cluster),
    "engines_bits": ("The same bits wherever records lie", _bits),
}
