"""Regularised minimisers with a certificate of how near they are.

``P(w) = (1/n) sum_i loss(w.phi_i, y_i) + λ |w|²`` is 2λ-strongly convex, hence

``|w - argmin P| <= |grad P(w)| / 2λ`` and ``P(w) - min P <= |grad P(w)|² / 4λ``,

the gap. A solver that gave up would reveal something of the rows for which nothing was paid. Here
none can: a quick method comes first, and where it does not arrive, accelerated gradient steps do,
after at most ``2 + √κ log(18 κ² gap / tolerance)`` of them, κ the smoothness of P over its strong
convexity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.optimize import minimize

from sfumato.core.memory import WORKING_SET

Array = NDArray[np.float64]

SAMPLE = 2**13  # rows by whose Hessian coordinates are chosen
COARSER = 8  # times the rows has each further sample, an eighth of all at most
MAX_ROUNDS, MAX_STEPS = 20, 50  # choices of coordinates, and steps in each
SAMPLE_GAP = 1e4  # times the tolerance, to which the sample alone is minimised
ROUNDING = 2.0**-46  # of a product with up to thousands of terms, with room
KEPT = WORKING_SET * 3 // 32  # numbers of features that are kept; more are computed anew
BLOCK = 2**20  # numbers of a block


@dataclass(frozen=True)
class Minimiser:
    """A point, what its objective exceeds the minimum by, at most, and its value and gradient."""

    coefficients: Array
    gap: float
    value: float
    gradient: Array


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

    def every(self, stride: int) -> FeatureRows:
        """Return each `stride`-th row."""
        return FeatureRows(self._rows[::stride], self._transform, self.shape[1])


@dataclass(frozen=True)
class Objective:
    """P, by a loss of scores and what belongs to the rows: labels, targets or class codes."""

    features: FeatureRows
    y: NDArray[Any]
    loss: Any
    regularization: float
    n_rows: int

    def value_and_gradient(self, w: Array) -> tuple[float, Array]:
        """Return P and its gradient, in one pass."""
        value, total = 0.0, np.zeros(w.shape)
        for part, block in self.features.blocks():
            values, slopes = self.loss.value_and_slope(block @ w, self.y[part])
            value += float(values.sum())
            total += block.T @ slopes
        value = value / self.n_rows + self.regularization * float(np.sum(w**2))
        return value, total / self.n_rows + 2 * self.regularization * w

    def hessian(self, w: Array) -> Array:
        """Return the Hessian of P, of losses of several scores a bound on it for one score."""
        m = self.features.shape[1]
        gram = np.diag(np.full(m, 2 * self.regularization))
        for part, block in self.features.blocks():
            curvatures = self.loss.curvature(block @ w, self.y[part]) / self.n_rows
            bent = block[curvatures > 0] * np.sqrt(curvatures[curvatures > 0])[:, None]
            gram += bent.T @ bent
        return gram

    def at(self, w: Array) -> Minimiser:
        """Return a point with the certified excess of P there."""
        value, gradient = self.value_and_gradient(w)
        return Minimiser(w, float(np.sum(gradient**2)) / (4 * self.regularization), value, gradient)


def minimise(
    features: Array | FeatureRows,
    y: NDArray[Any],
    loss: Any,
    *,
    regularization: float,
    tolerance: float,
    n_classes: int = 0,
) -> Minimiser:
    """Minimise ``(1/n) sum loss + λ |w|²`` to a gap of `tolerance`, first on samples of the rows.

    For a loss of all class scores, y are codes, and there is one column of weights per class.
    """
    rows = features if isinstance(features, FeatureRows) else FeatureRows(features)
    n = len(y)
    whole = few = Objective(rows, y, loss, regularization, n)
    start = np.zeros((rows.shape[1], n_classes) if n_classes else rows.shape[1])
    stride = max(1, -(-n // SAMPLE))
    while stride > 1:
        few = Objective(rows.every(stride), y[::stride], loss, regularization, n // stride)
        start = _descended(few, few, few.at(start), SAMPLE_GAP * tolerance).coefficients
        stride = stride // COARSER if stride >= COARSER**2 else 1
    found = _descended(whole, few, whole.at(start), tolerance)
    return found if found.gap <= tolerance else accelerated(whole, found, tolerance)


class _ArrivedError(Exception):
    """The tolerance is reached."""


def _descended(
    objective: Objective, curved: Objective, found: Minimiser, tolerance: float
) -> Minimiser:
    """Go on by L-BFGS, in coordinates in which the Hessian of `curved` is the identity."""

    def value_and_gradient(flat: Array, start: Array, upper: Array) -> tuple[float, Array]:
        nonlocal found
        w = start + solve_triangular(upper, flat.reshape(start.shape))
        is_known = found.coefficients is start and not flat.any()  # where a round begins
        here = found if is_known else objective.at(w)
        found = min(found, here, key=attrgetter("gap"))
        if found.gap <= tolerance:
            raise _ArrivedError
        return here.value, solve_triangular(upper, here.gradient, trans=1).ravel()

    options = {"maxiter": MAX_STEPS, "gtol": 0.0, "ftol": 0.0, "maxcor": 30}
    settings: Any = {"jac": True, "method": "L-BFGS-B", "options": options}
    # A tiny λ may be lost to rounding: then there is no factor.
    with suppress(_ArrivedError, LinAlgError):
        for _ in range(MAX_ROUNDS if found.gap > tolerance else 0):
            start = found.coefficients
            upper = cholesky(curved.hessian(start))
            # L-BFGS begins with a step of length 1: then it is Newton's.
            upper /= np.linalg.norm(solve_triangular(upper, found.gradient, trans=1))
            minimize(value_and_gradient, np.zeros(start.size), args=(start, upper), **settings)
    return found


def accelerated(objective: Objective, start: Minimiser, tolerance: float) -> Minimiser:
    """Go from `start` to a gap of `tolerance` by Nesterov's steps; how many is a theorem."""
    strong = 2 * objective.regularization
    squares = sum(float(np.vdot(block, block)) for _, block in objective.features.blocks())
    smooth = strong + objective.loss.smoothness * squares / objective.n_rows
    root = math.sqrt(smooth / strong)
    steps = 2 + math.ceil(root * max(math.log(18 * root**4 * start.gap / tolerance), 0.0))
    w = ahead = start.coefficients
    best = start
    for _ in range(steps):
        here = objective.at(ahead)
        best = min(best, here, key=attrgetter("gap"))
        if best.gap <= tolerance:
            break
        before, w = w, ahead - here.gradient / smooth
        ahead = w + (root - 1) / (root + 1) * (w - before)
    return best


