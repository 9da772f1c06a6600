"""Bounds of Theorems 2 to 5 as numbers, and the errors of which Theorem 6 speaks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sfumato.models.hull_search import fit_branch, layer_width_scale
from sfumato.models.least_squares import gaussian_kernel
from sfumato.papers.kahm.smoothing import smoothing_pass


class HullBounds(NamedTuple):
    """Bounds for the hull of some rows.

    image, image_loose: Of the length of an image (46), by eigenvalues and without.
    ratio, ratio_loose: Of the distance to an image by ``|[y - y_1 ... y - y_N]|_2`` (49), (54);
    for a wide hull, the least loose one of its branches, by the Frobenius norm (61).
    """

    image: float
    image_loose: float
    ratio: float
    ratio_loose: float


def hull_bounds(rows: ArrayLike, n_components: int = 20) -> HullBounds:
    """Return the bounds of Theorems 2, 3 and 4, and of one branch of Theorem 5.

    They hold where the weights of a point have a positive sum, as near the rows; as stated, for
    every point, the theorems are false (docs/explanation/hulls.md).

    Parameters
    ----------
    rows : array-like of shape (n_rows, n_features)
        Rows Y.
    n_components : int, default=20
        Subspace dimension n.

    Returns
    -------
    HullBounds
        Numbers.
    """
    Y: Any = np.asarray(rows, dtype=np.float64)
    branch = fit_branch(Y, n_components=n_components, n_layers=1, dtype="float64")
    points = branch["inducing"] * layer_width_scale(branch["n_components"], 0, branch["inducing"])
    values = np.linalg.eigvalsh(gaussian_kernel(points)).clip(min=0.0)
    shrink = float(branch["regularization"][0])
    ratio = (shrink + float(values[-1])) / (shrink + float(values[0]))
    loose = 1 + Y.shape[1] * len(Y) ** 2 / (2 * float(np.sum(Y**2)))
    length = float(np.linalg.norm(Y, 2))
    return HullBounds(length * ratio, length * loose, ratio, loose)


def smoothing_errors(rows: ArrayLike, n_components: int = 20, passes: int = 40) -> list[float]:
    """Return the modelling error after each smoothing pass (86); it tends to 0 (Theorem 6).

    Parameters
    ----------
    rows : array-like of shape (n_rows, n_features)
        Rows.
    n_components : int, default=20
        Subspace dimension n.
    passes : int, default=40
        Passes M.

    Returns
    -------
    list of float
        One error a pass.
    """
    smoothed, errors = np.asarray(rows, dtype=np.float64), []
    for _ in range(passes):
        found = smoothing_pass(smoothed, n_components=n_components)
        errors.append(found.error)
        smoothed = found.smoothed
    return errors
