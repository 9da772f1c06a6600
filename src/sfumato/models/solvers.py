"""Regularised minimisers with a certificate of how near they are.

``P(w) = (1/n) sum_i loss(w.phi_i, y_i) + λ |w|²`` is 2λ-strongly convex, hence

``|w - argmin P| <= |grad P(w)| / 2λ`` and ``P(w) - min P <= |grad P(w)|² / 4λ``,

the gap. A solver that gave up would tell something of the rows that nobody paid for. Here none can:
a quick method comes first, and where it does not arrive, accelerated gradient steps do, after at
most ``2 + √κ log(18 κ² gap / tolerance)`` of them, κ the smoothness of P over its strong convexity.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh
from scipy.optimize import minimize
from scipy.special import expit, softmax

from sfumato.core.memory import WORKING_SET

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

MAX_NEWTON_STEPS = 100
MAX_RESTARTS = 3
DISCARDED = 1e-14  # share of the largest variance below which a direction counts as flat
ROUNDING = 2.0**-46  # of a product with up to thousands of terms, with room
KEPT = WORKING_SET * 3 // 32  # numbers of features that are kept; more are computed anew
BLOCK = 2**20  # numbers of a block
ALL = slice(None)


@dataclass(frozen=True)
class Minimiser:
    """A point and what its objective exceeds the minimum by, at most."""

    coefficients: Array
    gap: float


def gradient_rounding(smoothness: float, regularization: float) -> float:
    """Return the rounding error of a computed gradient, from public numbers.

    A minimiser has at most the norm ``1/√λ`` or so; its scores carry that times `ROUNDING`, and
    slopes carry that times β.
    """
    return ROUNDING * (1 + smoothness / math.sqrt(regularization))


class FeatureRows:
    """``Φ``, of shape (n, m), by blocks of rows, as a matrix that need not exist.

    Up to `KEPT` numbers are kept; beyond, blocks are computed anew on every pass. Every product is
    taken block by block either way, so that both give the same numbers.
    """

    def __init__(
        self, rows: Array, transform: Callable[[Array], Array] | None = None, size: int = 0
    ) -> None:
        self.shape = len(rows), size or rows.shape[1]
        self._rows, self._transform = rows, transform or (lambda block: block)
        self._step = max(1, BLOCK // self.shape[1])
        self._kept: list[Array] | None = None
        if math.prod(self.shape) <= KEPT:
            self._kept = [block for _, block in self.blocks()]

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Yield the rows in blocks, with their places."""
        for number, start in enumerate(range(0, self.shape[0], self._step)):
            part = slice(start, min(start + self._step, self.shape[0]))
            kept = self._kept
            yield part, self._transform(self._rows[part]) if kept is None else kept[number]

    def __matmul__(self, weights: Array) -> Array:
        product = np.empty((self.shape[0], *weights.shape[1:]))
        for part, block in self.blocks():
            product[part] = block @ weights
        return product

    def products(self, values: Array, weights: Array | None) -> tuple[Array, Array | None]:
        """Return ``Φᵀ values`` and, for weights, ``Φᵀ diag(weights) Φ``, in one pass.

        Weights are not negative, and many may be zero.
        """
        total = np.zeros(self.shape[1])
        gram = None if weights is None else np.zeros((self.shape[1], self.shape[1]))
        for part, block in self.blocks():
            total += block.T @ values[part]
            if weights is not None and gram is not None:
                active = weights[part] > 0
                bent = block[active] * np.sqrt(weights[part][active])[:, None]
                gram += bent.T @ bent
        return total, gram

    def take(self, chosen: NDArray[np.bool_]) -> Array:
        """Return some of the rows."""
        parts = [block[chosen[part]] for part, block in self.blocks()]
        return np.concatenate(parts) if parts else np.empty((0, self.shape[1]))

    def directions(self) -> tuple[Array, Array]:
        """Return squared lengths of the rows along orthonormal directions, where they have any.

        In all other directions P is as good as ``λ |w|²``.
        """
        n, m = self.shape
        if n == 0:
            return np.empty(0), np.empty((m, 0))
        every = np.full(n, True)
        rows = None if m <= n else self.take(every)
        gram: Any = self.products(np.zeros(n), np.ones(n))[1] if rows is None else rows @ rows.T
        values, vectors = eigh(gram)
        kept = values > DISCARDED * values[-1]
        basis = vectors[:, kept]
        return values[kept], np.asarray(basis if rows is None else np.linalg.qr(rows.T @ basis)[0])


@dataclass(frozen=True)
class Objective:
    """P, by `slope`, from scores of the rows at a place (a slice) to slopes of the same shape."""

    features: FeatureRows
    slope: Callable[[Array, slice], Array]
    smoothness: float
    regularization: float
    n_rows: int

    def gradient(self, w: Array) -> Array:
        """Return the gradient of P."""
        total = np.zeros(w.shape)
        for part, block in self.features.blocks():
            total += block.T @ self.slope(block @ w, part)
        return total / self.n_rows + 2 * self.regularization * w

    def gap(self, gradient: Array) -> float:
        """Return the certified excess of P at a point with this gradient."""
        return float(np.sum(gradient**2)) / (4 * self.regularization)


