"""Rows on their way to a linear classifier: projected, and exact whatever their place."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.arrays import (
    Array,
    is_from_another_library,
    like,
    namespace_of,
    to_numpy,
)
from sfumato.moments.pca import top_eigenvectors
from sfumato.sums.grid import FINE_BITS, ROW_BITS, cut
from sfumato.sums.maps import ROUNDING_MARGIN, exact_projection

__all__ = [
    "MOST_MINIMISED",
    "LinearRows",
    "whitened_rows",
    "whitening_projection",
]

# Where the number of rows is secret, minimisers are offered for so many: the bound on rounding that
# is paid for grows with this number, and at 2**22 it costs about 1 % more noise.
MOST_MINIMISED = 2**22
# Added to the eigenvalues before whitening, as a share of the largest eigenvalue that noise alone
# would have. Chosen on held-out training rows of two image sets among 0.03, 0.1 and 0.3.
FLOOR = 0.2
LEAST_FLOOR = 1e-6  # of the largest eigenvalue, where there is no noise
# Chosen on held-out training rows of Adult, bank marketing and diamonds at three budgets.
CONSTANT = 0.25  # weight of the constant beside rows of length 1
RADIUS = 1.0  # of the root mean square length of whitened rows: longer ones are scaled back
SMALLEST_RADIUS = 2.0**-20


@dataclass(frozen=True, eq=False)
class LinearRows:
    """``z -> a``: rows of the unit ball projected, scaled to length 1, a constant appended.

    Every step looks at one row at a time and every result is a multiple of a public power of two,
    so that a row gives the same numbers alone, among others, and on any machine.

    n_features: Numbers of a row z.
    intercept: Append a constant: ``a = [z; c] / √(1 + c²)``.
    projection (n_features, k): Public matrix with columns of length 1 at most and no singular value
        above 1.
    unit_length: Scale projected rows to length 1.
    constant: c, the weight of the constant.
    radius: Divide projected rows by this length instead, and scale back those that are longer.
    """

    n_features: int
    intercept: bool
    projection: Array = field(default=None, repr=False)
    unit_length: bool = False
    constant: float = 1.0
    radius: float | None = None

    @property
    def width(self) -> int:
        """Numbers of a row a."""
        kept = self.n_features if self.projection is None else int(self.projection.shape[1])
        return kept + bool(self.intercept)

    @property
    def height(self) -> float:
        """Of the constant in a row a."""
        return self.constant / math.sqrt(1 + self.constant**2)

    @property
    def weights_before(self) -> NDArray[np.float64]:
        """``B`` with ``w.a = (B w).z`` and the constant, where z is not scaled back."""
        assert self.projection is not None  # noqa: S101 - for the type checker
        assert self.radius is not None  # noqa: S101 - for the type checker
        return np.asarray(self.projection / (self.radius * math.sqrt(1 + self.constant**2)))

    def __call__(self, rows: Array) -> Array:
        """Map rows of the unit ball."""
        if self.projection is not None:
            rows = self._projected(rows)
        if self.intercept:
            xp = namespace_of(rows)
            ones = self.constant * xp.ones_like(rows[:, :1])
            length = math.sqrt(1 + self.constant**2)
            rows = xp.concat([rows, ones], axis=1) * ((1 - ROUNDING_MARGIN) / length)
        return cut(rows, ROW_BITS)

    def _projected(self, rows: Array) -> Array:
        """Project exactly, and scale into the unit ball or to length 1."""
        assert self.projection is not None  # noqa: S101 - for the type checker
        projected = cut(exact_projection(rows, self.projection), FINE_BITS)
        xp = namespace_of(rows)
        squares = xp.sum(projected * projected, axis=1, keepdims=True)  # exact, 52 bits below 2
        shortest = 2.0 ** (-2 * FINE_BITS) if self.unit_length else 1.0
        if self.radius is not None:
            shortest = max(self.radius**2, 2.0 ** (-2 * FINE_BITS))
        limit = shortest * xp.ones_like(squares)
        return projected * (
            (1 - ROUNDING_MARGIN) / xp.sqrt(xp.where(squares > limit, squares, limit))
        )


def whitening_projection(moment: Array, n_components: int, noise: float) -> Array:
    """``U (E + floor)^(-1/2)``, scaled so that its largest singular value is 1.

    moment (m, m): Released second moment; on an accelerator the eigenvectors are found there.
    n_components: Eigenvectors kept, those of the largest eigenvalues.
    noise: Standard deviation s of the noise on its diagonal; noise alone has eigenvalues up to ``s
        √(2m)``.
    Returns (m, n_components): The projection, of the array library of the moment.
    """
    values, vectors = _eigenvectors(moment, n_components)
    values = np.maximum(values, 0.0)
    floor = FLOOR * noise * math.sqrt(2 * moment.shape[0]) + LEAST_FLOOR * (values[0] or 1.0)
    scales = 1 / np.sqrt(values + floor)
    return vectors * like(vectors, scales / scales.max() * (1 - 2.0**-30))


def whitened_rows(
    moment: NDArray[np.float64], noise: float, n_rows: float, usual_square: float
) -> tuple[LinearRows, float]:
    """Give the map to whitened rows with a constant, divided by their typical length.

    moment (m, m): Released second moment of the rows.
    noise: Standard deviation of the noise on its diagonal.
    n_rows: The public, or released, number of rows.
    usual_square: Mean squared length of a row.
    Returns: The map, and about the largest eigenvalue of the mean of ``a aᵀ`` over mapped rows a.
    """
    projection = whitening_projection(moment, len(moment), noise)
    spectrum = _whitened_spectrum(moment, projection, noise, n_rows, usual_square)
    radius = max(RADIUS * math.sqrt(float(spectrum.sum())), SMALLEST_RADIUS)
    rows = LinearRows(len(moment), True, projection, constant=CONSTANT, radius=radius)
    return rows, _largest_moment(float(spectrum.max()) / radius**2)


def _whitened_spectrum(
    moment: NDArray[np.float64],
    projection: NDArray[np.float64],
    noise: float,
    n_rows: float,
    usual_square: float,
) -> NDArray[np.float64]:
    """Mean squares of whitened rows along the axes of the projection.

    Eigenvalues of the moment that noise alone could have are not believed: these axes share what is
    left of the known sum of all, the mean squared length of a row.
    """
    squares = np.sum(projection**2, axis=0)
    values = np.sum(projection * (moment @ projection), axis=0) / squares
    is_seen = values > noise * math.sqrt(2 * len(moment))
    left = max(usual_square * n_rows - float(values[is_seen].sum()), 0.0)
    values = np.where(is_seen, values, left / max(1, int(np.count_nonzero(~is_seen))))
    return np.asarray(values * squares / n_rows)


def _largest_moment(largest: float) -> float:
    """Largest eigenvalue of the mean of ``a aᵀ`` over the rows of the descent, constant and all."""
    return (min(largest, 1.0) + CONSTANT**2) / (1 + CONSTANT**2)


def _eigenvectors(moment: Array, n_components: int) -> tuple[NDArray[np.float64], Array]:
    """Give the largest eigenvalues, and their eigenvectors in the library of the moment."""
    if not is_from_another_library(moment):
        return top_eigenvectors(moment, n_components)
    xp = namespace_of(moment)
    values, vectors = (xp.flip(part, axis=-1) for part in xp.linalg.eigh(moment))
    return to_numpy(values[:n_components]), vectors[:, :n_components]
