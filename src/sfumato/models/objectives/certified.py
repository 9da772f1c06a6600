"""Regularised minimisers with a certificate of how near they are.

``P(w) = (1/n) sum_i loss(w.phi_i, y_i) + λ |w|²`` is 2λ-strongly convex, hence

``|w - argmin P| <= |grad P(w)| / 2λ`` and ``P(w) - min P <= |grad P(w)|² / 4λ``,

the gap. A solver that gave up would tell something of the rows that nobody paid for. Here none can:
a quick method comes first, and where it does not arrive, accelerated gradient steps do, after at
most ``2 + √κ log(18 κ² gap / tolerance)`` of them, κ the smoothness of P over its strong convexity.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh
from scipy.optimize import minimize

from sfumato.models.objectives.feature_rows import FeatureRows
from sfumato.models.objectives.score_losses import ScoreLoss

Array = NDArray[np.float64]

MAX_NEWTON_STEPS = 100
MAX_RESTARTS = 3
ALL = slice(None)
DISCARDED = 1e-14  # share of the largest variance below which a direction counts as flat
ROUNDING = 2.0**-46  # of a product with up to thousands of terms, with room


@dataclass(frozen=True)
class Minimiser:
    """A point and what its objective exceeds the minimum by, at most."""

    coefficients: Array
    gap: float


class VectorLoss(Protocol):
    """A smooth loss of several scores a row."""

    @property
    def lipschitz(self) -> float:
        """Bound of the gradient's length."""

    @property
    def smoothness(self) -> float:
        """Bound of the eigenvalues of the second derivative."""

    def value_and_slope(self, scores: Array, codes: NDArray[np.intp]) -> tuple[Array, Array]:
        """Loss and gradient of each row."""


def gradient_rounding(smoothness: float, regularization: float) -> float:
    """Return the rounding error of a computed gradient, from public numbers.

    A minimiser has at most the norm ``1/√λ`` or so; its scores carry that times `ROUNDING`, and
    slopes carry that times β.
    """
    return ROUNDING * (1 + smoothness / math.sqrt(regularization))


@dataclass(frozen=True)
class Objective:
    """P, by the slopes of its loss at the scores of all rows.

    features: (n, m).
    slope: From scores of the rows at a place (a slice) to slopes, of the same shape.
    smoothness: β of the loss.
    n_rows: The divisor.
    """

    features: FeatureRows
    slope: Callable[[Array, slice], Array]
    smoothness: float
    regularization: float
    n_rows: int

    def gradient(self, w: Array, scores: Array | None = None) -> Array:
        """Return the gradient of P."""
        total = np.zeros(w.shape)
        for part, block in self.features.blocks():
            found = block @ w if scores is None else scores[part]
            total += block.T @ self.slope(found, part)
        return total / self.n_rows + 2 * self.regularization * w

    def gap(self, gradient: Array) -> float:
        """Return the certified excess of P at a point with this gradient."""
        return float(np.sum(gradient**2)) / (4 * self.regularization)


def accelerated(objective: Objective, start: Minimiser, tolerance: float) -> Minimiser:
    """Go from `start` to a gap of `tolerance` by Nesterov's steps; how many is a theorem."""
    strong = 2 * objective.regularization
    variance = objective.features.sum_of_squares() / objective.n_rows
    smooth = strong + objective.smoothness * variance
    root = math.sqrt(smooth / strong)
    steps = 2 + math.ceil(root * max(math.log(18 * root**4 * start.gap / tolerance), 0.0))
    w = ahead = start.coefficients
    best = start
    for _ in range(steps):
        gradient = objective.gradient(ahead)
        best = min(best, Minimiser(ahead, objective.gap(gradient)), key=_gap)
        if best.gap <= tolerance:
            break
        before, w = w, ahead - gradient / smooth
        ahead = w + (root - 1) / (root + 1) * (w - before)
    return best


def minimise(
    features: Array | FeatureRows,
    y: Array,
    loss: ScoreLoss,
    *,
    regularization: float,
    tolerance: float,
    n_rows: int | None = None,
) -> Minimiser:
    """Minimise ``(1/n) sum loss + λ |w|²`` to a certified gap of `tolerance`.

    Newton's method with an exact line search.

    features: (n, m).
    y (n,): Labels -1 and 1, or targets.
    tolerance: The gap to reach, a public number.
    n_rows: The divisor n, where it is not the number of rows.
    """
    objective = Objective(
        FeatureRows.of(features),
        lambda scores, part: loss.slope(scores, y[part]),
        loss.smoothness,
        regularization,
        len(y) if n_rows is None else n_rows,
    )
    found = _newton(objective, lambda scores: loss.curvature(scores, y), tolerance)
    return found if found.gap <= tolerance else accelerated(objective, found, tolerance)


