"""Fault campaigns: what is interrupted, killed, damaged or crowded, and what is left of it.

python -m benchmarks.bench_faults [NAME ...] [--quick]

One function per campaign. It takes the share of its full size that is to be run, and gives a list
of records, each with `fault`, `tried`, and how often each outcome came (`outcomes`). Campaigns are
bounded, use their own temporary folder, and never leave a process behind. To add one, write the
function in a module of its own if it is long, and enter it in `CAMPAIGNS`. Each writes
``results/faults_NAME.json``; the picture is drawn from these files.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import bench_faults_ledger
from benchmarks.damaged_models import damaged_models
from benchmarks.damaged_tables import damaged_tables
from benchmarks.recording import RESULTS, write

Record = dict[str, Any]

PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "faults.png"
BAD = ("lock left", "lost", "overspent", "crash", "raw exception", "silent change", "hang")

CAMPAIGNS: dict[str, Callable[[float], list[Record]]] = {
    "interrupts": bench_faults_ledger.interrupts,
    "kills": bench_faults_ledger.kills,
    "latency": bench_faults_ledger.latency,
    "crowd": bench_faults_ledger.crowd,
    "tables": damaged_tables,
    "models": damaged_models,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", choices=[*CAMPAIGNS, []], metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="a fiftieth of it, kept nowhere")
    arguments = parser.parse_args()
    for name in arguments.names or CAMPAIGNS:
        if arguments.quick:
            print(name, json.dumps(CAMPAIGNS[name](0.02), indent=1))
        else:
            write(f"faults_{name}", CAMPAIGNS[name](1.0), seed=0)
    draw(PICTURE)


def draw(path: Path) -> None:
    """Draw the outcomes of every fault, bad ones in red, and the time of a charge."""
    import matplotlib.pyplot as plt

    files = sorted(RESULTS.glob("faults_*.json"))
    records = [record for file in files for record in json.loads(file.read_text())["numbers"]]
    outcomes = [record for record in records if "outcomes" in record]
    times = [record for record in records if "beyond_sync_ms" in record]
    if not outcomes:
        return
    height = 3.2 + 0.35 * len(outcomes)
    figure, (above, below) = plt.subplots(
        2, figsize=(9, height), layout="constrained", height_ratios=(0.6 + len(outcomes), 6)
    )
    _draw_outcomes(above, outcomes)
    _draw_times(below, times)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _draw_outcomes(axes: Any, records: list[Record]) -> None:
    for place, record in enumerate(reversed(records)):
        left = 0.0
        for grey, (outcome, times) in enumerate(record["outcomes"].items()):
            share = times / max(1, record["tried"])
            color = "crimson" if outcome in BAD else str(0.6 + 0.12 * (grey % 3))
            axes.barh(place, share, left=left, color=color)
            if share > 0.013 * len(outcome):  # where the word fits
                axes.text(left + share / 2, place, outcome, ha="center", va="center", fontsize=7)
            left += share
    labels = [f"{record['fault']} ({record['tried']:,})" for record in reversed(records)]
    axes.set(yticks=range(len(records)), yticklabels=labels, xlim=(0, 1), xlabel="share of trials")


def _draw_times(axes: Any, records: list[Record]) -> None:
    lines = dict.fromkeys((record["kind"], record["handle"]) for record in records)
    for kind, handle in lines:
        found = [r for r in records if (r["kind"], r["handle"]) == (kind, handle)]
        style = {"marker": "o", "linestyle": "-" if handle == "warm" else "--"}
        charges, spent = [r["charges"] for r in found], [r["cpu_ms"] for r in found]
        axes.plot(charges, spent, label=f"{kind}, {handle} handle", **style)
    axes.set(xscale="log", ylim=(0, None), xlabel="charges before", ylabel="CPU ms per charge")
    if lines:
        axes.legend(fontsize=7, loc="lower center", ncols=2)


if __name__ == "__main__":
    main()
