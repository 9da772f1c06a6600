"""Exact sums of bounded rows.

Rows are clipped to their bounds, moved and scaled into the unit ball, and cut (towards zero) to
multiples of 2**-bits. All products and partial sums are then whole multiples of ``2**(-2 bits)``
below 2**53 of them, so doubles hold them without rounding: the sum is the exact real sum in
whatever order the machine adds, and its sensitivity is the one of the proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.bounds import Bounds
from sfumato.exceptions import InvalidInputError
from sfumato.guarantee import Relation
from sfumato.private import MOST_ROWS

__all__ = [
    "MOST_ROWS",
    "MappedRows",
    "UnitRows",
    "class_moments",
    "mean_and_squares",
    "moments_of_groups",
    "project",
    "require_number",
    "second_moment",
]

BLOCK = 4096
PROJECTION_BITS = 26
_UNIT_BALL = Bounds(norm=1.0)

Array = NDArray[np.float64]


def require_number(n_rows: int) -> None:
    """Refuse more rows than sums are exact for."""
    if n_rows > MOST_ROWS:
        raise InvalidInputError(f"More than {MOST_ROWS} rows cannot be summed exactly.")


@dataclass(frozen=True)
class UnitRows:
    """Rows on their way into a sum: in the unit ball, on a grid, block by block.

    Parameters
    ----------
    bounds : Bounds
        Public bounds of the original rows.
    n_features : int
        Numbers of a row.
    bits : int
        Rows are cut to multiples of ``2**-bits``.
    """

    bounds: Bounds
    n_features: int
    bits: int

    @classmethod
    def for_sums(cls, bounds: Bounds, shape: tuple[int, int], relation: str | Relation) -> UnitRows:
        """Choose the finest grid on which sums over the rows stay exact.

        The grid may depend on the number of rows only where that number is public.
        """
        require_number(shape[0])
        is_public = Relation(relation) is Relation.REPLACE_ONE
        n_rows = shape[0] if is_public else MOST_ROWS
        # Twice the rows: a row with a constant 1 appended has squared norm 2.
        return cls(bounds, shape[1], (53 - math.ceil(math.log2(2 * n_rows))) // 2)

    def blocks(self, X: Array | MappedRows) -> Iterator[tuple[slice, Array]]:
        """Give the rows of X in blocks, in order."""
        for start in range(0, X.shape[0], BLOCK):
            part = slice(start, min(start + BLOCK, X.shape[0]))
            yield part, self.rows(X[part])

    def rows(self, X: Array) -> Array:
        """Bring rows into the unit ball and onto the grid; each row is treated alone."""
        centre, radius = self.bounds.ball(self.n_features)
        rows = self.bounds.clip(X)
        rows -= centre
        rows /= radius
        return _cut(_UNIT_BALL.clip(rows), self.bits)


class MappedRows:
    """Rows seen through a row-wise map, computed block by block, so that no copy is kept.

    Stands in for an array where only its shape and ascending slices of it are read.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
    function : callable
        The map, of blocks of rows to as many rows of `width` numbers.
    width : int
    """

    def __init__(self, rows: Array, function: Callable[[Array], Array], width: int) -> None:
        self._rows, self._function = rows, function
        self.shape = (rows.shape[0], width)

    def __getitem__(self, part: slice) -> Array:
        return self._function(self._rows[part])


def project(rows: Array, basis: Array) -> Array:
    """Give ``rows @ basis`` for rows of the unit ball and columns of length 1 at most.

    Both are cut to a grid on which all products and partial sums (below 1 in magnitude) fit a
    double: a projected row is exact and does not depend on its place among the rows.
    """
    return np.asarray(_cut(rows, PROJECTION_BITS) @ _cut(basis, PROJECTION_BITS))


def _cut(values: Array, bits: int) -> Array:
    """Cut towards zero to multiples of ``2**-bits``."""
    return np.asarray(np.trunc(values * 2.0**bits) * 2.0**-bits)


def mean_and_squares(units: UnitRows, X: Array) -> Array:
    """``sum [x; |x|²; 1]`` over unit rows, exactly."""
    total = np.zeros(units.n_features + 2)
    for _, rows in units.blocks(X):
        squares = float(np.einsum("ij,ij->", rows, rows))
        total += np.concatenate([rows.sum(axis=0), [squares, len(rows)]])
    return total


def second_moment(units: UnitRows, X: Array | MappedRows) -> Array:
    """``M = sum_i x_i x_iᵀ`` over unit rows, exactly."""
    total = np.zeros((units.n_features, units.n_features))
    for _, rows in units.blocks(X):
        total += rows.T @ rows
    return total


def class_moments(units: UnitRows, X: Array, codes: NDArray[np.intp], n_classes: int) -> Array:
    """``S_c = sum_{y_i = c} a_i a_iᵀ`` with ``a_i = [x_i; 1]``, for all classes, exactly."""
    blocks = ((rows, codes[part]) for part, rows in units.blocks(X))
    return moments_of_groups(blocks, n_classes, units.n_features)


def moments_of_groups(
    blocks: Iterable[tuple[Array, NDArray[np.intp]]], n_groups: int, n_features: int
) -> Array:
    """``S_g = sum a_i a_iᵀ`` over the rows of each group, from blocks of unit rows and codes."""
    total = np.zeros((n_groups, n_features + 1, n_features + 1))
    for rows, codes in blocks:
        extended = np.column_stack([rows, np.ones(len(rows))])
        for group in range(n_groups):
            members = extended[codes == group]
            total[group] += members.T @ members
    return total
