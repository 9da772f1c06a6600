"""Sums of one bounded number and of its square: means and variances under pure epsilon."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.guarantee import Relation
from sfumato.kernels.arrays import Array
from sfumato.sums.grid import ROW_BITS, cut
from sfumato.sums.statistics import Codes, Statistic

__all__ = ["Powers"]


@dataclass(frozen=True)
class Powers(Statistic):
    """``sum [t]`` or ``sum [t; t²]`` over numbers t of [-1/2, 1/2].

    With ``d = |t - v|`` and ``s = |t + v| <= 1 - d``, replacing t by v moves the pair by
    ``d (1 + s) <= d (2 - d) <= 1`` in the sum of magnitudes, so that the square costs nothing.
    Adding a number moves it by at most 1/2, or 3/4 with the square.

    Parameters
    ----------
    order : {1, 2}
        The sum alone, or that of squares too.
    """

    order: int

    @property
    def shape(self) -> tuple[int, ...]:
        """One number per power."""
        return (self.order,)

    def add_up(self, rows: Array, codes: Codes) -> Array:  # noqa: ARG002 - classes do not matter
        """Add up the numbers, and their squares."""
        on_grid = cut(np.clip(rows[:, 0], -0.5, 0.5), ROW_BITS)
        return np.array([(on_grid**power).sum() for power in range(1, self.order + 1)])

    def term_sensitivity(self, relation: Relation) -> float:
        """1 (replace), or that of the sum of magnitudes."""
        return self.term_total(relation)

    def term_total(self, relation: Relation) -> float:
        """1 (replace), or 1/2 and 3/4 (add or remove)."""
        if relation is Relation.REPLACE_ONE:
            return 1.0  # [Y1] d (1 + s), at most 1
        return 0.5 if self.order == 1 else 0.75  # [Y2] |t| + t²
