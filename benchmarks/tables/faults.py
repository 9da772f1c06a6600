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
        f"Tables with one odd cell or line beside the table without it, every release held fixed "
        f"({shown}): {len(numbers['differences'])} pairs differ in a model, file, table, word or "
        f"error. {numbers['cpu_s']:,} s of CPU."
    )


SECTIONS: Sections = {
    "faults_interrupts": ("Faults: interrupts of a ledger", outcomes),
    "faults_kills": ("Faults: kills of processes that charge", outcomes),
    "faults_latency": ("Faults: a charge after a long history", _latency),
    "faults_crowd": ("Faults: many processes on one ledger", _crowd),
    "faults_tables": ("Faults: damaged tables", _damaged),
    "faults_models": ("Faults: models and stores altered, killed and cut short", outcomes),
    "fuzzed_tables": ("Tables with one odd cell", _fuzzed),
}