def minimise_jointly(
    features: Array | FeatureRows,
    codes: NDArray[np.intp],
    n_classes: int,
    loss: VectorLoss,
    *,
    regularization: float,
    tolerance: float,
    n_rows: int | None = None,
) -> Minimiser:
    """Minimise a smooth loss of all class scores together; one column of weights per class."""
    n = len(codes) if n_rows is None else n_rows
    rows = FeatureRows.of(features)
    objective = Objective(
        rows,
        lambda scores, part: loss.value_and_slope(scores, codes[part])[1],
        loss.smoothness,
        regularization,
        n,
    )
    variances, basis = _directions(rows)
    # In these coordinates the objective is about as curved in all directions.
    scaled = basis / np.sqrt(loss.smoothness * variances / n + 2 * regularization)
    shape = (basis.shape[1], n_classes)

    def value_and_gradient(flat: Array) -> tuple[float, Array]:
        W = scaled @ flat.reshape(shape)
        value, total = 0.0, np.zeros(W.shape)
        for part, block in rows.blocks():
            values, slopes = loss.value_and_slope(block @ W, codes[part])
            value += float(values.sum())
            total += block.T @ slopes
        gradient = scaled.T @ (total / n + 2 * regularization * W)
        return value / n + regularization * float(np.sum(W**2)), gradient.ravel()

    start = np.zeros((rows.shape[1], n_classes))
    found = Minimiser(start, objective.gap(objective.gradient(start)))
    flat = np.zeros(shape[0] * shape[1])
    for _ in range(MAX_RESTARTS):  # a restart forgets a curvature that rounding has spoilt
        if found.gap <= tolerance:
            return found
        options = {"maxiter": 5000, "maxfun": 10000, "gtol": 1e-14, "ftol": 1e-18, "maxcor": 30}
        flat = minimize(value_and_gradient, flat, jac=True, method="L-BFGS-B", options=options).x
        W = scaled @ flat.reshape(shape)
        gradient = objective.gradient(W)
        W = W - _outside(basis, gradient) / (2 * regularization)
        found = min(found, Minimiser(W, objective.gap(objective.gradient(W))), key=_gap)
    return found if found.gap <= tolerance else accelerated(objective, found, tolerance)


def _gap(found: Minimiser) -> float:
    return found.gap


def _newton(
    objective: Objective, curvature: Callable[[Array], Array], tolerance: float
) -> Minimiser:
    """Newton's steps from zero; the best point that was seen.

    Scores are carried along from step to step, and computed anew for the certificate.
    """
    features = objective.features
    basis = _directions(features)[1]
    w, scores = np.zeros(features.shape[1]), np.zeros(features.shape[0])
    best = Minimiser(w, objective.gap(objective.gradient(w, scores)))
    for _ in range(MAX_NEWTON_STEPS):
        curvatures = curvature(scores) / objective.n_rows
        few = np.count_nonzero(curvatures) < basis.shape[1]
        total, gram = features.products(objective.slope(scores, ALL), None if few else curvatures)
        gradient = total / objective.n_rows + 2 * objective.regularization * w
        if objective.gap(gradient) <= tolerance:
            scores = features @ w
            gradient = objective.gradient(w, scores)
        best = min(best, Minimiser(w, objective.gap(gradient)), key=_gap)
        if best.gap <= tolerance:
            break
        try:
            direction = _direction(objective, basis, curvatures, gram, gradient)
        except LinAlgError:  # a tiny λ, lost to rounding
            break
        along = features @ direction
        step = _best_step(objective, w, scores, direction, along)
        w, scores = w + step * direction, scores + step * along
    return best


def _directions(features: FeatureRows) -> tuple[Array, Array]:
    """Squared lengths of the rows along orthonormal directions, where they have any.

    In all other directions P is as good as ``λ |w|²``.
    """
    n, m = features.shape
    if n == 0:
        return np.empty(0), np.empty((m, 0))
    if m <= n:
        values, vectors = eigh(features.gram())
        kept = values > DISCARDED * values[-1]
        return values[kept], np.asarray(vectors[:, kept])
    rows = features.take(np.full(n, True))
    values, vectors = eigh(rows @ rows.T)
    kept = values > DISCARDED * values[-1]
    basis, _ = np.linalg.qr(rows.T @ vectors[:, kept])
    return values[kept], np.asarray(basis)


def _outside(basis: Array, vectors: Array) -> Array:
    return np.asarray(vectors - basis @ (basis.T @ vectors))


def _direction(
    objective: Objective, basis: Array, curvatures: Array, gram: Array | None, gradient: Array
) -> Array:
    """Newton's direction where the rows vary, and the one of the ridge elsewhere."""
    ridge = 2 * objective.regularization
    right = basis.T @ gradient
    if gram is None:  # few rows: by the smaller of the two Gram matrices
        active = curvatures > 0
        bent = objective.features.take(active) @ basis
        within = _solve_few(bent * np.sqrt(curvatures[active])[:, None], ridge, right)
    else:
        curved = basis.T @ gram @ basis
        curved[np.diag_indices_from(curved)] += ridge
        within = cho_solve(cho_factor(curved), right)
    return np.asarray(-basis @ within - _outside(basis, gradient) / ridge)


def _best_step(
    objective: Objective, w: Array, scores: Array, direction: Array, along: Array
) -> float:
    def derivative(step: float) -> float:
        ridge = 2 * objective.regularization * (direction @ (w + step * direction))
        return float(objective.slope(scores + step * along, ALL) @ along / objective.n_rows + ridge)

    return _root(derivative)


def _solve_few(B: Array, ridge: float, right: Array) -> Array:
    """``(BᵀB + ridge I)⁻¹ right`` for B of few rows."""
    if not len(B):
        return right / ridge
    gram = B @ B.T
    gram[np.diag_indices_from(gram)] += ridge
    return np.asarray((right - B.T @ cho_solve(cho_factor(gram), B @ right)) / ridge)


def _root(derivative: Callable[[float], float]) -> float:
    """Zero of an increasing function that is negative at 0, near 1 if possible; to 1e-3."""
    low, high = 0.0, 1.0
    while derivative(high) < 0 and high < 2.0**20:
        low, high = high, 2 * high
    if low == 0.0 and abs(derivative(1.0)) <= 1e-3 * abs(derivative(0.0)):
        return 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if derivative(middle) < 0 else (low, middle)
        if high - low <= 1e-3 * high:
            break
    return (low + high) / 2
