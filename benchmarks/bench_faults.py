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

from benchmarks.recording import RESULTS, write

Record = dict[str, Any]

PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "faults.png"
BAD = ("lock left", "lost", "overspent", "crash", "raw exception", "silent change", "hang")

CAMPAIGNS: dict[str, Callable[[float], list[Record]]] = {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", choices=[*CAMPAIGNS, []], metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="a fiftieth of the full size")
    arguments = parser.parse_args()
    for name in arguments.names or CAMPAIGNS:
        share = 0.02 if arguments.quick else 1.0
        write(f"faults_{name}", CAMPAIGNS[name](share), seed=0, share=share)
    draw(PICTURE)


def draw(path: Path) -> None:
    """One bar per fault: the shares of its outcomes, good ones in grey, bad ones in red."""
    import matplotlib.pyplot as plt

    files = sorted(RESULTS.glob("faults_*.json"))
    records = [record for file in files for record in json.loads(file.read_text())["numbers"]]
    records = [record for record in records if "outcomes" in record]
    if not records:
        return
    figure, axes = plt.subplots(figsize=(8, 1 + 0.35 * len(records)), layout="constrained")
    for place, record in enumerate(reversed(records)):
        left = 0.0
        for grey, (outcome, times) in enumerate(record["outcomes"].items()):
            share = times / max(1, record["tried"])
            color = "crimson" if outcome in BAD else str(0.6 + 0.12 * (grey % 3))
            axes.barh(place, share, left=left, color=color)
            if share > 0.08:
                axes.text(left + share / 2, place, outcome, ha="center", va="center", fontsize=7)
            left += share
    labels = [f"{record['fault']} ({record['tried']:,})" for record in reversed(records)]
    axes.set(yticks=range(len(records)), yticklabels=labels, xlim=(0, 1), xlabel="share of trials")
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
