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
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh
from scipy.optimize import minimize
from scipy.special import expit, softmax

from sfumato.core.memory import WORKING_SET

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
    """A smooth loss of several scores a row; gradients have a length of at most `lipschitz`."""

    @property
    def lipschitz(self) -> float: ...

    @property
    def smoothness(self) -> float: ...

    def value_and_slope(self, scores: Array, codes: NDArray[np.intp]) -> tuple[Array, Array]:
        """Return the loss and the gradient of each row."""


def gradient_rounding(smoothness: float, regularization: float) -> float:
    """Return the rounding error of a computed gradient, from public numbers.

    A minimiser has at most the norm ``1/√λ`` or so; its scores carry that times `ROUNDING`, and
    slopes carry that times β.
    """
    return ROUNDING * (1 + smoothness / math.sqrt(regularization))


@dataclass(frozen=True)
class Objective:
    """P, by `slope`, from scores of the rows at a place (a slice) to slopes of the same shape."""

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
    """Minimise ``(1/n) sum loss + λ |w|²`` to a gap of `tolerance`: Newton, exact line search."""
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
    return np.asarray(-basis @ within - _outside(basis, gradient) / ridge)


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


class ScoreLoss(ABC):
    """A loss of one score per row; labels are -1 and 1, targets lie in [-1, 1]."""

    lipschitz: ClassVar[float] = 1.0

    @property
    @abstractmethod
    def smoothness(self) -> float:
        """β, the largest second derivative."""

    @abstractmethod
    def slope(self, scores: Array, y: Array) -> Array:
        """Derivative."""

    @abstractmethod
    def curvature(self, scores: Array, y: Array) -> Array:
        """Second derivative, where there is one."""


@dataclass(frozen=True)
class HuberHingeLoss(ScoreLoss):
    """Zero beyond ``1 + h``, linear below ``1 - h``, a parabola between; h is `band`.

    It exceeds the hinge ``max(0, 1 - y t)`` by at most ``h/4``.
    """

    band: float = 0.5

    @property
    def smoothness(self) -> float:
        """``1/2h``."""
        return 1 / (2 * self.band)

    def slope(self, scores: Array, y: Array) -> Array:
        """``-y clip((1 + h - y t) / 2h, 0, 1)``."""
        return -y * np.clip((1 + self.band - y * scores) / (2 * self.band), 0.0, 1.0)

    def curvature(self, scores: Array, y: Array) -> Array:
        """``1/2h`` inside the band."""
        return _inside((1 + self.band - y * scores) / (2 * self.band), 0.0, 1.0) * self.smoothness


class LogisticLoss(ScoreLoss):
    """``log(1 + exp(-y t))``."""

    @property
    def smoothness(self) -> float:
        """One quarter."""
        return 0.25

    def slope(self, scores: Array, y: Array) -> Array:
        """``-y / (1 + exp(y t))``."""
        return np.asarray(-y * expit(-y * scores))

    def curvature(self, scores: Array, y: Array) -> Array:  # noqa: ARG002
        """Product of the two probabilities."""
        return np.asarray(expit(scores) * expit(-scores))


@dataclass(frozen=True)
class ScoreHuberLoss(ScoreLoss):
    """``r²/2b`` for residuals within b = `band`, ``|r| - b/2`` beyond."""

    band: float = 0.1

    @property
    def smoothness(self) -> float:
        """``1/b``."""
        return 1 / self.band

    def slope(self, scores: Array, y: Array) -> Array:
        """``clip(r / b, -1, 1)``."""
        return np.asarray(np.clip((scores - y) / self.band, -1.0, 1.0))

    def curvature(self, scores: Array, y: Array) -> Array:
        """``1/b`` inside the band."""
        return _inside((scores - y) / self.band, -1.0, 1.0) * self.smoothness


@dataclass(frozen=True)
class InsensitiveLoss(ScoreLoss):
    """``max(0, |t - y| - b)``, b = `insensitive`, with parabolas within h = `band` of its kinks."""

    insensitive: float = 0.1
    band: float = 0.02

    @property
    def smoothness(self) -> float:
        """``1/2h``."""
        return 1 / (2 * self.band)

    def slope(self, scores: Array, y: Array) -> Array:
        """``sign(r) clip((|r| - b + h) / 2h, 0, 1)``."""
        residual = scores - y
        return np.sign(residual) * np.clip(self._place(residual), 0.0, 1.0)

    def curvature(self, scores: Array, y: Array) -> Array:
        """``1/2h`` while the slope moves."""
        return _inside(self._place(scores - y), 0.0, 1.0) * self.smoothness

    def _place(self, residual: Array) -> Array:
        return (np.abs(residual) - self.insensitive + self.band) / (2 * self.band)


