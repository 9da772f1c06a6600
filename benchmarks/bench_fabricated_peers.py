"""Fabricated tables of peers: MST, AIM and PrivBayes on the tables of `bench_fabricated_tables`.

Peers see public bins, and a number is drawn evenly inside its bin. One record added or removed,
epsilon 1, delta 1e-5; as many runs as fit into the seconds of each. Run as
``python -m benchmarks.bench_fabricated_peers [METHOD[:TABLE]] ...``, which keeps what was measured
of the others; SFUMATO_PEERS_PYTHON names Pythons with dpmm and smartnoise-synth, and ``keep FILE
...`` takes over what other machines have measured.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import bench_fabricated_tables as ours
from benchmarks.peers import tables as adult_tables
from benchmarks.peers.asking import ask
from benchmarks.recording import RESULTS, write

SEED, EPSILON, DELTA = 0, 1.0, 1e-5
PEERS = {
    "mst": ("dpmm", "mst", "MST (dpmm)"),
    "privbayes": ("dpmm", "privbayes", "PrivBayes (dpmm)"),
    "aim": ("dpmm", "aim", "AIM (dpmm), at most 48 rounds"),
    "smartnoise": ("smartnoise-synth", "mst", "SmartNoise MST"),
}
LIMIT = float(os.environ.get("SFUMATO_PEER_LIMIT", "3600"))  # wall-clock seconds
SECONDS = float(os.environ.get("SFUMATO_PEER_SECONDS", "120"))  # CPU of one peer on one table
PATH = RESULTS / "fabricated_tables_peers.json"


def tables() -> Iterator[tuple[str, pd.DataFrame, dict[str, Any], str]]:
    yield "Adult, bins", adult_tables.adult("data"), ours.adult_facts(), adult_tables.LABEL
    yield from ours.other_tables()


def decoded(codes: np.ndarray, facts: dict[str, Any]) -> pd.DataFrame:
    """Draw numbers evenly inside their bins."""
    rng = np.random.default_rng(SEED)
    made = {}
    for (name, fact), code in zip(facts.items(), codes.T, strict=True):
        if isinstance(fact, list):
            made[name] = pd.Series(fact).to_numpy()[code]
            continue
        side = (fact["upper"] - fact["lower"]) / ours.PARTS
        made[name] = fact["lower"] + (code + rng.random(len(code))) * side
    return pd.DataFrame(made)


def measured(method: str, name: str, table: Any, facts: Any, label: str) -> dict[str, Any]:
    is_adult = name.startswith("Adult")
    whole = table
    if not is_adult:
        table, _ = ours.parted(table)
    real, sizes = ours.codes(table, facts)
    if is_adult:
        real, sizes = adult_tables.codes(table), adult_tables.sizes()
    answer = ask(
        *PEERS[method][:2],
        epsilon=EPSILON,
        delta=DELTA,
        runs=5,
        seconds=SECONDS,
        limit=LIMIT,
        table=real,
        sizes=np.array(sizes),
    )
    found: dict[str, Any] = {"table": name, "method": PEERS[method][2]}
    if answer is None or "failed" in answer:
        return found | {"failed": "not installed" if answer is None else answer["failed"]}
    drawn = [np.array(each) for each in answer["releases"]]
    order = 3 if len(sizes) <= 12 else 2
    errors = [[ours.margins(d, real, sizes, k) for k in range(1, order + 1)] for d in drawn]
    made = [adult_tables.decoded(d) if is_adult else decoded(d, facts) for d in drawn]
    far = [ours.distances(each, table, facts) for each in made]
    found |= {
        "version": answer["version"],
        "epsilon": EPSILON,
        "runs": len(drawn),
        "margins": np.round(np.mean(errors, axis=0), 4).tolist(),
        "wasserstein": {k: round(float(np.mean([f[k] for f in far])), 5) for k in far[0]},
        "cpu_s": round(float(np.median(answer["cpu_s"])), 1),
    }
    learned = [_learned(each, name, whole, facts, label) for each in made]
    forest, logistic = np.round(np.mean(learned, axis=0), 4).tolist()
    return found | {"forest": forest, "logistic": logistic, "learned_runs": len(learned)}


def _learned(
    made: pd.DataFrame, name: str, table: pd.DataFrame, facts: Any, label: str
) -> list[float]:
    """Accuracies of a forest and a logistic regression on the test rows of a table."""
    if name.startswith("Adult"):
        found = adult_tables.scores(made, table, adult_tables.adult("test"))
        return list(found.values())[:2]
    return ours.learned_scores(made, ours.parted(table)[1], facts, label)


def keep(found: list[dict[str, Any]]) -> None:
    """Put new numbers in place of those of the same method and table."""
    new = {(each["method"], each["table"]) for each in found}
    old = json.loads(PATH.read_text())["numbers"] if PATH.exists() else []
    kept = [each for each in old if (each["method"], each["table"]) not in new]
    numbers = sorted([*kept, *found], key=lambda each: (each["method"], each["table"]))
    write(PATH.stem, numbers, seed=SEED, seconds_of_each=SECONDS, limit_of_each=LIMIT)


def main() -> None:
    if sys.argv[1:2] == ["keep"]:
        for record in (json.loads(Path(file).read_text()) for file in sys.argv[2:]):
            keep([each | {"machine": record["machine"]} for each in record["numbers"]])
        return
    for asked in sys.argv[1:] or PEERS:
        method, _, only = asked.partition(":")
        for name, table, facts, label in tables():
            if only in ("", name):
                keep([measured(method, name, table, facts, label)])


if __name__ == "__main__":
    main()