def minimise(
    features: Array | FeatureRows,
    y: Array,
    loss: ScoreLoss,
    *,
    regularization: float,
    tolerance: float,
    n_rows: int | None = None,
) -> Minimiser:
    """Minimise ``(1/n) sum loss + λ |w|²`` to a gap of `tolerance`: Newton, exact line search.

    Scores are carried along from step to step, and computed anew for the certificate.
    """
    rows = features if isinstance(features, FeatureRows) else FeatureRows(features)
    n, ridge = len(y) if n_rows is None else n_rows, 2 * regularization
    objective = Objective(
        rows, lambda t, part: loss.slope(t, y[part]), loss.smoothness, regularization, n
    )
    basis = rows.directions()[1]
    w, scores = np.zeros(rows.shape[1]), np.zeros(rows.shape[0])
    best = Minimiser(w, objective.gap(objective.gradient(w)))
    for _ in range(MAX_NEWTON_STEPS):
        curvatures = loss.curvature(scores, y) / n
        few = np.count_nonzero(curvatures) < basis.shape[1]
        total, gram = rows.products(loss.slope(scores, y), None if few else curvatures)
        gradient = total / n + ridge * w
        if objective.gap(gradient) <= tolerance:
            scores = rows @ w
            gradient = objective.gradient(w)
        best = min(best, Minimiser(w, objective.gap(gradient)), key=attrgetter("gap"))
        if best.gap <= tolerance:
            return best
        try:
            direction = _direction(objective, basis, curvatures, gram, gradient)
        except LinAlgError:  # a tiny λ, lost to rounding
            break
        along = rows @ direction
        step = _best_step(objective, w, scores, direction, along)
        w, scores = w + step * direction, scores + step * along
    return accelerated(objective, best, tolerance)


def minimise_jointly(
    features: Array | FeatureRows,
    codes: Codes,
    n_classes: int,
    loss: Any,
    *,
    regularization: float,
    tolerance: float,
    n_rows: int | None = None,
) -> Minimiser:
    """Minimise a smooth loss of all class scores together; one column of weights per class."""
    rows = features if isinstance(features, FeatureRows) else FeatureRows(features)
    n = len(codes) if n_rows is None else n_rows
    objective = Objective(
        rows,
        lambda scores, part: loss.value_and_slope(scores, codes[part])[1],
        loss.smoothness,
        regularization,
        n,
    )
    variances, basis = rows.directions()
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
        W = W - (gradient - basis @ (basis.T @ gradient)) / (2 * regularization)
        again = Minimiser(W, objective.gap(objective.gradient(W)))
        found = min(found, again, key=attrgetter("gap"))
    return found if found.gap <= tolerance else accelerated(objective, found, tolerance)


def accelerated(objective: Objective, start: Minimiser, tolerance: float) -> Minimiser:
    """Go from `start` to a gap of `tolerance` by Nesterov's steps; how many is a theorem."""
    strong = 2 * objective.regularization
    squares = sum(float(np.vdot(block, block)) for _, block in objective.features.blocks())
    smooth = strong + objective.smoothness * squares / objective.n_rows
    root = math.sqrt(smooth / strong)
    steps = 2 + math.ceil(root * max(math.log(18 * root**4 * start.gap / tolerance), 0.0))
    w = ahead = start.coefficients
    best = start
    for _ in range(steps):
        gradient = objective.gradient(ahead)
        here = Minimiser(ahead, objective.gap(gradient))
        best = min(best, here, key=attrgetter("gap"))
        if best.gap <= tolerance:
            break
        before, w = w, ahead - gradient / smooth
        ahead = w + (root - 1) / (root + 1) * (w - before)
    return best


def _direction(
    objective: Objective, basis: Array, curvatures: Array, gram: Array | None, gradient: Array
) -> Array:
    """Return Newton's direction where the rows vary, and the one of the ridge elsewhere."""
    ridge = 2 * objective.regularization
    right = basis.T @ gradient
    if gram is None:  # few rows: by the smaller of the two Gram matrices
        active = curvatures > 0
        B = objective.features.take(active) @ basis * np.sqrt(curvatures[active])[:, None]
        within = right / ridge
        if len(B):
            small = B @ B.T
            small[np.diag_indices_from(small)] += ridge
            within = (right - B.T @ cho_solve(cho_factor(small), B @ right)) / ridge
    else:
        curved = basis.T @ gram @ basis
        curved[np.diag_indices_from(curved)] += ridge
        within = cho_solve(cho_factor(curved), right)
    return np.asarray(-basis @ within - (gradient - basis @ right) / ridge)


