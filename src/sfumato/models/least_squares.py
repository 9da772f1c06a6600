r"""Kernel regularised least squares at the fixed point λ* of the regularisation.

The parameter is chosen as the training error plus a constant: ``λ* = ê + τ`` where ``ê = R(ê, τ)``,

.. math:: R(e, τ) = \frac{1}{pN} \|Y - K (K + (e+τ) I)^{-1} Y\|_F^2
                  = \frac{(e+τ)^2}{pN} \|(K + (e+τ) I)^{-1} Y\|_F^2 ,

and :math:`τ = 2\|Y\|_F^2 / (pN)` makes the fixed point unique (Theorem 1 of the paper).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from sfumato.core.arrays import (
    Array,
    cast,
    inverse_of_lower,
    like,
    namespace_of,
    regularized_solver,
    to_numpy,
)

# On [0, 1] data ê is about 3 % of τ; any start in (0, τ/2) ends at the same point.
DEFAULT_SHARE = 0.03
# Single precision only finds the neighbourhood of ê; below this ratio λ/N it might not even factor.
SAFE_RATIO_FOR_SINGLE = 1e-5
# A last step below this share of λ may be applied to the solution to first order.
SMALL_STEP = 1e-6
# After steps of this size (slope unknown, slope known) the next one is small: dR/de hardly changes.
ROUGH_STEPS = 1e-4, 1e-2
# Below this share of τ a difference quotient is mostly rounding.
SHORT_RUN = {"float32": 1e-4, "float64": 1e-8}
MAX_STEPS = 60
ROUNDING_OF_KERNEL = 16 * float(np.finfo(np.float64).eps)  # per row: less is lost next to a kernel
# A solution for a model in single precision is corrected until a correction has this relative size,
# of whose square the next one would be; factors that need more of them are no help, and the system
# is factored in double precision.
SMALL_CORRECTION = 1e-3
MAX_CORRECTIONS = 3


class FixedPointSolution(NamedTuple):
    """Solution ``B = (K + λ* I)^{-1} C`` at λ* = τ + ê, and a start for a similar kernel: dR/de."""

    coefficients: Array
    regularization: Array
    error: Array
    slope: Array


def solve_at_fixed_point(
    kernel: Array,
    responses: Array,
    mean_square: Callable[[Array], Array],
    *,
    tau: Array,
    start: tuple[Array, Array] | None = None,
    correct: bool = True,
) -> FixedPointSolution:
    """Solve ``(K + λ* I) B = C``, in double precision, and find λ* on the way.

    `mean_square` returns ``‖(K + λI)^{-1} Y‖_F² / (pN)`` from ``(K + λI)^{-1} C``; a basis C of the
    columns of Y saves work when Y is wide. `start` are error and slope of a similar kernel. Without
    `correct`, B belongs to a λ that is within 1e-6 of λ*, enough for a model in single precision.

    Secant steps on ``R(e) - e``, whose slope lies in (-1, 0): one or two in single precision, then
    usually one in double. The last, tiny step δ is applied to the solution itself,
    ``B - δ (K + λI)^{-1} B``, so that the error left is of the order (δ/λ)².
    """
    xp = namespace_of(kernel)
    tau = xp.where(tau > 0, tau, xp.ones_like(tau))  # all rows zero: every λ gives the same map
    tau = xp.clip(tau, min=ROUNDING_OF_KERNEL * kernel.shape[-1])
    error, slope = (DEFAULT_SHARE * tau, xp.zeros_like(tau)) if start is None else start
    fine = rough = _Search(kernel, responses, mean_square, tau)
    # A kernel matrix plus this much can be factored in single precision.
    if float(xp.min(tau)) > SAFE_RATIO_FOR_SINGLE * kernel.shape[-1]:
        rough = _Search(cast(kernel, "float32"), cast(responses, "float32"), mean_square, tau)
        error, slope = rough.run(error, slope, small=ROUGH_STEPS[start is not None])
        if not correct and kernel.shape[-1] > 2 * responses.shape[-1]:  # else factoring is cheap
            fine.nearly_solve, fine.solution = rough.solve, cast(rough.solution, "float64")
    error, slope = fine.run(error, slope, small=SMALL_STEP)
    coefficients = fine.solution
    if correct:
        derivative = cast(rough.solve(cast(coefficients, rough.precision)), "float64")
        coefficients = coefficients - fine.last_step[..., None, None] * derivative
    return FixedPointSolution(coefficients, tau + error, error, slope)


class _Search:
    """Secant search for e = R(e); remembers the solution at the last point it evaluated.

    With factors S that a search in single precision has left, close to ``(K + λI)^{-1}``, it goes
    on without factoring: the steps ``B <- B + S (C - (K + λI) B)`` multiply the error of B by about
    ``|λ - λ_S| / λ`` plus the rounding of S.
    """

    def __init__(
        self, kernel: Array, responses: Array, mean_square: Callable[[Array], Array], tau: Array
    ) -> None:
        self.kernel, self.responses = kernel, responses
        self.mean_square, self.tau = mean_square, tau
        self.precision = "float32" if kernel.dtype == namespace_of(kernel).float32 else "float64"
        self.nearly_solve: Callable[[Array], Array] | None = None
        self.solve: Callable[[Array], Array]
        self.solution: Array
        self.last_step: Array

    def run(self, error: Array, slope: Array, *, small: float) -> tuple[Array, Array]:
        xp = namespace_of(self.kernel)
        last_error, last_residual = error, None
        for _ in range(MAX_STEPS):
            self._solve_at(self.tau + error)
            residual = (self.tau + error) ** 2 * cast(self.mean_square(self.solution), "float64")
            if last_residual is not None:
                run = error - last_error
                is_long = xp.abs(run) > SHORT_RUN[self.precision] * self.tau
                secant = (residual - last_residual) / xp.where(is_long, run, xp.ones_like(run))
                slope = xp.where(is_long, xp.clip(secant, min=0.0, max=0.9), slope)
            last_error, last_residual = error, residual
            # The fixed point lies below ‖Y‖²/(pN) = τ/2 (Theorem 1); a wild slope may not.
            error = xp.clip(error + (residual - error) / (1 - slope), min=0.0)
            error = xp.minimum(error, self.tau / 2)
            self.last_step = error - last_error
            if bool(xp.all(xp.abs(self.last_step) <= small * (error + self.tau))):
                break
        return error, slope

    def _solve_at(self, regularization: Array) -> None:
        xp, nearly_solve = namespace_of(self.kernel), self.nearly_solve
        for _ in range(MAX_CORRECTIONS):
            if nearly_solve is None:
                break
            missing = self.responses - self.kernel @ self.solution
            missing -= regularization[..., None, None] * self.solution
            correction = cast(nearly_solve(cast(missing, "float32")), "float64")
            self.solution += correction
            moved, whole = (xp.sum(xp.vecdot(x, x), axis=-1) for x in (correction, self.solution))
            if float(xp.max(xp.sqrt(moved / xp.clip(whole, min=1e-300)))) <= SMALL_CORRECTION:
                return
        self.solve = regularized_solver(self.kernel, cast(regularization, self.precision))
        self.solution = self.solve(self.responses)


def gaussian_kernel(X: Array) -> Array:
    """Return ``K_ij = exp(-|x_i - x_j|² / 2)`` of whitened rows, equation (35) of the paper."""
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
    """
    xp = namespace_of(X)
    exponents = _inner_minus_half_square(X, centres)
    exponents -= xp.max(exponents, axis=-1, keepdims=True)
    in_place = {"out": exponents} if isinstance(exponents, np.ndarray) else {}
    return xp.exp(exponents, **in_place)


