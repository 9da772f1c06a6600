"""The public box in which a released function may be asked, and a lattice of points in it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.exceptions import InvalidInputError, MissingBoundsError
from sfumato.tables.bounds import Bounds

__all__ = ["Domain", "as_points"]

Array = NDArray[np.float64]
Key = tuple[int, ...]


def as_points(X: ArrayLike, n_features: int) -> Array:
    """Give points as rows of doubles; on a line, a plain sequence of numbers will do."""
    try:
        points = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError("Points must be rows of numbers.") from None
    if n_features == 1 and points.ndim == 1:
        points = points[:, None]
    if points.ndim != 2 or points.shape[1] != n_features:
        raise InvalidInputError(
            f"Points must be rows of {n_features} numbers. Got an array of shape {points.shape}."
        )
    if not np.isfinite(points).all():
        raise InvalidInputError("Points must be finite; an array with NaN or infinity was given.")
    return points


class Domain:
    """A box with ``2**bits + 1`` equally spaced points along each axis.

    bounds: A box, or a ball, which stands for the cube around it.
    n_features: Number of axes.
    bits: Fineness of the lattice.
    """

    def __init__(self, bounds: Bounds, n_features: int, bits: int = 20) -> None:
        if not isinstance(bounds, Bounds):
            raise MissingBoundsError(
                "A 'domain' is needed, a public box: domain=Bounds(lower=..., upper=...)."
            )
        bounds.require_features()
        box = bounds.box(n_features)
        if box is None:
            radius = bounds.ball(n_features)[1]
            box = (np.full(n_features, -radius), np.full(n_features, radius))
        self.lower, self.upper = box
        self.width = self.upper - self.lower
        if (self.width * 2.0**-bits < 2.0**-44 * np.maximum(-self.lower, self.upper)).any():
            raise InvalidInputError(
                "The domain is too narrow for its distance from zero: its points would not differ "
                "as doubles. Shift the data towards zero."
            )
        self.bits = bits
        self._cells_per_unit = 2.0**bits / self.width
        self._step = self.width * 2.0**-bits

    @property
    def n_features(self) -> int:
        """Number of axes."""
        return len(self.lower)

    def inside(self, X: ArrayLike) -> Array:
        """Give points as rows, after checking that they lie in the box."""
        points = as_points(X, self.n_features)
        if ((points < self.lower) | (points > self.upper)).any():
            raise InvalidInputError(
                "A point lies outside the domain of the released function; clip the points to "
                f"the box from {self.lower.tolist()} to {self.upper.tolist()}."
            )
        return points

    def keys(self, X: ArrayLike) -> list[Key]:
        """Give the nearest lattice point of each row, as whole numbers."""
        cells = np.rint((self.inside(X) - self.lower) * self._cells_per_unit)
        return [tuple(row) for row in cells.astype(np.int64).tolist()]

    def points(self, keys: list[Key]) -> Array:
        """Give the lattice points that have these whole numbers."""
        cells = np.array(keys, dtype=np.float64).reshape(-1, self.n_features)
        return np.asarray(self.lower + cells * self._step)
