"""One row of the table: our estimator and another's on one task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.peers.asking import ask
from benchmarks.recording import timed

HIGHER, LOWER = "higher", "lower"


def ours(
    name: str, runs: int, release: Callable[[], Any], score: Callable[[Any], float]
) -> dict[str, Any]:
    """Release several times; only the release is timed."""
    values, seconds = [], []
    for _ in range(runs):
        found, time = timed(release)
        seconds.append(time["cpu_s"])
        values.append(score(found))
    return summary(name, values, seconds)


def theirs(name: str, answer: dict[str, Any], score: Callable[[Any], float]) -> dict[str, Any]:
    """Score what a peer released, or say why it released nothing."""
    named = f"{name} ({answer['version']})"
    if "failed" in answer:
        return {"name": named, "failed": answer["failed"]}
    return summary(named, [score(release) for release in answer["releases"]], answer["cpu_s"])


def diffprivlib(
    kind: str, split: Sequence[np.ndarray], epsilon: float, runs: int, *, lower: float
) -> dict[str, Any] | None:
    """Return the accuracy of a classifier of diffprivlib on rows of the unit ball, or None."""
    X, y, X_test, y_test = split
    data: dict[str, Any] = {"X": X.astype(float), "y": y, "X_test": X_test, "lower": lower}
    answer = ask("diffprivlib", kind, epsilon=epsilon, runs=runs, seconds=60.0, **data)
    if answer is None:
        return None
    return theirs(f"diffprivlib {kind}", answer, lambda found: float(np.mean(found == y_test)))


def summary(name: str, values: Sequence[float], cpu_s: Sequence[float]) -> dict[str, Any]:
    return {
        "name": name,
        "value": rounded(np.mean(values)),
        "std": rounded(np.std(values)),
        "runs": len(values),
        "cpu_s": rounded(np.mean(cpu_s)),
    }


def rounded(value: Any) -> float:
    """Keep four digits."""
    return float(f"{float(value):.4g}")


def row(
    task: str,
    data: str,
    measure: str,
    better: str,
    our: dict[str, Any],
    peer: dict[str, Any],
    **promise: Any,
) -> dict[str, Any]:
    """Put both together; a ratio above 1 is in our favour."""
    found = {"task": task, "data": data, "measure": measure, "better": better, **promise}
    found |= {"ours": our, "peer": peer, **ratios(measure, better, our, peer)}
    print(found, flush=True)
    return found


def ratios(
    measure: str, better: str, our: dict[str, Any], peer: dict[str, Any]
) -> dict[str, float | None]:
    """Return their error over ours (of shares: what is missing to 1), and their time over ours."""
    if "value" not in peer:
        return {"times_better": None, "times_faster": None}
    mine, other = our["value"], peer["value"]
    if better == LOWER:
        mine, other = other, mine  # now more is better
    elif "draws" not in measure:
        mine, other = 1 - other, 1 - mine
    seconds = our.get("cpu_s"), peer.get("cpu_s")
    return {
        "times_better": rounded(mine / other) if other > 0 else None,
        "times_faster": rounded(seconds[1] / seconds[0]) if all(seconds) else None,
    }
