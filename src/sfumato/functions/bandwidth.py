"""A bandwidth from private quartiles: the normal rule, paid for.

``h_j = (4 / ((d + 2) n))^(1 / (d + 4)) (q3_j - q1_j) / 1.34``

The quartiles of each feature are chosen on a public grid by the exponential mechanism. (The rule
is printed with d + 1 in the paper on private functions; the normal rule has d + 2.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting.receipt import Chargeable
from sfumato.functions.domain import Domain
from sfumato.mechanisms.exponential import ExponentialMechanism

__all__ = ["normal_rule", "private_quartiles", "quartile_mechanisms"]

Array = NDArray[np.float64]

CELLS = 256  # candidates for a quartile lie this many to a side of the box
NARROWEST, WIDEST = 1 / 64, 1.0  # of a side; keeps the number of features of the kernel in hand
QUARTERS = (0.25, 0.75)


def quartile_mechanisms(epsilon: float, n_features: int) -> list[ExponentialMechanism]:
    """Give the choices to be charged: two quartiles a feature, `epsilon` together.

    The score of a candidate t is ``-| #{x < t} - q n |``. Replacing one row changes the count by
    at most 1, and n is public.
    """
    share = epsilon / (2 * n_features)
    one = ExponentialMechanism.calibrate(sensitivity=1.0, epsilon=share)
    return [one] * (2 * n_features)


def private_quartiles(
    rows: Array, domain: Domain, mechanisms: list[ExponentialMechanism], ledger: Chargeable
) -> Array:
    """Choose the quartiles of each feature; gives an array of shape (n_features, 2)."""
    chosen, choices = np.empty((rows.shape[1], 2)), iter(mechanisms)
    for feature, column in enumerate(rows.T):
        edges = np.linspace(domain.lower[feature], domain.upper[feature], CELLS + 1)
        below = np.searchsorted(np.sort(column), edges, side="left")
        for place, quarter in enumerate(QUARTERS):
            scores = -np.abs(below - quarter * len(rows))
            chosen[feature, place] = edges[next(choices).release(scores, ledger=ledger)]
    return chosen


def normal_rule(quartiles: Array, n_rows: int, width: Array) -> Array:
    """Give one bandwidth a feature from quartiles, kept between 1/64 of the side and the side."""
    n_features = len(quartiles)
    spread = np.abs(quartiles[:, 1] - quartiles[:, 0]) / 1.34
    shrinkage = (4 / ((n_features + 2) * n_rows)) ** (1 / (n_features + 4))
    return np.asarray(np.clip(shrinkage * spread, NARROWEST * width, WIDEST * width))
