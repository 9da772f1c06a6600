"""Fault campaigns: outcomes, the time of a charge, and waiting in a crowd."""

from __future__ import annotations

from typing import Any

from benchmarks.tables.page import Sections, rows_of


def outcomes(numbers: list[dict[str, Any]]) -> str:
    """One row per outcome of each fault."""
    return rows_of(
        ["fault", "outcome", "times", "of"],
        [
            [record["fault"], outcome, f"{times:,}", f"{record['tried']:,}"]
            for record in numbers
            for outcome, times in sorted(record["outcomes"].items(), key=lambda item: -item[1])
        ],
    )


def _latency(numbers: list[dict[str, Any]]) -> str:
    text = (
        "Medians of 41 charges on a SQLite file, budget (4, 1e-6). *Beyond sync* is what a charge "
        "takes longer than a transaction of one line in the same place, synced the same way.\n\n"
    )
    return text + rows_of(
        ["events", "handle", "charges before", "CPU ms", "slowest, CPU ms", "beyond sync, ms"],
        [
            [
                *(r["kind"], r["handle"], f"{r['charges']:,}"),
                *(r["cpu_ms"], r["slowest_cpu_ms"], r["beyond_sync_ms"]),
            ]
            for r in numbers
        ],
    )


def _crowd(numbers: list[dict[str, Any]]) -> str:
    return rows_of(
        ["waiting", "processes", "charges", "median s", "slowest s", "slowest over median"],
        [
            [
                *(r["waiting"], r["processes"], r["charges"]),
                *(r["median_s"], r["slowest_s"], r["slowest_over_median"]),
            ]
            for r in numbers
        ],
    )


def _damaged(numbers: list[dict[str, Any]]) -> str:
    text = (
        "Every second file has one flipped bit; the others have several, 64 other bytes, 8 bytes "
        "of zeros or ones, a part twice, or an end too early. Files named after a format alone "
        "are written by Sfumato, those of Parquet and Feather with checksums; text has none.\n\n"
    )
    return text + outcomes(numbers)


def _fuzzed(numbers: dict[str, Any]) -> str:
    shown = ", ".join(f"{count:,} by {way}" for way, count in sorted(numbers["tables"].items()))
    return (
        "Tables with one odd cell or line, compared with the table without it, every release "
        f"held fixed ({shown}): {len(numbers['differences'])} pairs differ in a model, "
        f"file, table, word or error. {numbers['cpu_s']:,} s of CPU."
    )


def _memory(numbers: list[dict[str, Any]]) -> str:
    text = (
        "Largest memory of NumPy during a fit, beyond the rows themselves; a public working set of "
        "256 MiB is allowed for besides (`sfumato.memory.WORKING_SET`).\n\n"
    )
    return text + rows_of(
        [
            "estimator",
            "rows",
            "type",
            "rows, MiB",
            "peak, MiB",
            "times the rows",
            "without the working set",
            "CPU s",
        ],
        [
            [
                f"{r['estimator']} {_options(r['options'])}",
                *(f"{r['rows']:,} x {r['columns']}", r["dtype"], r["input_mib"], r["peak_mib"]),
                *(r["beyond"], r["beyond_working_set"], r["cpu_s"]),
            ]
            for r in numbers
        ],
    )


def _options(options: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items())


SECTIONS: Sections = {
    "faults_interrupts": ("Faults: interrupts of a ledger", outcomes),
    "faults_kills": ("Faults: kills of processes that charge", outcomes),
    "faults_latency": ("Faults: a charge after a long history", _latency),
    "faults_crowd": ("Faults: many processes on one ledger", _crowd),
    "faults_tables": ("Faults: damaged tables", _damaged),
    "faults_models": ("Faults: models and stores altered, killed and cut short", outcomes),
    "memory": ("Memory of a fit", _memory),
    "fuzzed_tables": ("Tables with one odd cell", _fuzzed),
}
