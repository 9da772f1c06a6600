"""From a noisy function to a density: the nearest one, then what has leaked.

A noisy density estimate is negative in places and integrates to anything. Nearest to it in L2,
among functions that are nowhere negative and integrate to at most one, is ``max(f - τ, 0)`` with
the least ``τ >= 0`` that will do. That set is convex and holds all densities, so this step never
moves the estimate away from the true one: ``||P f - g|| <= ||f - g||``. (Clipping at zero and
rescaling has no such property.) Mass that is then missing has leaked out of the box, because
kernels near its edge reach beyond; the function is scaled up to one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats.qmc import Sobol

from sfumato.models.functions.domain import Domain

Array = NDArray[np.float64]

CELLS_OF_AN_AXIS = {1: 1024, 2: 128, 3: 40}
SOBOL_BITS = 13


class Nodes:
    """Public points spread evenly over a box: each stands for an equal share of its volume.

    Middles of equal cells in up to three dimensions, a Sobol sequence above.

    domain: The box.
    """

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        per_axis = CELLS_OF_AN_AXIS.get(domain.n_features)
        self.axes: list[Array] | None = None
        if per_axis is None:
            places = Sobol(domain.n_features, scramble=False).random_base2(SOBOL_BITS)
            places = places + 2.0 ** -(SOBOL_BITS + 1)
            self.sides = domain.width * len(places) ** (-1 / domain.n_features)
            self.points = domain.lower + places * domain.width
        else:
            middles = (np.arange(per_axis) + 0.5) / per_axis
            self.axes = [domain.lower[j] + middles * w for j, w in enumerate(domain.width)]
            self.sides = domain.width / per_axis
            grid = np.stack(np.meshgrid(*self.axes, indexing="ij"), axis=-1)
            self.points = grid.reshape(-1, domain.n_features)

    @property
    def volume(self) -> float:
        """Volume for which one point stands."""
        return float(np.prod(self.domain.width)) / len(self.points)

    def scatter(self, numbers: NDArray[np.intp], uniform: Array) -> Array:
        """Return rows around the points of these numbers, moved inside their cells."""
        rows = self.points[numbers] + (uniform - 0.5) * self.sides
        return np.asarray(np.clip(rows, self.domain.lower, self.domain.upper))


def density_threshold(values: Array, volume: float) -> tuple[float, float]:
    """Return τ and g with ``sum g max(values - τ, 0) * volume = 1``."""
    ordered = -np.sort(-np.ravel(values))
    shift = (np.cumsum(ordered) - 1 / volume) / np.arange(1, ordered.size + 1)
    kept = int(np.count_nonzero(ordered > shift))
    threshold = float(shift[kept - 1])
    if ordered[0] > 0:  # otherwise nothing is left but the nearest density itself
        threshold = max(threshold, 0.0)
    return threshold, float(1 / (np.maximum(ordered - threshold, 0.0).sum() * volume))
