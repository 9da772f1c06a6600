"""Leading eigenvectors of large matrices, certified, by matrix products alone.

An accelerator multiplies a thousand times faster than it finds all eigenvectors of a matrix. Here
a block of directions is multiplied by the matrix until the wanted ones stand still, and what was
found is then checked, so that no trust in the iteration is needed.
"""

from __future__ import annotations

import numpy as np
from sklearn.utils import check_random_state

from sfumato.core.arrays import Array, inverse_of_lower, like, namespace_of, to_numpy

N_LEADING = 64  # directions of the block
STEPS, MAX_STEPS = 16, 48  # products between two checks, and in all
SMALL_RESIDUAL = 1e-12  # of the largest eigenvalue
ROUNDING = 1e-9  # of the largest eigenvalue, by which nothing that was missed may lie higher
SEED = 0  # of the start, which is public and decides nothing that is not checked


def leading_eigenvectors(matrix: Array, n_wanted: int) -> tuple[Array, Array] | None:
    """Return the largest eigenvalues of a positive semi-definite matrix and their eigenvectors.

    matrix (..., p, p): Symmetric matrices, p at least `N_LEADING`; leading dimensions are a stack.
    n_wanted: How many of the directions must be right.
    Returns: Values (..., k) in descending order and orthonormal vectors (..., p, k), ``k =
        N_LEADING``. The first `n_wanted` satisfy ``|A u - θ u| <= 1e-12 θ_1``, and A has no other
        eigenvalue above the last of them by more than 1e-9 of the largest, which a Cholesky
        factorisation proves. None where that was not reached: the spectrum is too flat, or of low
        rank.
    """
    xp = namespace_of(matrix)
    start = check_random_state(SEED).standard_normal((matrix.shape[-1], N_LEADING))
    try:
        block = _orthonormal(matrix @ like(matrix, start))
        for _ in range(0, MAX_STEPS, STEPS):
            for _ in range(STEPS):
                block = _orthonormal(matrix @ block)
            values, vectors = _ritz(matrix, _orthonormal(block))
            wanted, kept = vectors[..., :n_wanted], values[..., None, :n_wanted]
            residual = xp.sqrt(xp.sum((matrix @ wanted - wanted * kept) ** 2, axis=-2))
            is_positive = values[..., n_wanted - 1] > ROUNDING * values[..., 0]
            if not bool(xp.all(is_positive)):
                return None
            if bool(xp.all(residual <= SMALL_RESIDUAL * values[..., :1])):
                _require_nothing_above(matrix, wanted, kept)
                return values, vectors
    except (np.linalg.LinAlgError, RuntimeError):  # PyTorch's error is a RuntimeError
        pass
    return None


def completed_basis(vectors: Array) -> Array:
    """Complete orthonormal columns to a rotation, whose first columns they are.

    The rest is that of ``Q = I - W M Wᵀ`` with ``W = U S - E`` and ``M = (I - (US)₁ᵀ)⁻¹``, where E
    are the first columns of the identity and ₁ means the first rows: Q is orthogonal and
    ``Q E = U S``. The signs S are chosen by an elimination whose pivots then are 1 at least.

    vectors (..., p, k): Orthonormal columns U.
    Returns (..., p, p): The rotation.
    """
    xp = namespace_of(vectors)
    p, k = vectors.shape[-2:]
    identity = xp.eye(p, dtype=vectors.dtype, device=vectors.device)
    turned = vectors * _pivot_signs(vectors[..., :k, :])[..., None, :]
    away = turned - identity[:, :k]
    middle = xp.linalg.inv(identity[:k, :k] - xp.matrix_transpose(turned[..., :k, :]))
    rest = identity[:, k:] - away @ (middle @ xp.matrix_transpose(away[..., k:, :]))
    return xp.concat([vectors, rest], axis=-1)


def _pivot_signs(top: Array) -> Array:
    """Signs S such that ``U₁ - S`` is eliminated with pivots of 1 at least."""
    xp = namespace_of(top)
    left, signs = xp.asarray(top, copy=True), []
    for j in range(left.shape[-1]):
        pivot = left[..., j, j]
        signs.append(xp.where(pivot > 0, -xp.ones_like(pivot), xp.ones_like(pivot)))
        factors = left[..., j + 1 :, j] / (pivot - signs[-1])[..., None]
        below = left[..., j + 1 :, j + 1 :]
        left[..., j + 1 :, j + 1 :] = below - factors[..., :, None] * left[..., j, None, j + 1 :]
    return xp.stack(signs, axis=-1)


def _orthonormal(block: Array) -> Array:
    """Orthonormalise columns by the Cholesky factor of their products."""
    xp = namespace_of(block)
    lower = xp.linalg.cholesky(xp.matrix_transpose(block) @ block)
    return block @ xp.matrix_transpose(inverse_of_lower(lower))


def _ritz(matrix: Array, block: Array) -> tuple[Array, Array]:
    xp = namespace_of(matrix)
    products = xp.matrix_transpose(block) @ (matrix @ block)
    # The processor is done with many small matrices before an accelerator.
    values, mixing = (like(matrix, part) for part in np.linalg.eigh(to_numpy(products)))
    return xp.flip(values, axis=-1), block @ xp.flip(mixing, axis=-1)


def _require_nothing_above(matrix: Array, vectors: Array, values: Array) -> None:
    """Factor ``(θ_n + rounding) I - (A - U Θ Uᵀ)``, which fails if something larger was missed."""
    xp = namespace_of(matrix)
    identity = xp.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    limit = values[..., -1:] + ROUNDING * values[..., :1]
    found = (vectors * values) @ xp.matrix_transpose(vectors)
    xp.linalg.cholesky(limit * identity - matrix + found)
