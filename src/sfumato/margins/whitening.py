"""From a released second moment to a public projection of the rows."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.arrays import Array, is_accelerated, like, namespace_of, to_numpy
from sfumato.moments.pca import top_eigenvectors

__all__ = ["whitening_projection"]

# Added to the eigenvalues before whitening, as a share of the largest eigenvalue that noise alone
# would have. Chosen on held-out training rows of two image sets among 0.03, 0.1 and 0.3.
FLOOR = 0.2
LEAST_FLOOR = 1e-6  # of the largest eigenvalue, where there is no noise


def whitening_projection(
    moment: NDArray[np.float64], n_components: int, noise: float, reference: Array = None
) -> NDArray[np.float64]:
    """``U (E + floor)^(-1/2)``, scaled so that its largest singular value is 1.

    Parameters
    ----------
    moment : ndarray of shape (m, m)
        Released second moment.
    n_components : int
        Eigenvectors kept, those of the largest eigenvalues.
    noise : float
        Standard deviation s of the noise on its diagonal; noise alone has eigenvalues up to
        ``s √(2m)``.
    reference : array, optional
        Rows on an accelerator: the eigenvectors are found there then.
    """
    values, vectors = _eigenvectors(moment, n_components, reference)
    values = np.maximum(values, 0.0)
    floor = FLOOR * noise * math.sqrt(2 * len(moment)) + LEAST_FLOOR * (values[0] or 1.0)
    scales = 1 / np.sqrt(values + floor)
    return np.asarray(vectors * (scales / scales.max() * (1 - 2.0**-30)))


def _eigenvectors(
    moment: NDArray[np.float64], n_components: int, reference: Array
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if not is_accelerated(reference):
        return top_eigenvectors(moment, n_components)
    xp = namespace_of(reference)
    values, vectors = (to_numpy(part) for part in xp.linalg.eigh(like(reference, moment)))
    return values[::-1][:n_components], vectors[:, ::-1][:, :n_components]