def _inner_minus_half_square(X: Array, centres: Array) -> Array:
    # One more coordinate lets the matrix product subtract the squares as well.
    xp = namespace_of(X)
    squares = xp.vecdot(centres, centres)[..., None] / -2
    lifted = xp.concat([centres, squares], axis=-1)
    return xp.concat([X, xp.ones_like(X[..., :1])], axis=-1) @ xp.matrix_transpose(lifted)


N_LEADING = 64  # directions of the block
PRODUCTS, MAX_PRODUCTS = 16, 48  # products between two checks, and in all
SMALL_RESIDUAL = 1e-12  # of the largest eigenvalue
ROUNDING = 1e-9  # of the largest eigenvalue, by which nothing that was missed may lie higher
SEED = 0  # of the start, which is public and decides nothing that is not checked


def leading_eigenvectors(matrix: Array, n_wanted: int) -> tuple[Array, Array] | None:
    """Return the largest eigenvalues of a positive semi-definite matrix and their eigenvectors.

    Of matrices (..., p, p), p at least `N_LEADING`: values (..., k) in descending order and
    orthonormal vectors (..., p, k), ``k = N_LEADING``. The first `n_wanted` satisfy
    ``|A u - θ u| <= 1e-12 θ_1``, and A has no other eigenvalue above the last of them by more than
    1e-9 of the largest, which a Cholesky factorisation proves. None where that was not reached: the
    spectrum is too flat, or of low rank.
    """
    xp = namespace_of(matrix)
    start = check_random_state(SEED).standard_normal((matrix.shape[-1], N_LEADING))
    try:
        block = _orthonormal(matrix @ like(matrix, start))
        for _ in range(0, MAX_PRODUCTS, PRODUCTS):
            for _ in range(PRODUCTS):
                block = _orthonormal(matrix @ block)
            block = _orthonormal(block)
            products = xp.matrix_transpose(block) @ (matrix @ block)
            # The processor is done with many small matrices before an accelerator.
            found = (like(matrix, part) for part in np.linalg.eigh(to_numpy(products)))
            values, mixing = (xp.flip(part, axis=-1) for part in found)
            vectors = block @ mixing
            wanted, kept = vectors[..., :n_wanted], values[..., None, :n_wanted]
            residual = xp.sqrt(xp.sum((matrix @ wanted - wanted * kept) ** 2, axis=-2))
            if not bool(xp.all(values[..., n_wanted - 1] > ROUNDING * values[..., 0])):
                return None
            if bool(xp.all(residual <= SMALL_RESIDUAL * values[..., :1])):
                _require_nothing_above(matrix, wanted, kept)
                return values, vectors
    except (np.linalg.LinAlgError, RuntimeError):  # PyTorch's error is a RuntimeError
        pass
    return None


