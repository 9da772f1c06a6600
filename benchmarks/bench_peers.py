"""Ours beside other packages, one table: ``python -m benchmarks.bench_peers [TASK ...]``.

Same rows, same public bounds, same epsilon, one thread. Where a peer has a delta it is ours, else
its promise is pure epsilon. Nothing is chosen by test rows: every estimator has its defaults, and
which of ours stands beside which of theirs is fixed here. Rows that we lose stay in.

SFUMATO_PEERS_PYTHON names Pythons that have diffprivlib, 'opendp[mbi,scikit-learn]', opacus,
jax-privacy or smartnoise-synth, parted by colons; what none of them has is passed over.
SFUMATO_DATA is the folder of the data sets. Tasks that are not named, or for which nobody is there,
keep their last numbers; attacks are those of `bench_auditing_peers`.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

from benchmarks.peers import classification, noise, statistics, tables
from benchmarks.recording import RESULTS, write

TASKS: dict[str, Callable[[], Iterable[dict[str, Any]]]] = {
    "classification": classification.rows,
    "components": statistics.components,
    "means": statistics.means,
    "densities": statistics.densities,
    "tables": tables.rows,
    "noise": noise.draws,
    "attacks": noise.attacks,
}
ORDER = ["classification", "principal components", "mean", "density", "synthetic table"]
ORDER += ["noise", "membership attack"]


def main() -> None:
    if "SFUMATO_DATA" not in os.environ:
        raise SystemExit("Set SFUMATO_DATA to the folder of the data sets.")
    warnings.filterwarnings("ignore", message="delta=")  # small sets
    for task in sys.argv[1:] or TASKS:
        for _, rows in groupby(TASKS[task](), key=lambda row: row["data"]):
            keep(list(rows))


def keep(found: list[dict[str, Any]]) -> None:
    """Put the rows of one task and one data set in the place of those of their last run."""
    found = [{"date": time.strftime("%Y-%m-%d", time.gmtime()), **row} for row in found]
    now = {(row["task"], row["data"]) for row in found}
    numbers = [row for row in kept() if (row["task"], row["data"]) not in now] + found
    numbers.sort(key=lambda row: ORDER.index(row["task"]))
    write("peers", numbers, seed=None, date=min(row["date"] for row in numbers))


def kept() -> list[dict[str, Any]]:
    path = RESULTS / "peers.json"
    numbers: list[dict[str, Any]] = json.loads(path.read_text())["numbers"] if path.exists() else []
    return numbers


if __name__ == "__main__":
    main()