# Losses of one score per row; labels are -1 and 1, targets lie in [-1, 1] -----------------------


class ScoreLoss:
    """A convex loss with slopes within 1.

    `value_and_slope` returns the loss of each row and its derivative, `curvature` the second one.
    """

    lipschitz: ClassVar[float] = 1.0
    smoothness: float  # β, the largest second derivative


class HuberHingeLoss(ScoreLoss):
    """Zero beyond ``1 + h``, linear below ``1 - h``, a parabola between; h is `band`.

    It exceeds the hinge ``max(0, 1 - y t)`` by at most ``h/4``.
    """

    def __init__(self, band: float = 0.5) -> None:
        self.band, self.smoothness = band, 1 / (2 * band)

    def value_and_slope(self, scores: Array, y: Array) -> tuple[Array, Array]:
        """The slope is ``-y clip((1 + h - y t) / 2h, 0, 1)``."""
        place = (1 + self.band - y * scores) / (2 * self.band)
        inside = np.clip(place, 0.0, 1.0)
        return self.band * (inside**2 + 2 * np.maximum(place - 1, 0.0)), -y * inside

    def curvature(self, scores: Array, y: Array) -> Array:
        """``1/2h`` inside the band."""
        place = (1 + self.band - y * scores) / (2 * self.band)
        return np.asarray(((place > 0) & (place < 1)) * self.smoothness, dtype=np.float64)


class ScoreHuberLoss(ScoreLoss):
    """``r²/2b`` for residuals within b = `band`, ``|r| - b/2`` beyond."""

    def __init__(self, band: float = 0.1) -> None:
        self.band, self.smoothness = band, 1 / band

    def value_and_slope(self, scores: Array, y: Array) -> tuple[Array, Array]:
        """The slope is ``clip(r / b, -1, 1)``."""
        place = (scores - y) / self.band
        inside = np.clip(place, -1.0, 1.0)
        return self.band * (inside**2 / 2 + np.abs(place - inside)), inside

    def curvature(self, scores: Array, y: Array) -> Array:
        """``1/b`` inside the band."""
        return np.asarray((np.abs((scores - y) / self.band) < 1) * self.smoothness)


class SmoothMaxHingeLoss(ScoreLoss):
    """Hinge of the best wrong score, smoothed: ``max_p p.z - w |p|²/2 - t_y``, p in the simplex.

    ``z_c = t_c + 1`` for the wrong classes and ``t_y`` for the right one. √2-Lipschitz in the
    vector of scores, because its gradient is ``p - e_y``; ``1/w``-smooth, because the projection
    onto a convex set shortens distances.
    """

    lipschitz = math.sqrt(2)

    def __init__(self, band: float = 0.5) -> None:
        self.band, self.smoothness = band, 1 / band

    def value_and_slope(self, scores: Array, y: Any) -> tuple[Array, Array]:
        """Project ``z/w`` onto the simplex for p."""
        rows = np.arange(len(y))
        raised = scores + 1
        raised[rows, y] -= 1
        points = raised / self.band
        ordered = -np.sort(-points, axis=1)
        shift = (np.cumsum(ordered, axis=1) - 1) / np.arange(1, points.shape[1] + 1)
        kept = (ordered > shift).sum(axis=1)
        weights = np.maximum(points - shift[rows, kept - 1][:, None], 0.0)
        values = np.sum(weights * raised, axis=1) - self.band / 2 * np.sum(weights**2, axis=1)
        values = values - scores[rows, y]
        weights[rows, y] -= 1
        return values, weights

    def curvature(self, scores: Array, y: Array) -> Array:  # noqa: ARG002
        """Return the largest that there is."""
        return np.full(len(y), self.smoothness)
