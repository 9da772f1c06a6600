"""Sections on the service: crowds, kills, load."""

from __future__ import annotations

from typing import Any

from benchmarks.tables.page import Sections, rows_of

FAULTS = (
    "releases without a charge, double charges, files or results lost, charges that no job names, "
    "budgets passed"
)


def _crowd(numbers: list[dict[str, Any]]) -> str:
    text = (
        "Submits by twenty analysts at once over HTTP while four threads ask for states. Accepted "
        "ones that the budget does not hold any more when a worker takes them are refused. Faults: "
        f"{FAULTS}.\n\n"
    )
    return text + rows_of(
        [
            "database",
            "submits",
            "accepted",
            "released",
            "refused",
            "faults",
            "p50 ms",
            "p95 ms",
            "load",
        ],
        [
            [
                *(r["database"], r["submits"], r["accepted"]),
                *(r["ends"].get("released", 0), r["ends"].get("refused", 0)),
                *(sum(r["faults"].values()), r["status_p50_ms"], r["status_p95_ms"]),
                round(r["load_average"], 1),
            ]
            for r in numbers
        ],
    )


def _kills(numbers: dict[str, Any]) -> str:
    killed = ", ".join(f"{count} x {name}" for name, count in sorted(numbers["killed"].items()))
    ends = ", ".join(f"{count} {name}" for name, count in sorted(numbers["ends"].items()))
    restart = numbers["restart_of_web_s"]
    return (
        f"kill -9 at random moments: {killed}. Jobs ended: {ends} (lost: charged, nothing shown, "
        f"and named so). Faults ({FAULTS}): {sum(numbers['faults'].values())}. The web process "
        f"answered again after {restart['median']} s (median; largest {restart['largest']} s) at a "
        f"load "
        f"average of {numbers['load_average']:.0f} on two cores. The full campaign has 500 kills; "
        "the database server is not killed."
    )


def _load(numbers: dict[str, Any]) -> str:
    points = numbers["memory_mb"]
    requests = sum(numbers["requests"].values())
    parts = "; ".join(
        f"{name}: {points[0][name]} MB at the start, {points[-1][name]} MB at the end"
        for name in ("web", "workers")
    )
    return (
        f"{numbers['seconds']:.0f} s of mixed requests ({requests}) at a load average of "
        f"{numbers['load_average']:.0f} on two cores. Resident memory, {parts}. The full run takes "
        "an hour. ![Resident memory of web process and workers under load: flat.]"
        "(../docs/pictures/service_load.png)"
    )


SECTIONS: Sections = {
    "service_crowd": ("Service: a crowd that submits", _crowd),
    "service_kills": ("Service: killed at any moment", _kills),
    "service_load": ("Service: memory under load", _load),
}
