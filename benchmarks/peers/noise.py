"""Draws of noise a second, and membership attacks as kept by `bench_auditing_peers`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.peers.asking import ask
from benchmarks.peers.rows import HIGHER, rounded, row
from benchmarks.recording import RESULTS, best_of
from sfumato.mechanisms import GaussianMechanism, LaplaceMechanism

DELTA = 1e-5
DRAWS = 1_000_000
THEIR_DRAWS = 100_000
MEASURE = "million draws a CPU second"
LAWS = {
    "gaussian": GaussianMechanism.calibrate(sensitivity=1.0, epsilon=1.0, delta=DELTA),
    "laplace": LaplaceMechanism(sensitivity=1.0, epsilon=1.0),
}


def draws() -> Iterator[dict[str, Any]]:
    """Yield the rates for vectors of zeros; the best of three runs each."""
    zeros = np.zeros(DRAWS)
    for law, mechanism in LAWS.items():
        seconds = best_of(3, lambda m=mechanism: m.release(zeros, ledger=None))["cpu_s"]
        our = {"name": type(mechanism).__name__, "value": rounded(DRAWS / 1e6 / seconds)}
        for package in ("opendp", "diffprivlib"):
            answer = ask(package, law, epsilon=1.0, delta=DELTA, runs=3, draws=THEIR_DRAWS)
            if answer is None:
                continue
            peer = {
                "name": f"{package} ({answer['version']})",
                "value": rounded(THEIR_DRAWS / 1e6 / min(answer["cpu_s"])),
            }
            yield row("noise", f"{law} law", MEASURE, HIGHER, our, peer)


def attacks() -> Iterator[dict[str, Any]]:
    """Yield the areas under the curve of the same losses attacked by others."""
    path = RESULTS / "auditing_peers.json"
    if not path.exists():
        return
    for attacked in json.loads(path.read_text())["numbers"]:
        our = {"name": "attack_from_values", "value": rounded(attacked["auc"])}
        our["cpu_s"] = attacked["cpu_s"]
        for name, found in attacked["peers"].items():
            for kind, measure in ATTACKS.items():
                if kind in found:
                    peer = {"name": f"{name} ({found['version']})", "value": rounded(found[kind])}
                    peer |= {"cpu_s": rounded(found["cpu_s"])} if kind == "auc" else {}
                    on = f"forest on {attacked['data']}"
                    yield row("membership attack", on, measure, HIGHER, our, peer)


ATTACKS = {"auc": "AUC", "auc_with_labels": "AUC, theirs with labels too"}
