"""The large-margin objective in the coordinates in which it is linear.

``aᵀ Φ a = <svec(a aᵀ), svec(Φ)>`` where ``svec`` lists the upper triangle with √2 off the diagonal:
lengths and angles are those of Frobenius. Scores and gradients are then two matrix products.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.core.memory import WORKING_SET
from sfumato.papers.large_margin.losses import MarginLoss, ScoreLoss

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
BLOCK = 1024  # rows of one matrix product ...
GROUP = 32  # ... and products of one partial sum: what rounding may change grows with these
MAX_CACHED = WORKING_SET * 3 // 32  # numbers of features that are kept; more are computed anew


def extended(rows: Array) -> Array:
    """Append the unit element to each row."""
    return np.column_stack([rows, np.ones(len(rows))])


def quadratic_features(rows: Array) -> Array:
    """``svec(a aᵀ)`` of each row a; its length is ``||a||²``."""
    order = rows.shape[1]
    features = np.empty((len(rows), order * (order + 1) // 2))
    heavy = rows * np.sqrt(2.0)
    start = 0
    for i in range(order):
        stop = start + order - i
        np.multiply(rows[:, i : i + 1], heavy[:, i:], out=features[:, start:stop])
        features[:, start] = rows[:, i] ** 2
        start = stop
    return features


def to_vectors(matrices: Array) -> Array:
    """``svec`` of a stack of symmetric matrices."""
    upper = np.triu_indices(matrices.shape[-1])
    return np.asarray(matrices[..., upper[0], upper[1]] * _weights(matrices.shape[-1]))


def to_matrices(vectors: Array) -> Array:
    """Undo `to_vectors`."""
    order = int((np.sqrt(8 * vectors.shape[-1] + 1) - 1) / 2)
    upper = np.triu_indices(order)
    matrices = np.zeros((*vectors.shape[:-1], order, order))
    matrices[..., upper[0], upper[1]] = vectors / _weights(order)
    matrices[..., upper[1], upper[0]] = matrices[..., upper[0], upper[1]]
    return matrices


def _weights(order: int) -> Array:
    rows, columns = np.triu_indices(order)
    return np.where(rows == columns, 1.0, np.sqrt(2.0))


@dataclass(frozen=True)
class LargeMarginObjective:
    """``L(W) = weight * sum_i loss(scores of row i)`` for ellipsoids W in svec coordinates.

    rows (n_rows, order): Extended rows a.
    own (n_rows,): The ellipsoid that each row belongs to.
    n_ellipsoids: Rows of W.
    loss: What the scores of a row cost.
    weight: 1 for the sum over rows, 1 / n_rows for the mean.
    """

    rows: Any = field(repr=False)
    own: Codes = field(repr=False)
    n_ellipsoids: int
    loss: ScoreLoss
    weight: float = 1.0

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of W."""
        order = self.rows.shape[1]
        return self.n_ellipsoids, order * (order + 1) // 2

    @cached_property
    def _kept(self) -> list[Array] | None:
        if len(self.rows) * self.shape[1] > MAX_CACHED:
            return None
        return [quadratic_features(self.rows[part]) for part in self._parts()]

    def _parts(self) -> Iterator[slice]:
        for start in range(0, len(self.rows), BLOCK):
            yield slice(start, start + BLOCK)

    def _blocks(self) -> Iterator[tuple[Array, Codes]]:
        for number, part in enumerate(self._parts()):
            kept = self._kept
            features = quadratic_features(self.rows[part]) if kept is None else kept[number]
            yield features, self.own[part]

    def value_and_gradient(self, W: Array) -> tuple[float, Array]:
        """L and its gradient."""
        values: list[float] = []

        def gradients() -> Iterator[Array]:
            for features, own in self._blocks():
                value, slopes = self.loss.value_and_slopes(features @ W.T, own)
                values.append(value)
                yield slopes.T @ features

        gradient = self.weight * self._added(gradients())
        return self.weight * math.fsum(values), gradient

    def gradient(self, W: Array) -> Array:
        """Gradient of L."""
        return self.value_and_gradient(W)[1]

    def curved(self, W: Array, V: Array) -> Array:
        """Hessian of L at W times V (a generalised one where the loss has a kink in its slope)."""
        loss: MarginLoss = self.loss  # type: ignore[assignment]
        products = (
            loss.curved(features @ W.T, own, features @ V.T).T @ features
            for features, own in self._blocks()
        )
        return self.weight * self._added(products)

    def _added(self, parts: Iterator[Array]) -> Array:
        """Add up in two levels."""
        total = np.zeros(self.shape)
        while group := list(islice(parts, GROUP)):
            total += sum(group)
        return total
