"""Ellipsoids and the large-margin objective: losses, coordinates, solvers, limits.

``[x; 1]ᵀ Φ [x; 1] = (x - μ)ᵀ Ψ (x - μ) + θ``. A score is ``s_k = aᵀ Φ_k a``, the squared distance
of ``a = [x; 1]`` to ellipsoid k; the smallest wins. ``aᵀ Φ a = <svec(a aᵀ), svec(Φ)>`` where
``svec`` lists the upper triangle with √2 off the diagonal: lengths and angles are those of
Frobenius, and scores and gradients are two matrix products.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize

from sfumato.core.memory import WORKING_SET
from sfumato.mechanisms.objective import farthest_minimiser, rounding_met
from sfumato.privacy.guarantee import Relation

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
Smooth = Callable[[Array], tuple[float, Array]]
BLOCK = 1024  # rows of one matrix product ...
GROUP = 32  # ... and products of one partial sum: what rounding may change grows with these
MAX_CACHED = WORKING_SET * 3 // 32  # numbers of features that are kept; more are computed anew
MEMORY = 20  # pairs that L-BFGS keeps
MAX_NEWTON_STEPS = 60
MAX_PRODUCTS = 400  # Hessian products of one Newton step
MAX_HALVINGS = 30
MIN_EIGENVALUE = 1e-4  # of a start in the cone


# Losses -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MarginLoss:
    """``sum_{c != y} l(margin - (s_c - s_y))``, l the hinge rounded over ``[-width, width]``.

    ``l(z) = 0`` for z < -width, ``(z + width)² / (4 width)`` inside, z above: the hinge for width
    0, Huber's for more. Its slope is at most 1, its curvature at most ``1 / (2 width)``.
    """

    width: float
    margin: float = 1.0

    @property
    def max_curvature(self) -> float:
        """``1 / (2 width)``."""
        return 0.5 / self.width

    def value_and_slopes(self, scores: Array, own: Codes) -> tuple[float, Array]:
        """Return the loss summed over rows, and its derivative by each score."""
        lacking, rows = self._lacking(scores, own)
        values, slopes = _rounded_hinge(lacking, self.width)
        slopes[rows, own] = 0.0
        value = float(values.sum() - values[rows, own].sum())
        return value, _spread(slopes, rows, own)

    def curved(self, scores: Array, own: Codes, change: Array) -> Array:
        """Return the change of the slopes along a `change` of the scores."""
        lacking, rows = self._lacking(scores, own)
        bent = np.where(np.abs(lacking) < self.width, self.max_curvature, 0.0)
        bent *= change[rows, own][:, None] - change
        return _spread(bent, rows, own)

    def _lacking(self, scores: Array, own: Codes) -> tuple[Array, Codes]:
        """How much of the margin is lacking against each class, and the numbers of the rows."""
        rows = np.arange(len(scores))
        return self.margin + scores[rows, own][:, None] - scores, rows


def _rounded_hinge(lacking: Array, width: float) -> tuple[Array, Array]:
    """Value and slope of ``l``."""
    if width == 0:
        return np.maximum(lacking, 0.0), (lacking > 0).astype(np.float64)
    slopes = np.clip((lacking + width) / (2 * width), 0.0, 1.0)
    # Inside, slope² width = (z + width)² / (4 width); above, slope = 1 and the rest is z - width.
    return slopes * slopes * width + np.maximum(lacking - width, 0.0), slopes


def _spread(slopes: Array, rows: Codes, own: Codes) -> Array:
    """From slopes by pairs (zero at the own class) to slopes by scores."""
    by_score = -slopes
    by_score[rows, own] = slopes.sum(axis=1) - slopes[rows, own]
    return by_score


# The objective ------------------------------------------------------------------------------------


def extended(rows: Array) -> Array:
    """Append the unit element to each row."""
    return np.column_stack([rows, np.ones(len(rows))])


def quadratic_features(rows: Array) -> Array:
    """``svec(a aᵀ)`` of each row a; its length is ``||a||²``."""
    order = rows.shape[1]
    features = np.empty((len(rows), order * (order + 1) // 2))
    heavy = rows * np.sqrt(2.0)
    start = 0
    for i in range(order):
        stop = start + order - i
        np.multiply(rows[:, i : i + 1], heavy[:, i:], out=features[:, start:stop])
        features[:, start] = rows[:, i] ** 2
        start = stop
    return features


def to_vectors(matrices: Array) -> Array:
    """``svec`` of a stack of symmetric matrices."""
    upper = np.triu_indices(matrices.shape[-1])
    return np.asarray(matrices[..., upper[0], upper[1]] * _weights(matrices.shape[-1]))


def to_matrices(vectors: Array) -> Array:
    """Undo `to_vectors`."""
    order = int((np.sqrt(8 * vectors.shape[-1] + 1) - 1) / 2)
    upper = np.triu_indices(order)
    matrices = np.zeros((*vectors.shape[:-1], order, order))
    matrices[..., upper[0], upper[1]] = vectors / _weights(order)
    matrices[..., upper[1], upper[0]] = matrices[..., upper[0], upper[1]]
    return matrices


def _weights(order: int) -> Array:
    rows, columns = np.triu_indices(order)
    return np.where(rows == columns, 1.0, np.sqrt(2.0))


@dataclass(frozen=True)
class LargeMarginObjective:
    """``L(W) = weight * sum_i loss(scores of row i)`` for ellipsoids W in svec coordinates.

    rows (n_rows, order): Extended rows a.
    own (n_rows,): The ellipsoid that each row belongs to.
    n_ellipsoids: Rows of W.
    loss: What the scores of a row cost.
    weight: 1 for the sum over rows, 1 / n_rows for the mean.
    """

    rows: Any = field(repr=False)
    own: Codes = field(repr=False)
    n_ellipsoids: int
    loss: MarginLoss
    weight: float = 1.0

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of W."""
        order = self.rows.shape[1]
        return self.n_ellipsoids, order * (order + 1) // 2

    @cached_property
    def _kept(self) -> list[Array] | None:
        if len(self.rows) * self.shape[1] > MAX_CACHED:
            return None
        starts = range(0, len(self.rows), BLOCK)
        return [quadratic_features(self.rows[start : start + BLOCK]) for start in starts]

    def _blocks(self) -> Iterator[tuple[Array, Codes]]:
        kept = self._kept
        for number, start in enumerate(range(0, len(self.rows), BLOCK)):
            part = slice(start, start + BLOCK)
            features = quadratic_features(self.rows[part]) if kept is None else kept[number]
            yield features, self.own[part]

    def value_and_gradient(self, W: Array) -> tuple[float, Array]:
        """L and its gradient."""
        values: list[float] = []

        def gradients() -> Iterator[Array]:
            for features, own in self._blocks():
                value, slopes = self.loss.value_and_slopes(features @ W.T, own)
                values.append(value)
                yield slopes.T @ features

        gradient = self.weight * self._added(gradients())
        return self.weight * math.fsum(values), gradient

    def gradient(self, W: Array) -> Array:
        """Gradient of L."""
        return self.value_and_gradient(W)[1]

    def curved(self, W: Array, V: Array) -> Array:
        """Hessian of L at W times V (a generalised one where the loss has a kink in its slope)."""
        products = (
            self.loss.curved(features @ W.T, own, features @ V.T).T @ features
            for features, own in self._blocks()
        )
        return self.weight * self._added(products)

    def _added(self, parts: Iterator[Array]) -> Array:
        """Add up in two levels."""
        total = np.zeros(self.shape)
        while group := list(islice(parts, GROUP)):
            total += sum(group)
        return total


