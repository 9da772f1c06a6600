"""From a privacy profile to a measure of losses: for events of which a curve delta(e) is known.

``delta(e)``, e >= 0, bounds both directions of a pair of neighbours. The true curve is convex in
``x = exp(e)`` and satisfies ``delta(-e) = 1 - exp(-e) (1 - delta'(e))`` with the other direction's
delta', so chords between points of any bound on it are bounds too, and so is the lower convex hull
of such points. A hull of points ``(x_i, f_i)`` is the curve of masses ``m_i = x_i w_i``, w_i the
change of its slope at x_i, and of a mass at infinity where it ends.
"""

from __future__ import annotations

import numpy as np

ROUNDING = 1e-14  # more than doubles lose on the way from points to masses


def profile_masses(losses: np.ndarray, deltas: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Return losses, masses on them and the mass at infinity whose curve is nowhere below."""
    known = np.minimum(np.minimum.accumulate(deltas), 1.0)
    mirrored = 1 - np.exp(-losses[:0:-1]) * (1 - known[:0:-1])
    values = np.concatenate([mirrored, known])
    places = np.concatenate([-losses[:0:-1], losses])
    x = np.exp(places)
    kept = _lower_hull(np.append(0.0, x), np.append(1.0, values))[1:] - 1
    x, values, places = x[kept], values[kept], places[kept]
    slopes = np.diff(values, prepend=1.0) / np.diff(x, prepend=0.0)
    changes = np.maximum(np.diff(np.append(slopes, 0.0)), 0.0)
    return places, changes * x, float(values[-1]) + ROUNDING


def _lower_hull(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the corners of the lower convex hull of points of increasing x: Andrew's chain."""
    kept: list[int] = []
    for point in range(len(x)):
        while len(kept) > 1:
            a, b = kept[-2], kept[-1]
            if (y[b] - y[a]) * (x[point] - x[a]) < (y[point] - y[a]) * (x[b] - x[a]):
                break
            kept.pop()
        kept.append(point)
    return np.array(kept)
