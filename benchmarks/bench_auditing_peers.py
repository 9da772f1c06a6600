"""Membership attacks beside other libraries': the same model, the same losses.

``SFUMATO_PEERS_PYTHON=... python -m benchmarks.bench_auditing_peers`` needs a Python with
adversarial-robustness-toolbox and privacy-meter in it, one of those that are named; see
peers_auditing.py. A random forest on digits and, with SFUMATO_DATA, one on MNIST are attacked by
their losses.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

from benchmarks.peers.asking import python_with
from benchmarks.recording import mnist, timed, write
from sfumato.auditing.attack import attack_from_values
from sfumato.auditing.observed import observe

SEED = 0
PEER = "adversarial-robustness-toolbox"


def main() -> None:
    if python_with(PEER) is None:
        return
    numbers = [compared("digits", *digits())]
    if "SFUMATO_DATA" in os.environ:
        X, y, X_test, y_test = mnist()
        numbers.append(compared("MNIST", X[:10_000], y[:10_000], X_test, y_test))
    write("auditing_peers", numbers, seed=SEED)


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(SEED).permutation(len(X))
    return X[order[:898]], y[order[:898]], X[order[898:]], y[order[898:]]


def compared(name: str, X: Any, y: Any, X_other: Any, y_other: Any) -> dict[str, Any]:
    forest = RandomForestClassifier(100, max_depth=8, n_jobs=1, random_state=SEED).fit(X, y)
    halves = {}
    for side, rows, labels in (("members", X, y), ("others", X_other, y_other)):
        values = observe(forest, rows, labels, "loss"), labels, forest.predict_proba(rows)
        for part, taken in (("fit", slice(0, None, 2)), ("test", slice(1, None, 2))):
            for what, each in zip(("losses", "labels", "chances"), values, strict=True):
                halves[f"{part}_{side}_{what}"] = each[taken]
    inside, outside = (halves[f"test_{side}_losses"] for side in ("members", "others"))
    for _ in range(2):  # the first run loads libraries
        attack, seconds = timed(lambda: attack_from_values(inside, outside))
    ours = attack.auc.value
    peers = _peers(halves)
    for peer in peers.values():
        if "auc" in peer:
            peer["auc_difference"] = round(abs(peer["auc"] - ours), 5)
            peer["times_our_cpu_s"] = round(peer["cpu_s"] / seconds["cpu_s"], 2)
    return {
        "data": name,
        "rows": len(inside) + len(outside),
        "auc": ours,
        **seconds,
        "peers": peers,
    }


def _peers(halves: dict[str, np.ndarray]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "losses.npz"
        np.savez(path, **halves)
        script = Path(__file__).with_name("peers_auditing.py")
        done = subprocess.run(
            [python_with(PEER), script, path], check=True, capture_output=True, text=True
        )
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