# Solvers ------------------------------------------------------------------------------------------


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
        return MarginLimits(self.loss, self.n_ellipsoids, len(self.rows), self.shape[1])


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
    def size(self) -> int:
        """Numbers of all matrices."""
        return self.n_classes * self.n_features

    def sensitivity(self, relation: Relation) -> float:
        """Largest change of the joint gradient over all classes, C of them.

        The own class has the slope ``sum g_c``, the others ``-g_c``, ``0 <= g_c <= 1``. A
        record is worth ``√(C(C-1))`` at most; replacing it moves the gradient by ``√2 C`` at most,
        attained by the same row with another label where all slopes are 1.
        """
        if relation is Relation.REPLACE_ONE:
            return math.sqrt(2) * self.n_classes
        return math.sqrt(self.n_classes * (self.n_classes - 1))

    def dimension(self, relation: Relation) -> int:
        """Dimension of a space that holds the change: ``C - 1`` for each record that changes."""
        return (2 if relation is Relation.REPLACE_ONE else 1) * (self.n_classes - 1)

    def log_determinant(self, convexity: float) -> float:
        """Largest ``log det(I + Hess l / Λ)`` of one record, its Hessian ``H ⊗ vec(A) vec(A)ᵀ``.

        H is at most w times the Laplacian of a star of C classes, w the largest curvature:
        eigenvalues ``w C``, ``w`` (C - 2 times) and 0.
        """
        share = self.loss.max_curvature / convexity
        return math.log1p(self.n_classes * share) + (self.n_classes - 2) * math.log1p(share)

    @property
    def slopes(self) -> float:
        """Largest norm of a gradient: each row has slopes of length ``√(C(C-1))`` at most."""
        return math.sqrt(self.n_classes * (self.n_classes - 1)) * self.n_rows

    @property
    def at_zero(self) -> float:
        """Sum of the losses where all matrices are zero."""
        equal = np.array([self.loss.margin])  # against one other class, all scores equal
        return (
            self.n_rows * (self.n_classes - 1) * float(_rounded_hinge(equal, self.loss.width)[0][0])
        )

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

    def by_factors(factors: Array) -> tuple[float, Array]:
        value, gradient = smooth(to_vectors(factors @ np.swapaxes(factors, -1, -2)))
        return value, 2 * to_matrices(gradient) @ factors

    best, n_iter = descend(by_factors, factors, tolerance=tolerance, max_iter=max_iter)
    return to_vectors(best @ np.swapaxes(best, -1, -2)), n_iter


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


# Answers ------------------------------------------------------------------------------------------


class EllipsoidAnswers:
    """What classifiers answer from the distances of a row to their ellipsoids."""

    classes_: NDArray[Any]
    matrices_: Array

    def _scaled_rows(self, X: ArrayLike) -> Array:
        """Return rows in the coordinates of the ellipsoids."""
        raise NotImplementedError

    def distances(self, X: ArrayLike) -> Array:
        """Return the score of each row and class; the least wins.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            One distance a class.
        """
        features = quadratic_features(extended(self._scaled_rows(X)))
        scores = np.asarray(features @ to_vectors(self.matrices_).T)
        return np.asarray(scores.reshape(len(scores), len(self.classes_), -1).min(axis=2))

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
