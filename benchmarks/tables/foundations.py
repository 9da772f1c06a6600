"""Noise, moments and tables larger than memory."""

from __future__ import annotations

from collections import Counter
from typing import Any

from benchmarks.tables.page import Sections, rows_of


def _noise(numbers: list[dict[str, Any]]) -> str:
    table = rows_of(
        ["law", "million exact draws/s", "numpy.random, million/s", "times slower"],
        [
            [
                r["law"],
                r["million_draws_per_s"],
                r["numpy_million_per_s"],
                r["times_slower_than_numpy"],
            ]
            for r in numbers
            if "million_draws_per_s" in r
        ],
    )
    entry = next(r for r in numbers if r["law"] == "entry")
    return f"{table}\n\nEntry noise on {entry['draws']:,} numbers (MNIST): {entry['cpu_s']:.1f} s."


def _moments(numbers: list[dict[str, Any]]) -> str:
    return "Record level, replace one, delta 1e-5, rows scaled to unit length.\n\n" + rows_of(
        ["epsilon", "accuracy", "standard deviation", "runs", "before the record engine", "fit s"],
        [
            [
                r["epsilon"],
                r["accuracy"],
                r["accuracy_std"],
                r["runs"],
                r.get("accuracy_about_the_origin", ""),
                r["fit_wall_s"],
            ]
            for r in numbers
        ],
    )


def _tables(numbers: dict[str, Any]) -> str:
    return (
        f"`sfumato fit --model gaussian` on a generated Parquet file of {numbers['file_gb']} GB "
        f"({numbers['rows']:,} rows, {numbers['features']} columns), read batch by batch, once for "
        f"each of {numbers['passes']} releases: {numbers['cpu_s']} s of CPU, {numbers['wall_s']} s "
        f"on the clock, at most {numbers['peak_gib']} GiB of memory in all."
    )


def _budget_saved(numbers: dict[str, Any]) -> str:
    return (
        "The same guarantee with less noise: figures of version 0.1.0 and of the current code. "
        "Less is better; for a bandwidth, 1 is right.\n\n"
    ) + rows_of(
        ["item", "measure", "before", "now", "standard deviation"],
        [[r[k] for k in ("item", "measure", "before", "now", "now_std")] for r in numbers["rows"]],
    )


def _quick_runs(numbers: dict[str, Any]) -> str:
    rows = numbers["rows"]
    counts = Counter(r["ended"].partition(",")[0] for r in rows)
    counted = ", ".join(f"{number} {ended}" for ended, number in counts.items())
    total = sum(r["wall_s"] for r in rows) / 60
    return (
        "`make bench-quick` runs every benchmark for about a minute at most, to see whether it "
        "still works, so that all of them take less than an hour. Measured in parts, some with "
        f"less time: {len(rows)} benchmarks, {total:.0f} minutes together; {counted}."
        "\n\n"
    ) + rows_of(["benchmark", "ended", "s"], [[r["name"], r["ended"], r["wall_s"]] for r in rows])


def _quarter_hour(numbers: list[dict[str, Any]]) -> str:
    """Give the seconds of each step of three people."""
    told = ", ".join(f"{r['who']} {r['wall_s'] / 60:.1f} minutes" for r in numbers)
    rows = [
        [r["who"], r["python"], f"`{step['command']}`", step["code"], step["wall_s"]]
        for r in numbers
        for step in r["steps"]
    ]
    return (
        "Three people follow the pages in empty environments, played by a script "
        f"(`benchmarks/quarter_hour.py`): {told}, most of it to install. Code 2 is a refusal that "
        "they must meet.\n\n"
    ) + rows_of(["who", "Python", "command", "code", "s"], rows)


def _coverage(numbers: dict[str, Any]) -> str:
    table = rows_of(
        ["file", "statements", "never run", "percent"],
        [
            [r[k] for k in ("file", "statements", "missed", "percent")]
            for r in numbers["below_the_floor"]
        ],
    )
    return (
        f"The tests that need Python alone run at least {numbers['percent']} % of statements and "
        f"branches ({numbers['missed']:,} of {numbers['statements']:,} statements are never run); "
        f"`make coverage` fails below {numbers['floor']} %. Two of 26 parts of this run and the "
        "examples in docstrings were lost (eight files that decide what is promised were run again "
        "apart, and are at 93 % or above), and the machine had no Flower, Spark, PostgreSQL or "
        "browser. Files below the floor:\n\n"
    ) + table


SECTIONS: Sections = {
    "noise": ("Exact noise", _noise),
    "budget_saved": ("Budget no longer thrown away", _budget_saved),
    "moments_mnist": ("Private Gaussian classifier, MNIST", _moments),
    "tables_passes": ("A table larger than memory", _tables),
    "coverage": ("What the tests run", _coverage),
    "quarter_hour": ("The first quarter of an hour", _quarter_hour),
    "quick_runs": ("A quick run of every benchmark", _quick_runs),
}
