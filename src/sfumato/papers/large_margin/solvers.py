"""Minimisers of the large-margin objective, and what certifies them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from sfumato.mechanisms.minimiser import farthest_minimiser, rounding_met
from sfumato.papers.large_margin.losses import MarginLoss
from sfumato.papers.large_margin.objective import (
    BLOCK,
    GROUP,
    LargeMarginObjective,
    to_matrices,
    to_vectors,
)

Array = NDArray[np.float64]
Smooth = Callable[[Array], tuple[float, Array]]
MEMORY = 20  # pairs that L-BFGS keeps
MAX_NEWTON_STEPS = 60
MAX_PRODUCTS = 400  # Hessian products of one Newton step
MAX_HALVINGS = 30
MIN_EIGENVALUE = 1e-4  # of a start in the cone


def penalised(
    objective: LargeMarginObjective, *, linear: Array | float = 0.0, quadratic: float = 0.0
) -> Smooth:
    """``J(W) = L(W) + <linear, W> + quadratic/2 ||W||²`` and its gradient."""

    def value_and_gradient(W: Array) -> tuple[float, Array]:
        value, gradient = objective.value_and_gradient(W)
        tilted = value + float(np.sum(linear * W)) + 0.5 * quadratic * float(np.sum(W * W))
        return tilted, gradient + linear + quadratic * W

    return value_and_gradient


# Without a constraint ---------------------------------------------------------------------------


def minimise_strongly_convex(
    objective: LargeMarginObjective,
    *,
    linear: Array | float = 0.0,
    quadratic: float,
    tolerance: float,
    max_iter: int = 2000,
) -> Array:
    """Minimise ``L(W) + <linear, W> + quadratic/2 ||W||²`` to gradient norm `tolerance`.

    L-BFGS comes near; Newton steps by conjugate gradients then reach norms at which values of J
    no longer differ in doubles. What was reached is for the caller to check.
    """
    smooth = penalised(objective, linear=linear, quadratic=quadratic)
    W, _ = descend(smooth, np.zeros(objective.shape), tolerance=tolerance, max_iter=max_iter)
    value, gradient = smooth(W)
    for _ in range(MAX_NEWTON_STEPS):
        if np.linalg.norm(gradient) <= tolerance:
            break
        step = _newton_step(objective, W, gradient, quadratic)
        moved = _along(smooth, W, step, value, gradient)
        if moved is None:  # as far as doubles go
            break
        W, value, gradient = moved
    return W


class PerturbableSum(LargeMarginObjective):
    """The sum of losses as `sfumato.mechanisms.objective` takes it."""

    def minimise(self, linear: Array, strong_convexity: float, tolerance: float) -> Array:
        """Minimise the sum with a linear and a quadratic term to this gradient norm."""
        return minimise_strongly_convex(
            self, linear=linear, quadratic=strong_convexity, tolerance=tolerance
        )

    def gradient_error(self, t: Array) -> float:
        """Bound on the rounding of `gradient`."""
        longest = float(np.linalg.norm(t, axis=1).max())
        return self._limits.gradient_error(longest)

    @property
    def smoothness(self) -> float:
        """Lipschitz constant of the gradient: the Laplacian of a star of C classes."""
        return self._limits.n_rows * self.n_ellipsoids * self._limits.loss.max_curvature

    def radius(self, linear: float, strong_convexity: float) -> float:
        """Bound on the norm of the minimiser for linear terms of this norm."""
        return self._limits.farthest(linear, strong_convexity)

    @property
    def _limits(self) -> MarginLimits:
        loss: MarginLoss = self.loss  # type: ignore[assignment]
        return MarginLimits(loss, self.n_ellipsoids, len(self.rows), self.shape[1])


@dataclass(frozen=True)
class MarginLimits:
    """What holds for all data of a public size.

    n_classes, n_rows: C, and the number of rows or a bound on it.
    n_features: Numbers of one matrix in svec coordinates.
    """

    loss: MarginLoss
    n_classes: int
    n_rows: int
    n_features: int

    @property
    def slopes(self) -> float:
        """Largest norm of a gradient: each row has slopes of length ``√(C(C-1))`` at most."""
        return math.sqrt(self.n_classes * (self.n_classes - 1)) * self.n_rows

    @property
    def at_zero(self) -> float:
        """Sum of the losses where all matrices are zero."""
        return self.n_rows * (self.n_classes - 1) * self.loss.value_at_zero

    def gradient_error(self, longest: float) -> float:
        """Bound on the rounding of a gradient at matrices of this norm at most.

        Slopes are off by the rounding of two scores times the curvature of the loss, and their sum
        by one unit for each term of a product, a group of products and the sum of groups, and a few
        for the features.
        """
        per_score = 2 * (self.n_features + 4) * longest * self.loss.max_curvature
        terms = BLOCK + GROUP + self.n_rows / (BLOCK * GROUP) + 16
        return 1.01 * 2.0**-53 * self.slopes * (per_score + terms)

    def farthest(self, linear: float, strong_convexity: float) -> float:
        """Bound on the norm of the minimiser for linear terms of this norm."""
        return farthest_minimiser(self.slopes, self.at_zero, linear, strong_convexity)

    def rounding(self, linear: float, strong_convexity: float) -> float:
        """Bound on that rounding for all data: from public numbers alone."""
        return rounding_met(
            self.gradient_error, self.slopes, self.at_zero, linear, strong_convexity
        )


def descend(smooth: Smooth, start: Array, *, tolerance: float, max_iter: int) -> tuple[Array, int]:
    """Minimise by L-BFGS to gradient norm `tolerance`, if it gets there; and count iterations."""

    def flat(vector: Array) -> tuple[float, Array]:
        value, gradient = smooth(vector.reshape(start.shape))
        return value, gradient.ravel()

    # scipy measures the largest entry; the norm is at most √size times that.
    options = {"maxiter": max_iter, "maxfun": 2 * max_iter, "maxcor": MEMORY, "ftol": 0.0}
    options["gtol"] = tolerance / np.sqrt(start.size)
    found: Any = minimize(flat, start.ravel(), jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x.reshape(start.shape)), max(1, int(found.nit))


def _newton_step(
    objective: LargeMarginObjective, W: Array, gradient: Array, quadratic: float
) -> Array:
    """Solve ``(H + quadratic I) step = -gradient`` by conjugate gradients."""
    step = np.zeros_like(W)
    residual = -gradient
    direction = residual.copy()
    size = float(np.sum(residual * residual))
    goal = 1e-6 * size
    for _ in range(MAX_PRODUCTS):
        bent = objective.curved(W, direction) + quadratic * direction
        length = size / float(np.sum(direction * bent))
        step += length * direction
        residual -= length * bent
        size, before = float(np.sum(residual * residual)), size
        if size <= goal:
            break
        direction = residual + (size / before) * direction
    return step


def _along(
    smooth: Smooth, W: Array, step: Array, value: float, gradient: Array
) -> tuple[Array, float, Array] | None:
    """Halve the step until J falls enough, or the gradient does where J cannot show it."""
    slope, norm = float(np.sum(gradient * step)), float(np.linalg.norm(gradient))
    share = 1.0
    for _ in range(MAX_HALVINGS):
        there = W + share * step
        new_value, new_gradient = smooth(there)
        falls = new_value <= value + 1e-4 * share * slope
        if (falls and new_value < value) or np.linalg.norm(new_gradient) <= 0.7 * norm:
            return there, new_value, new_gradient
        share /= 2
    return None


# In the cone of positive semidefinite matrices --------------------------------------------------


def minimise_in_cone(
    smooth: Smooth, start: Array, *, tolerance: float, max_iter: int
) -> tuple[Array, int]:
    """Minimise over stacks of positive semidefinite matrices by L-BFGS on their factors.

    ``Φ = F Fᵀ`` with square F has no false minima. A start of lower rank is moved inside, since
    zero columns of a factor have zero gradients; `cone_residual` certifies the answer. The
    number of iterations comes with it.
    """
    values, axes = np.linalg.eigh(to_matrices(start))
    factors = axes * np.sqrt(np.maximum(values, MIN_EIGENVALUE))[..., None, :]
    best, n_iter = descend(_of_factors(smooth), factors, tolerance=tolerance, max_iter=max_iter)
    return to_vectors(best @ np.swapaxes(best, -1, -2)), n_iter


def _of_factors(smooth: Smooth) -> Smooth:
    def value_and_gradient(factors: Array) -> tuple[float, Array]:
        value, gradient = smooth(to_vectors(factors @ np.swapaxes(factors, -1, -2)))
        return value, 2 * to_matrices(gradient) @ factors

    return value_and_gradient


def cone_residual(smooth: Smooth, W: Array) -> float:
    """``max |Φ - P(Φ - G)|``, G the gradient and P the projection on the cone; 0 at a minimum."""
    _, gradient = smooth(W)
    matrices = to_matrices(W)
    values, axes = np.linalg.eigh(matrices - to_matrices(gradient))
    projected = (axes * np.maximum(values, 0.0)[..., None, :]) @ np.swapaxes(axes, -1, -2)
    return float(np.max(np.abs(matrices - projected)))


def shifted_into_cone(matrices: Array) -> Array:
    """Take the mean from all matrices, then add one multiple of I to all: no decision changes.

    One matrix added to all of them adds the same to all scores of a row. Clipping eigenvalues
    instead would change each matrix differently.
    """
    centred = matrices - matrices.mean(axis=0)
    least = float(np.linalg.eigvalsh(centred)[:, 0].min())
    return np.asarray(centred + max(0.0, -least) * np.eye(matrices.shape[-1]))
