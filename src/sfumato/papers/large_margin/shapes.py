"""Ellipsoids as matrices: ``[x; 1]ᵀ Φ [x; 1] = (x - μ)ᵀ Ψ (x - μ) + θ``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def precisions(matrices: Array) -> Array:
    """Ψ, the inverse covariance of each ellipsoid."""
    return np.asarray(matrices[:, :-1, :-1])


def centroids(matrices: Array) -> Array:
    """μ, the centre of each ellipsoid; the one nearest to zero where an axis is infinite."""
    inverses = np.linalg.pinv(matrices[:, :-1, :-1], hermitian=True)
    return np.asarray(-np.einsum("kij,kj->ki", inverses, matrices[:, :-1, -1]))


def offsets(matrices: Array) -> Array:
    """θ, the score at the centre; not negative for positive semidefinite Φ."""
    reach = np.einsum("ki,ki->k", matrices[:, :-1, -1], centroids(matrices))
    return np.asarray(matrices[:, -1, -1] + reach)


class EllipsoidAnswers:
    """What classifiers answer from the distances of a row to their ellipsoids."""

    classes_: NDArray[Any]
    matrices_: Array

    if TYPE_CHECKING:

        def distances(self, X: ArrayLike) -> Array: ...

    @property
    def offsets_(self) -> Array:
        """Scores at the centres."""
        return offsets(self.matrices_)

    def decision_function(self, X: ArrayLike) -> Array:
        """Return minus the distances; for two classes, their difference.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Scores; the second shape for more than two classes.
        """
        scores = self.distances(X)
        return np.asarray(scores[:, 0] - scores[:, 1]) if scores.shape[1] == 2 else -scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of the nearest ellipsoid.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
        """
        nearest = self.distances(X).argmin(axis=1)
        return np.asarray(self.classes_[nearest])
