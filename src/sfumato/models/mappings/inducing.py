"""Inducing points: centroids of k-means, and how many of them (Algorithm 1, steps 3 to 8)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from sfumato.core.arrays import Array, like, namespace_of

NU = 2.1  # degrees of freedom (52)
LLOYD_ITERATIONS = 10
JITTER, MAX_JITTER = 1e-10, 1e-2
# Where the search of the first layer begins, as a place in the list of sizes: 0.9**8 = 0.43.
# With many inputs all points are far apart and tau is large at once.
FIRST_GUESS, FEW_INPUTS = 8, 30


class Inducing(NamedTuple):
    """Inducing points a with ``K_aa = L Lᵀ``, ``H = L⁻¹ K_xaᵀ`` and ``tau(M, 1)`` (54)."""

    points: Array  # M x n
    inverse_factor: Array  # L⁻¹, M x M
    whitened: Array  # H, M x N
    tau: float


def cross_kernel(x: Array, centres: Array) -> Array:
    """``exp(-|x_i - a_j|² / 2)``; the weights w of equation (17) are in the coordinates."""
    xp = namespace_of(x)
    exponents = x @ xp.matrix_transpose(centres)
    exponents -= xp.vecdot(centres, centres)[None, :] / 2
    exponents -= xp.vecdot(x, x)[:, None] / 2
    # Rounding may leave a hair above zero where a point meets a centre.
    return xp.exp(xp.clip(exponents, max=0.0))


def centroids(x: Array, n_points: int, seed: int) -> Array:
    """Return the centroids of k-means (51), started at random rows, the same for equal arguments.

    Half to a fifth of the rows become centroids, so that a few iterations settle them.
    """
    xp = namespace_of(x)
    order = check_random_state(seed).permutation(int(x.shape[0]))
    centres = xp.take(x, like(x, order[:n_points]), axis=0)
    numbers = xp.arange(n_points, device=x.device)[:, None]
    last = None
    for _ in range(LLOYD_ITERATIONS):
        # |x|² is the same for all centres.
        distances = xp.vecdot(centres, centres)[None, :] / 2 - x @ xp.matrix_transpose(centres)
        nearest = xp.argmin(distances, axis=1)
        if last is not None and bool(xp.all(nearest == last)):
            break
        last = nearest
        members = xp.astype(numbers == nearest[None, :], x.dtype)
        counts = xp.sum(members, axis=1)[:, None]
        centres = xp.where(counts > 0, members @ x / xp.clip(counts, min=1.0), centres)
    return centres


def choose_inducing(
    x: Array, scale: Array, max_points: int, *, kappa: float, seed: int, first_layer: bool
) -> Inducing:
    """Return the most inducing points, down the list of `sizes_below`, with ``tau >= kappa``.

    `x` are the inputs around their mean; `scale` the factors that give the kernel its weights. As
    in (51), k-means sees the inputs without those weights.

    The printed loop walks down the list; tau grows as M falls, so that galloping away from a guess
    and halving the gap finds the same place after a few trials.
    """
    sizes = sizes_below(max_points)
    tried: dict[int, Inducing] = {}

    def passes(place: int) -> bool:
        tried[place] = _inducing(x, scale, sizes[place], seed)
        return tried[place].tau >= kappa or place == len(sizes) - 1

    far = first_layer and x.shape[1] <= FEW_INPUTS
    guess = min(FIRST_GUESS if far else 0, len(sizes) - 1)
    low, high = _gallop(passes, guess, len(sizes))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return tried[high]


def _gallop(passes: Callable[[int], bool], guess: int, n_places: int) -> tuple[int, int]:
    """Return places (a, b) such that a fails (-1: nothing does) and b passes."""
    step = 1
    if passes(guess):
        high = guess
        while high > 0:
            low = max(high - step, 0)
            if not passes(low):
                return low, high
            high, step = low, 2 * step
        return -1, high
    low = guess
    while True:
        high = min(low + step, n_places - 1)
        if passes(high):
            return low, high
        low, step = high, 2 * step


def sizes_below(max_points: int) -> list[int]:
    """List ``M_0 = max_points, M_{i+1} = ceil(0.9 M_i)``, down to 1.

    As printed the list never gets below 9, since ``ceil(0.9 · 9) = 9``: from there on go down by 1.
    """
    sizes = [max_points]
    while sizes[-1] > 1:
        sizes.append(min(math.ceil(0.9 * sizes[-1]), sizes[-1] - 1))
    return sizes


def _inducing(x: Array, scale: Array, n_points: int, seed: int) -> Inducing:
    points = centroids(x, n_points, seed) * scale
    inverse_factor = _inverse_cholesky(cross_kernel(points, points))
    whitened = inverse_factor @ cross_kernel(points, x * scale)
    xp = namespace_of(x)
    unexplained = x.shape[0] - float(xp.sum(whitened * whitened))
    return Inducing(points, inverse_factor, whitened, unexplained / (NU + n_points - 2))


def _inverse_cholesky(kernel: Array) -> Array:
    """Return ``L⁻¹``; few coordinates make the kernel singular, so it gets a small diagonal."""
    xp = namespace_of(kernel)
    identity = xp.eye(kernel.shape[0], dtype=kernel.dtype, device=kernel.device)
    jitter = JITTER
    while True:
        try:
            return xp.linalg.inv(xp.linalg.cholesky(kernel + jitter * identity))
        except (np.linalg.LinAlgError, RuntimeError):  # PyTorch's error is a RuntimeError
            jitter *= 10
            if jitter > MAX_JITTER:
                raise