def _require_nothing_above(matrix: Array, vectors: Array, values: Array) -> None:
    """Factor ``(θ_n + rounding) I - (A - U Θ Uᵀ)``, which fails if something larger was missed."""
    xp = namespace_of(matrix)
    identity = xp.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    limit = values[..., -1:] + ROUNDING * values[..., :1]
    found = (vectors * values) @ xp.matrix_transpose(vectors)
    xp.linalg.cholesky(limit * identity - matrix + found)


def _orthonormal(block: Array) -> Array:
    """Orthonormalise columns by the Cholesky factor of their products."""
    xp = namespace_of(block)
    lower = xp.linalg.cholesky(xp.matrix_transpose(block) @ block)
    return block @ xp.matrix_transpose(inverse_of_lower(lower))


def completed_basis(vectors: Array) -> Array:
    """Complete orthonormal columns U (..., p, k) to a rotation, whose first columns they are.

    The rest is that of ``Q = I - W M Wᵀ`` with ``W = U S - E`` and ``M = (I - (US)₁ᵀ)⁻¹``, where E
    are the first columns of the identity and ₁ means the first rows: Q is orthogonal and
    ``Q E = U S``. The signs S are chosen by an elimination whose pivots then are 1 at least.
    """
    xp = namespace_of(vectors)
    p, k = vectors.shape[-2:]
    left, signs = xp.asarray(vectors[..., :k, :], copy=True), []
    for j in range(k):
        pivot = left[..., j, j]
        signs.append(xp.where(pivot > 0, -xp.ones_like(pivot), xp.ones_like(pivot)))
        factors = left[..., j + 1 :, j] / (pivot - signs[-1])[..., None]
        below = left[..., j + 1 :, j + 1 :]
        left[..., j + 1 :, j + 1 :] = below - factors[..., :, None] * left[..., j, None, j + 1 :]
    identity = xp.eye(p, dtype=vectors.dtype, device=vectors.device)
    turned = vectors * xp.stack(signs, axis=-1)[..., None, :]
    away = turned - identity[:, :k]
    middle = xp.linalg.inv(identity[:k, :k] - xp.matrix_transpose(turned[..., :k, :]))
    rest = identity[:, k:] - away @ (middle @ xp.matrix_transpose(away[..., k:, :]))
    return xp.concat([vectors, rest], axis=-1)