# Several scores a row -----------------------------------------------------------------------------


class ScoreSoftmaxLoss:
    """``log sum_c exp(t_c) - t_y``: √2-Lipschitz in the vector of scores."""

    lipschitz = float(np.sqrt(2))
    smoothness = 0.5  # largest eigenvalue of diag(p) - p pᵀ

    def value_and_slope(self, scores: Array, codes: NDArray[np.intp]) -> tuple[Array, Array]:
        """Loss and gradient of each row; gradients are ``softmax(t) - e_y``."""
        own = scores[np.arange(len(codes)), codes]
        top = scores.max(axis=1, keepdims=True)
        values = np.log(np.exp(scores - top).sum(axis=1)) + top[:, 0] - own
        slopes = softmax(scores, axis=1)
        slopes[np.arange(len(codes)), codes] -= 1
        return values, slopes


@dataclass(frozen=True)
class SmoothMaxHingeLoss:
    """Hinge of the best wrong score, smoothed: ``max_p p.z - w |p|²/2 - t_y``, p in the simplex.

    ``z_c = t_c + 1`` for the wrong classes and ``t_y`` for the right one. √2-Lipschitz in the
    vector of scores, because its gradient is ``p - e_y``.
    """

    band: float = 0.5
    lipschitz: ClassVar[float] = float(np.sqrt(2))

    @property
    def smoothness(self) -> float:
        """``1/w``: the projection onto a convex set shortens distances."""
        return 1 / self.band

    def value_and_slope(self, scores: Array, codes: NDArray[np.intp]) -> tuple[Array, Array]:
        """Loss and gradient of each row."""
        rows = np.arange(len(codes))
        raised = scores + 1
        raised[rows, codes] -= 1
        weights = _onto_simplex(raised / self.band)
        values = np.sum(weights * raised, axis=1) - self.band / 2 * np.sum(weights**2, axis=1)
        values = values - scores[rows, codes]
        weights[rows, codes] -= 1
        return values, weights


def _onto_simplex(points: Array) -> Array:
    """Nearest point of the probability simplex to each row."""
    ordered = -np.sort(-points, axis=1)
    count = np.arange(1, points.shape[1] + 1)
    shift = (np.cumsum(ordered, axis=1) - 1) / count
    kept = (ordered > shift).sum(axis=1)
    return np.asarray(np.maximum(points - shift[np.arange(len(points)), kept - 1][:, None], 0.0))


def _inside(values: Array, low: float, high: float) -> Array:
    return ((values > low) & (values < high)).astype(np.float64)


KEPT = WORKING_SET * 3 // 32  # numbers of features that are kept; more are computed anew
BLOCK = 2**20  # numbers of a block


class FeatureRows:
    """``Φ``, of shape (n, m), by blocks of rows, as a matrix that need not exist.

    Up to `KEPT` numbers are kept; beyond, blocks are computed anew on every pass. Every product is
    taken block by block either way, so that both give the same numbers.
    """

    def __init__(self, rows: Array, transform: Callable[[Array], Array], size: int) -> None:
        self.shape = len(rows), size
        self._rows, self._transform = rows, transform
        self._step = max(1, BLOCK // size)
        self._kept: list[Array] | None = None
        if len(rows) * size <= KEPT:
            self._kept = [block for _, block in self.blocks()]

    @classmethod
    def of(cls, features: Array | FeatureRows) -> FeatureRows:
        """Return a matrix that exists as one of this kind."""
        if isinstance(features, FeatureRows):
            return features
        return cls(features, lambda block: block, features.shape[1])

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

    def gram(self) -> Array:
        """Return ``ΦᵀΦ``."""
        total = np.zeros((self.shape[1], self.shape[1]))
        for _, block in self.blocks():
            total += block.T @ block
        return total

    def sum_of_squares(self) -> float:
        """Return ``||Φ||²`` in the Frobenius norm."""
        return float(sum(np.vdot(block, block) for _, block in self.blocks()))

    def take(self, chosen: NDArray[np.bool_]) -> Array:
        """Return some of the rows."""
        parts = [block[chosen[part]] for part, block in self.blocks()]
        return np.concatenate(parts) if parts else np.empty((0, self.shape[1]))
