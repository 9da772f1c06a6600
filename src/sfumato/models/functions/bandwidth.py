"""A bandwidth from private spreads: the normal rule, paid for.

``h_j = (4 / ((d + 2) n))^(1 / (d + 4)) s_j / 1.34``

The spread s_j of a feature is the length of the shortest interval that holds half of the rows; of
a normal law it is the distance of the quartiles. It is chosen among public lengths, each a fixed
factor below the one before, by one exponential mechanism. (The rule is printed with quartiles and
with d + 1 in the paper on private functions; the normal rule has d + 2. Two quartiles, each on an
even grid, would cost twice as much and were two to six times too wide at a few hundred rows.)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sfumato.ledger.receipt import Chargeable
from sfumato.mechanisms.exponential import ExponentialMechanism
from sfumato.models.functions.domain import Domain
from sfumato.sums.maps import MappedRows

Array = NDArray[np.float64]

MIN_WIDTH, MAX_WIDTH = 1 / 64, 1.0  # of a side; keeps the number of features of the kernel in hand
BLOCK = 2**14  # rows that are looked at together
SPREADS = 2.0 ** (-np.arange(25) / 4)  # candidates, of a side: from all of it down to MIN_WIDTH


def spread_mechanisms(epsilon: float, n_features: int) -> list[ExponentialMechanism]:
    """Return the choices to be charged: one per feature, `epsilon` together.

    Replacing one row changes a score of `spread_scores` by at most 1.
    """
    one = ExponentialMechanism.calibrate(sensitivity=1.0, epsilon=epsilon / n_features)
    return [one] * n_features


def private_spreads(
    rows: Array | MappedRows,
    domain: Domain,
    mechanisms: list[ExponentialMechanism],
    ledger: Chargeable,
) -> Array:
    """Choose the spread of each feature; gives an array of shape (n_features,)."""
    chosen = np.empty(rows.shape[1])
    for feature, mechanism in enumerate(mechanisms):
        column, lengths = np.empty(len(rows)), SPREADS * domain.width[feature]
        for part in _blocks(len(rows)):
            column[part] = rows[part][:, feature]
        column.sort()
        chosen[feature] = lengths[mechanism.release(spread_scores(column, lengths), ledger=ledger)]
    return chosen


def spread_scores(ordered: Array, lengths: Array) -> Array:
    """``-| most rows in an interval of that length - n/2 |`` for each length.

    Rows are given in order. An interval may begin at a row. The most rows in one change by at most
    1 when a row comes or goes, and when one is replaced: the interval that began at a lost row may
    begin at the next one.
    """
    most = np.zeros(len(lengths))
    for part in _blocks(len(ordered)):
        starts, place = ordered[part], np.arange(part.start, part.stop)
        ends = (np.searchsorted(ordered, starts + s, side="right") for s in lengths)
        most = np.maximum(most, [(end - place).max() for end in ends])
    return np.asarray(-np.abs(most - len(ordered) / 2))


def _blocks(n_rows: int) -> Iterator[slice]:
    for start in range(0, n_rows, BLOCK):
        yield slice(start, min(start + BLOCK, n_rows))


def normal_rule(spreads: Array, n_rows: int, width: Array) -> Array:
    """Return one bandwidth per feature, kept between 1/64 of the side and the side."""
    n_features = len(spreads)
    shrinkage = (4 / ((n_features + 2) * n_rows)) ** (1 / (n_features + 4))
    return np.asarray(np.clip(shrinkage * spreads / 1.34, MIN_WIDTH * width, MAX_WIDTH * width))
