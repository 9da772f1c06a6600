"""Features of many rows, as a matrix that need not exist.

The features of a row take far more memory than the row: 8 kB for a thousand of them. Up to `KEPT`
numbers are kept; beyond, blocks are computed anew on every pass. Every product below is taken block
by block either way, so that both give the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from sfumato.core.memory import WORKING_SET

Array = NDArray[np.float64]

KEPT = WORKING_SET * 3 // 32  # numbers of features that are kept; more are computed anew
BLOCK = 2**20  # numbers of a block


class FeatureRows:
    """``Φ``, of shape (n, m), by blocks of rows.

    rows (n, d): Rows; they are read on every pass and not copied.
    transform: Gives the features of a block of rows, each row by itself.
    size: m.
    """

    def __init__(self, rows: Array, transform: Callable[[Array], Array], size: int) -> None:
        self.shape = len(rows), size
        self._rows, self._transform = rows, transform
        self._step = max(1, BLOCK // size)
        self._kept: list[Array] | None = None
        if len(rows) * size <= KEPT:
            self._kept = [block for _, block in self.blocks()]

    @classmethod
    def of(cls, features: Array | FeatureRows) -> FeatureRows:
        """Return a matrix that exists as one of this kind."""
        if isinstance(features, FeatureRows):
            return features
        return cls(features, lambda block: block, features.shape[1])

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Yield the rows in blocks, with their places."""
        for number, start in enumerate(range(0, self.shape[0], self._step)):
            part = slice(start, min(start + self._step, self.shape[0]))
            kept = self._kept
            yield part, self._transform(self._rows[part]) if kept is None else kept[number]

    def __matmul__(self, weights: Array) -> Array:
        product = np.empty((self.shape[0], *weights.shape[1:]))
        for part, block in self.blocks():
            product[part] = block @ weights
        return product

    def products(self, values: Array, weights: Array | None) -> tuple[Array, Array | None]:
        """Return ``Φᵀ values`` and, for weights, ``Φᵀ diag(weights) Φ``, in one pass.

        Weights are not negative, and many may be zero.
        """
        total = np.zeros(self.shape[1])
        gram = None if weights is None else np.zeros((self.shape[1], self.shape[1]))
        for part, block in self.blocks():
            total += block.T @ values[part]
            if weights is not None and gram is not None:
                active = weights[part] > 0
                bent = block[active] * np.sqrt(weights[part][active])[:, None]
                gram += bent.T @ bent
        return total, gram

    def gram(self) -> Array:
        """Return ``ΦᵀΦ``."""
        total = np.zeros((self.shape[1], self.shape[1]))
        for _, block in self.blocks():
            total += block.T @ block
        return total

    def sum_of_squares(self) -> float:
        """Return ``||Φ||²`` in the Frobenius norm."""
        return float(sum(np.vdot(block, block) for _, block in self.blocks()))

    def take(self, chosen: NDArray[np.bool_]) -> Array:
        """Return some of the rows."""
        parts = [block[chosen[part]] for part, block in self.blocks()]
        return np.concatenate(parts) if parts else np.empty((0, self.shape[1]))
