"""The Cholesky factor of a kernel matrix that grows by points, kept in blocks of rows.

``L Lᵀ = K(points, points) + τ I``. A block holds its rows up to their diagonal: the factor of
n points takes little more than n²/2 numbers, and no matrix of n² is ever made.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from sfumato.functions.features import NUGGET
from sfumato.kernels import Kernel

__all__ = ["GrowingFactor"]

Array = NDArray[np.float64]
BLOCK = 256  # rows


class GrowingFactor:
    """L, extended by one point or by many.

    Parameters
    ----------
    kernel : Kernel
        K.
    n_features : int
        Numbers of a point.
    """

    def __init__(self, kernel: Kernel, n_features: int) -> None:
        self._kernel = kernel
        self._points = np.empty((0, n_features))
        self._blocks: list[Array] = []  # each of shape (BLOCK, its last column), rows as they come

    def __len__(self) -> int:
        return len(self._points)

    def solved(self, known: Array, right: Array) -> Array:
        """Give ``L⁻¹ b``, of which the first entries are `known`, for b that ends in `right`."""
        count = len(known)
        found = np.concatenate([known, np.empty(len(right))])
        for start, block in self._filled(len(found)):
            first, stop = max(start, count), start + len(block)
            if first < stop:
                rows = block[first - start :]
                left = right[first - count : stop - count] - rows[:, :first] @ found[:first]
                found[first:stop] = solve_triangular(
                    rows[:, first:stop], left, lower=True, check_finite=False
                )
        return found

    def row_of(self, point: Array) -> tuple[Array, float]:
        """Give the row of L that a new point would have, and its diagonal entry."""
        row = np.empty(0)
        if len(self):
            row = self.solved(row, self._kernel(self._points, point[None])[:, 0])
        left = self._kernel.sup + NUGGET - float(row @ row)
        return row, math.sqrt(max(left, NUGGET / 2))

    def append(self, point: Array, row: Array, deviation: float) -> None:
        """Take in a point with what `row_of` gave."""
        count = len(self)
        inside = count % BLOCK
        if not inside:
            self._blocks.append(np.zeros((BLOCK, count + BLOCK)))
        self._blocks[-1][inside, :count] = row
        self._blocks[-1][inside, count] = deviation
        self._points = np.concatenate([self._points, point[None]])

    def append_all(self, points: Array) -> None:
        """Take in many points, block by block."""
        while len(points) and len(self) % BLOCK:  # fill the last block first
            self.append(points[0], *self.row_of(points[0]))
            points = points[1:]
        for first in range(0, len(points), BLOCK):
            self._append_block(points[first : first + BLOCK])

    def _append_block(self, points: Array) -> None:
        count, stop = len(self), len(self) + len(points)
        block = np.zeros((BLOCK, count + BLOCK))
        rows = block[: len(points)]
        for start, above in self._filled(count):  # L_ij = (K_ij - sum_k L_ik L_jkᵀ) L_jj⁻ᵀ
            end = start + len(above)
            left = self._kernel(points, self._points[start:end])
            left -= rows[:, :start] @ above[:, :start].T
            rows[:, start:end] = solve_triangular(
                above[:, start:end], left.T, lower=True, check_finite=False
            ).T
        square = self._kernel(points, points)
        square[np.diag_indices_from(square)] += NUGGET
        square -= rows[:, :count] @ rows[:, :count].T
        rows[:, count:stop] = _factor(square)
        self._blocks.append(block)
        self._points = np.concatenate([self._points, points])

    def _filled(self, count: int) -> list[tuple[int, Array]]:
        """Give the blocks of the first `count` rows, without the rows that are still empty."""
        starts = range(0, count, BLOCK)
        return [(s, block[: count - s]) for s, block in zip(starts, self._blocks, strict=False)]


def _factor(square: Array) -> Array:
    """Factor what is left of a block; points that nearly meet may leave nothing of it."""
    try:
        return np.asarray(cholesky(square, lower=True, check_finite=False))
    except np.linalg.LinAlgError:
        return _factor_by_rows(square)


def _factor_by_rows(square: Array) -> Array:
    factor = np.zeros_like(square)
    for i in range(len(square)):
        row = (
            solve_triangular(factor[:i, :i], square[i, :i], lower=True, check_finite=False)
            if i
            else np.empty(0)
        )
        factor[i, :i] = row
        factor[i, i] = math.sqrt(max(float(square[i, i]) - float(row @ row), NUGGET / 2))
    return factor