def _best_step(
    objective: Objective, w: Array, scores: Array, direction: Array, along: Array
) -> float:
    """Return the step to the minimum along a direction, to 1e-3; 1 if it will do."""

    def derivative(step: float) -> float:  # increases, and is negative at 0
        ridge = 2 * objective.regularization * (direction @ (w + step * direction))
        return float(objective.slope(scores + step * along, ALL) @ along / objective.n_rows + ridge)

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


# Losses of one score per row; labels are -1 and 1, targets lie in [-1, 1] -----------------------


class ScoreLoss(ABC):
    """A convex loss, by its derivative and, where there is one, the second; slopes within 1."""

    lipschitz: ClassVar[float] = 1.0
    smoothness: float  # β, the largest second derivative

    @abstractmethod
    def slope(self, scores: Array, y: Array) -> Array:
        """Return the derivative."""

    @abstractmethod
    def curvature(self, scores: Array, y: Array) -> Array:
        """Return the second derivative."""


class LogisticLoss(ScoreLoss):
    """``log(1 + exp(-y t))``."""

    smoothness = 0.25

    def slope(self, scores: Array, y: Array) -> Array:
        """``-y / (1 + exp(y t))``."""
        return np.asarray(-y * expit(-y * scores))

    def curvature(self, scores: Array, y: Array) -> Array:  # noqa: ARG002
        """Product of the two probabilities."""
        return np.asarray(expit(scores) * expit(-scores))


class HuberHingeLoss(ScoreLoss):
    """Zero beyond ``1 + h``, linear below ``1 - h``, a parabola between; h is `band`.

    It exceeds the hinge ``max(0, 1 - y t)`` by at most ``h/4``.
    """

    def __init__(self, band: float = 0.5) -> None:
        self.band, self.smoothness = band, 1 / (2 * band)

    def slope(self, scores: Array, y: Array) -> Array:
        """``-y clip((1 + h - y t) / 2h, 0, 1)``."""
        return -y * np.clip((1 + self.band - y * scores) / (2 * self.band), 0.0, 1.0)

    def curvature(self, scores: Array, y: Array) -> Array:
        """``1/2h`` inside the band."""
        place = (1 + self.band - y * scores) / (2 * self.band)
        return np.asarray(((place > 0) & (place < 1)) * self.smoothness, dtype=np.float64)


class ScoreHuberLoss(ScoreLoss):
    """``r²/2b`` for residuals within b = `band`, ``|r| - b/2`` beyond."""

    def __init__(self, band: float = 0.1) -> None:
        self.band, self.smoothness = band, 1 / band

    def slope(self, scores: Array, y: Array) -> Array:
        """``clip(r / b, -1, 1)``."""
        return np.asarray(np.clip((scores - y) / self.band, -1.0, 1.0))

    def curvature(self, scores: Array, y: Array) -> Array:
        """``1/b`` inside the band."""
        return np.asarray((np.abs((scores - y) / self.band) < 1) * self.smoothness)


# Losses of several scores per row: `value_and_slope` returns loss and gradient of each row ------


class ScoreSoftmaxLoss:
    """``log sum_c exp(t_c) - t_y``: √2-Lipschitz in the vector of scores."""

    lipschitz = float(np.sqrt(2))
    smoothness = 0.5  # largest eigenvalue of diag(p) - p pᵀ

    def value_and_slope(self, scores: Array, codes: Codes) -> tuple[Array, Array]:
        """Gradients are ``softmax(t) - e_y``."""
        own = scores[np.arange(len(codes)), codes]
        top = scores.max(axis=1, keepdims=True)
        values = np.log(np.exp(scores - top).sum(axis=1)) + top[:, 0] - own
        slopes = softmax(scores, axis=1)
        slopes[np.arange(len(codes)), codes] -= 1
        return values, slopes


class SmoothMaxHingeLoss:
    """Hinge of the best wrong score, smoothed: ``max_p p.z - w |p|²/2 - t_y``, p in the simplex.

    ``z_c = t_c + 1`` for the wrong classes and ``t_y`` for the right one. √2-Lipschitz in the
    vector of scores, because its gradient is ``p - e_y``; ``1/w``-smooth, because the projection
    onto a convex set shortens distances.
    """

    lipschitz = float(np.sqrt(2))

    def __init__(self, band: float = 0.5) -> None:
        self.band, self.smoothness = band, 1 / band

    def value_and_slope(self, scores: Array, codes: Codes) -> tuple[Array, Array]:
        """Project ``z/w`` onto the simplex for p."""
        rows = np.arange(len(codes))
        raised = scores + 1
        raised[rows, codes] -= 1
        points = raised / self.band
        ordered = -np.sort(-points, axis=1)
        shift = (np.cumsum(ordered, axis=1) - 1) / np.arange(1, points.shape[1] + 1)
        kept = (ordered > shift).sum(axis=1)
        weights = np.maximum(points - shift[rows, kept - 1][:, None], 0.0)
        values = np.sum(weights * raised, axis=1) - self.band / 2 * np.sum(weights**2, axis=1)
        values = values - scores[rows, codes]
        weights[rows, codes] -= 1
        return values, weights
