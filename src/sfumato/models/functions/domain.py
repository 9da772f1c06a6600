"""The public box in which a released function may be asked."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.exceptions import InvalidInputError, MissingBoundsError
from sfumato.tables.bounds import Bounds

Array = NDArray[np.float64]


def as_points(X: ArrayLike, n_features: int) -> Array:
    """Return points as rows of doubles; on a line, a plain sequence of numbers will do."""
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
    """A box so wide that doubles can tell ``2**bits`` places along each axis apart.

    bounds: A box, or a ball, which stands for the cube around it.
    n_features: Number of axes.
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

    @property
    def n_features(self) -> int:
        """Number of axes."""
        return len(self.lower)

    def inside(self, X: ArrayLike) -> Array:
        """Return points as rows, after checking that they lie in the box."""
        points = as_points(X, self.n_features)
        if ((points < self.lower) | (points > self.upper)).any():
            raise InvalidInputError(
                "A point lies outside the domain of the released function; clip the points to "
                f"the box from {self.lower.tolist()} to {self.upper.tolist()}."
            )
        return points
