"""Rows with a target beside them, and the sum of their clipped residuals."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sfumato.guarantee import Relation
from sfumato.kernels.arrays import Array as AnyArray
from sfumato.linear.noisy_gradient import shrunk
from sfumato.sums.grid import ROW_BITS, cut
from sfumato.sums.maps import ROUNDING_MARGIN, RowMap
from sfumato.sums.persons import Joined, PersonUnit
from sfumato.sums.statistics import Codes, Statistic

__all__ = ["Beside", "ResidualSum"]

Array = NDArray[np.float64]

FARTHEST = 64.0  # spreads of the target: all slopes are clipped there


@dataclass(frozen=True, eq=False)
class Beside:
    """A map of all numbers of a row but a target, which may stand beside them.

    row_map: Of the first numbers.
    has_target: Whether one number more stands in a row.
    centre, scale: The target becomes ``(t - centre) / scale``, within FARTHEST.
    """

    row_map: RowMap
    has_target: bool
    centre: float = 0.0
    scale: float = 1.0

    @property
    def width(self) -> int:
        """Numbers of a mapped row."""
        return self.row_map.width + self.has_target

    def __call__(self, rows: AnyArray) -> AnyArray:
        """Map rows."""
        if not self.has_target:
            return self.row_map(rows)
        target = np.clip((rows[:, -1:] - self.centre) / self.scale, -FARTHEST, FARTHEST)
        return np.hstack([self.row_map(rows[:, :-1]), target])


@dataclass(frozen=True, eq=False)
class ResidualSum(Statistic):
    """``sum_i clip(w.aᵢ - tᵢ) aᵢ``: the gradient of Huber's loss, t the last number of a row.

    A term is at most `max_gradient_norm` long; a record whose target is missing adds
    nothing. Adding or removing a record moves the sum by `max_gradient_norm`, replacing one by
    twice as much.

    max_gradient_norm: Largest magnitude of a residual, below 2.
    weights (1, m): As `on_weight_grid` gives them; the numbers a are multiples of ``2**-ROW_BITS``
        in the unit ball.
    joined: A bound on the rows of a person together, where persons are the unit.
    """

    max_gradient_norm: float
    weights: Array = field(repr=False)
    joined: Joined | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the weights."""
        return self.weights.shape

    @property
    def largest_term(self) -> float:
        """A residual: numbers of a row are 1 at most."""
        return self.max_gradient_norm

    def add_up(self, rows: AnyArray, codes: Codes) -> AnyArray:  # noqa: ARG002 - no classes
        """Add up clipped residuals times rows."""
        numbers, clipped = self._clipped(rows)
        return clipped.T @ numbers

    def add_up_persons(self, rows: AnyArray, codes: Codes, size: int) -> AnyArray:  # noqa: ARG002
        """Do the same for persons, whose terms together keep the joint bound."""
        numbers, clipped = self._clipped(rows)
        if self.joined is not None:
            clipped = shrunk(clipped, self.joined, None, numbers, size)
        return clipped.T @ numbers

    def joined_sensitivity(self, relation: Relation, unit: PersonUnit) -> float | None:
        """Twice the joint bound (replace) or the bound (add or remove)."""
        if self.joined is None or self.joined.unit != unit:
            return None
        return self.joined.length(1) * (2 if relation is Relation.REPLACE_ONE else 1)

    def _clipped(self, rows: AnyArray) -> tuple[Array, Array]:
        """Give the numbers of rows and their residuals, clipped and on the grid."""
        numbers, target = np.ascontiguousarray(rows[:, :-1]), rows[:, -1:]
        residuals = numbers @ np.ascontiguousarray(self.weights.T) - target
        residuals = np.where(np.isnan(residuals), 0.0, residuals)
        clipped = cut(
            np.clip(residuals, -self.max_gradient_norm, self.max_gradient_norm)
            * (1 - ROUNDING_MARGIN),
            ROW_BITS,
        )
        return numbers, clipped

    def term_sensitivity(self, relation: Relation) -> float:
        """2 `max_gradient_norm` (replace) or `max_gradient_norm` (add or remove)."""
        return self.max_gradient_norm * (2 if relation is Relation.REPLACE_ONE else 1)
