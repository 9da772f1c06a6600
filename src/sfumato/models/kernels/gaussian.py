"""The Gaussian kernel on coordinates that carry their own scale."""

from __future__ import annotations

import numpy as np

from sfumato.core.arrays import Array, namespace_of


def gaussian_kernel(X: Array) -> Array:
    r"""Return the kernel matrix :math:`K_{ij} = \exp(-\tfrac12\|x_i - x_j\|^2)` of the rows of `X`.

    Parameters
    ----------
    X : array of shape (..., N, n)
        Whitened rows: with ``X = (Y P^T) θ^{-1/2} / sqrt(n)`` this is equation (35) of the paper
        on kernel affine hulls.

    Returns
    -------
    array of shape (..., N, N)
        The kernel matrix.

    Examples
    --------
    >>> import numpy as np
    >>> gaussian_kernel(np.array([[0.0], [2.0]])).round(4)
    array([[1.    , 0.1353],
           [0.1353, 1.    ]])
    """
    xp = namespace_of(X)
    exponents = _inner_minus_half_square(X, X)
    exponents -= xp.vecdot(X, X)[..., :, None] / 2
    # Rounding may leave a hair above zero on the diagonal and between duplicates.
    if isinstance(exponents, np.ndarray):  # in place: a third of the time for many rows
        return np.exp(np.minimum(exponents, 0.0, out=exponents), out=exponents)
    return xp.exp(xp.clip(exponents, max=0.0))


def relative_gaussian_kernel(X: Array, centres: Array) -> Array:
    r"""Return :math:`k(x_i, u_j) / \max_j k(x_i, u_j)`, the kernel of each row up to a factor.

    Normalised weights do not see the factor, and far rows, whose kernel underflows, keep finite
    weights.

    X: (..., M, n).
    centres: (..., N, n).
    Returns: (..., M, N).
    """
    xp = namespace_of(X)
    exponents = _inner_minus_half_square(X, centres)
    exponents -= xp.max(exponents, axis=-1, keepdims=True)
    return xp.exp(exponents)


def _inner_minus_half_square(X: Array, centres: Array) -> Array:
    # One more coordinate lets the matrix product subtract the squares as well.
    xp = namespace_of(X)
    squares = xp.vecdot(centres, centres)[..., None] / -2
    lifted = xp.concat([centres, squares], axis=-1)
    return xp.concat([X, xp.ones_like(X[..., :1])], axis=-1) @ xp.matrix_transpose(lifted)
