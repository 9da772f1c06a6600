"""Newton's method for linear scores, by Cholesky factors.

Minimises ``F(W) = sum_i loss(W a_i; y_i) + <B, W> + (lam/2) ||W||²``, which is strongly convex, so
that a small gradient is a certificate: ``||W - W*|| <= ||grad F(W)|| / lam``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from sfumato.papers.feddpdr.losses import curvatures, slopes, values
from sfumato.sums.gradients import HuberLoss

Array = NDArray[np.float64]

MAX_STEPS = 200
BLOCK = 4096  # rows whose share of a Hessian is added at once
MIN_STEP = 2.0**-30
ROUNDING = 2.0**-44
SUFFICIENT = 1e-4  # Armijo: the share of the promised decrease that must come


def in_doubles(rows: Any, targets: NDArray[Any]) -> Iterator[tuple[Array, Array]]:
    """Yield blocks of rows with their targets; nothing else is as long as the rows."""
    for start in range(0, len(rows), BLOCK):
        part = slice(start, start + BLOCK)
        yield rows[part].astype(np.float64, copy=False), targets[part].astype(np.float64)


def newton(
    loss: HuberLoss, rows: Any, targets: NDArray[Any], linear: Array, lam: float, tolerance: float
) -> Array:
    """Minimise F from zero to a gradient norm of `tolerance`, or as near as doubles allow.

    Rows (n, m), targets (n, n_scores), linear term B (n_scores, m).
    """
    if loss.n_scores > 1:  # a sum of losses of one score each
        single, share = replace(loss, n_classes=2), tolerance / math.sqrt(loss.n_scores)
        pairs = zip(targets.T, linear, strict=True)
        return np.concatenate(
            [newton(single, rows, y[:, None], b[None, :], lam, share) for y, b in pairs]
        )

    def value_and_gradient(weights: Array) -> tuple[float, Array]:
        value = float(np.vdot(linear + lam / 2 * weights, weights))
        gradient = linear + lam * weights
        for block, wanted in in_doubles(rows, targets):
            scores = block @ weights.T
            value += float(values(loss, scores, wanted).sum())
            gradient = gradient + slopes(loss, scores, wanted).T @ block
        return value, np.asarray(gradient)

    weights = np.zeros_like(linear)
    value, gradient = value_and_gradient(weights)
    for _ in range(MAX_STEPS):
        if float(np.linalg.norm(gradient)) <= tolerance:
            break
        hessian = lam * np.eye(gradient.size)
        for block, wanted in in_doubles(rows, targets):
            near = block[curvatures(loss, block @ weights.T, wanted)[:, 0] > 0]
            hessian += loss.max_curvature * (near.T @ near)
        try:
            factor = cho_factor(hessian, lower=True)
            direction = -cho_solve(factor, gradient.ravel()).reshape(gradient.shape)
        except (LinAlgError, ValueError):  # the Hessian is singular, or not finite, in doubles
            break
        slope = float(np.vdot(gradient, direction))
        length = 1.0
        while length > MIN_STEP:
            new = weights + length * direction
            new_value, gradient = value_and_gradient(new)
            # Near the minimum values differ by their rounding only; there full steps are right.
            if new_value <= value + SUFFICIENT * length * slope + ROUNDING * abs(value):
                break
            length /= 2
        weights, value = new, new_value
    return weights
