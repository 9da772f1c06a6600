"""The squared distance of two densities, from samples of both (least-squares density difference).

With Gaussian bumps at L centres c, ``g(x) = sum_l t_l exp(-||x - c_l||² / (2 s²))`` is fitted to
the difference of the densities f_a - f_b by ``t = (H + p I)⁻¹ h`` (Sugiyama et al. 2013), where

``H_lk = (pi s²)^(d/2) exp(-||c_l - c_k||² / (4 s²))`` and ``h = mean_a K(., c) - mean_b K(., c)``.

The squared L2 distance is ``2 t'h - t'Ht``, less its expectation from sampling noise alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from sfumato.exceptions import InvalidInputError

Array = NDArray[np.float64]

CENTRES = 300
FOLDS = 5
WIDTHS = 13  # from twice the typical distance down to 1/32 of it, each 1/√2 of the one before
MAX_WIDTH = 2.0
PENALTIES = np.logspace(-6, 0, 13)  # as shares of the largest eigenvalue of H
BLOCK = 256  # rows whose kernel values fit into the cache


@dataclass(frozen=True)
class DensityDifference:
    """The result of `density_difference`.

    value: Estimate of ``integral (f_a - f_b)²``; its unit is 1 / unit of the samples (to the power
        of their dimension). Corrected for sampling noise, so it may fall a little below zero.
    standard_error: Standard error of `value` from sampling.
    width, penalty: s and p, chosen by cross-validation.
    n_samples: Sizes of the two samples.
    centres, weights: c and t of the fitted difference.
    """

    value: float
    standard_error: float
    width: float
    penalty: float
    n_samples: tuple[int, int]
    centres: Array
    weights: Array

    def difference(self, x: ArrayLike) -> Array:
        """Return the fitted ``f_a(x) - f_b(x)``."""
        points = _samples("x", x)
        if points.shape[1] != self.centres.shape[1]:
            raise InvalidInputError(
                f"'x' must have {self.centres.shape[1]} numbers per point. Got {points.shape[1]}."
            )
        squares = _squared_distances(points, self.centres)
        return np.asarray(np.exp(-squares / (2 * self.width**2)) @ self.weights)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain JSON values."""
        return {
            "value": self.value,
            "standard_error": self.standard_error,
            "width": self.width,
            "n_samples": list(self.n_samples),
        }


def density_difference(
    a: ArrayLike, b: ArrayLike, *, n_centres: int = CENTRES, random_state: Any = 0
) -> DensityDifference:
    """Estimate ``integral (f_a - f_b)²`` from samples of both densities.

    Parameters
    ----------
    a, b : array-like of shape (n,) or (n, d)
        Samples, any number of them; at least 10 each.
    n_centres : int, default=300
        Most centres of the fit, drawn from both samples.
    random_state : int, RandomState or None, default=0
        For centres and folds.

    Returns
    -------
    DensityDifference
        With the estimate and its standard error.

    Notes
    -----
    Width and penalty are chosen by cross-validation in five folds. The estimate is corrected by
    the expectation of its own noise, ``trace((2A - AHA) Cov(h))`` with ``A = (H + pI)⁻¹``: without
    it, equal densities would show a positive distance. The time grows with the number of samples
    times `n_centres`.

    References
    ----------
    M. Sugiyama et al., Density-difference estimation, Neural Computation 25, 2013.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> found = density_difference(rng.normal(0, 1, 5000), rng.normal(1, 1, 5000))
    >>> bool(abs(found.value - 0.125) < 0.0125)  # the true value is 0.1248
    True
    """
    samples = [_samples("a", a), _samples("b", b)]
    if samples[0].shape[1] != samples[1].shape[1]:
        raise InvalidInputError("'a' and 'b' must have the same number of columns.")
    generator = check_random_state(random_state)
    centres = _choose_centres(samples, n_centres, generator)
    unit = _typical_distance(samples, centres)
    samples, centres = [each / unit for each in samples], centres / unit
    folds = [_folds(each, generator) for each in samples]
    width, penalty = _cross_validated(folds, centres)
    value, error, weights = _estimate(samples, centres, width, penalty)
    scale = unit ** samples[0].shape[1]
    return DensityDifference(
        value=value / scale,
        standard_error=error / scale,
        width=width * unit,
        penalty=penalty,
        n_samples=(len(samples[0]), len(samples[1])),
        centres=centres * unit,
        weights=weights / scale,
    )


def _samples(name: str, values: ArrayLike) -> Array:
    samples = np.asarray(values, dtype=np.float64)
    samples = samples[:, None] if samples.ndim == 1 else samples
    if samples.ndim != 2 or not np.isfinite(samples).all():
        raise InvalidInputError(f"'{name}' must contain finite numbers, in one or two dimensions.")
    if name != "x" and len(samples) < 2 * FOLDS:
        raise InvalidInputError(
            f"'{name}' must contain at least {2 * FOLDS} samples. Got {len(samples)} instead."
        )
    return samples


def _choose_centres(samples: list[Array], n_centres: int, generator: Any) -> Array:
    """Draw centres from both samples alike, so that a small one is not lost in a large one."""
    if not n_centres >= 2:
        raise InvalidInputError(f"'n_centres' must be at least 2. Got {n_centres} instead.")
    chosen = [
        each[generator.choice(len(each), min(len(each), n_centres // 2), replace=False)]
        for each in samples
    ]
    return np.unique(np.concatenate(chosen), axis=0)


def _typical_distance(samples: list[Array], centres: Array) -> float:
    """Median distance of centres: the unit in which widths are tried."""
    squares = _squared_distances(centres, centres)[np.triu_indices(len(centres), 1)]
    unit = math.sqrt(float(np.median(squares))) if squares.size else 0.0
    if not unit > 0:
        spread = max(float(np.ptp(each)) for each in samples)
        unit = spread if spread > 0 else 1.0
    return unit


def _squared_distances(x: Array, centres: Array) -> Array:
    squares = np.zeros((len(x), len(centres)))
    for column in range(x.shape[1]):  # differences, not products: no cancellation
        squares += (x[:, column, None] - centres[None, :, column]) ** 2
    return squares


def _folds(samples: Array, generator: Any) -> list[Array]:
    order = generator.permutation(len(samples))
    return [samples[part] for part in np.array_split(order, FOLDS)]


def _kernels(samples: Array, centres: Array) -> Iterator[Array]:
    """Yield the kernel values of all rows for one width after the other, a block of rows at a time.

    The next width is 1/√2 of the last, hence the next kernel the square of the last: one
    exponential serves all widths.
    """
    for start in range(0, len(samples), BLOCK):
        squares = _squared_distances(samples[start : start + BLOCK], centres)
        kernel = np.exp(squares * (-0.5 / MAX_WIDTH**2))
        for _ in range(WIDTHS):
            yield kernel
            np.multiply(kernel, kernel, out=kernel)


def _sums(samples: Array, centres: Array) -> Array:
    """Sum the kernel values over rows, for every width."""
    sums = np.zeros((WIDTHS, len(centres)))
    for i, kernel in enumerate(_kernels(samples, centres)):
        sums[i % WIDTHS] += np.ones(len(kernel)) @ kernel
    return sums


def _gram(centres: Array, width: float) -> Array:
    volume = (math.pi * width**2) ** (centres.shape[1] / 2)
    return np.asarray(volume * np.exp(_squared_distances(centres, centres) / (-4 * width**2)))


def _cross_validated(folds: list[list[Array]], centres: Array) -> tuple[float, float]:
    """Return width and penalty with the least held-out loss ``t'Ht - 2 t'h``."""
    sums = [np.stack([_sums(fold, centres) for fold in own]) for own in folds]
    sizes = [np.array([len(fold) for fold in own], dtype=float) for own in folds]
    best = (math.inf, MAX_WIDTH, 1.0)
    for i in range(WIDTHS):
        width = MAX_WIDTH * 2 ** (-i / 2)
        held = _means(sums, sizes, i)
        kept = _means([s.sum(0) - s for s in sums], [n.sum() - n for n in sizes], i)
        for loss, penalty in _losses(_gram(centres, width), kept, held):
            best = min(best, (loss, width, penalty))
    return best[1], best[2]


def _means(sums: list[Array], sizes: list[Array], i: int) -> Array:
    """Return h of each fold for the i-th width, as columns."""
    a, b = (s[:, i] / n[:, None] for s, n in zip(sums, sizes, strict=True))
    return np.asarray((a - b).T)


def _losses(H: Array, kept: Array, held: Array) -> Iterator[tuple[float, float]]:
    values, vectors = np.linalg.eigh(H)
    values = np.maximum(values, 0.0)
    kept, held = vectors.T @ kept, vectors.T @ held
    for penalty in PENALTIES * values[-1]:
        weights = kept / (values + penalty)[:, None]
        losses = (values[:, None] * weights**2).sum(0) - 2 * (weights * held).sum(0)
        yield float(losses.mean()), float(penalty)


def _estimate(
    samples: list[Array], centres: Array, width: float, penalty: float
) -> tuple[float, float, Array]:
    """Return the noise-corrected squared distance, its standard error and the weights."""
    moments = [_kernel_moments(each, centres, width) for each in samples]
    h = moments[0][0] - moments[1][0]
    noise = moments[0][1] + moments[1][1]  # covariance of h
    H = _gram(centres, width)
    values, vectors = np.linalg.eigh(H)
    values = np.maximum(values, 0.0)
    # 2A - AHA in the eigenvectors of H
    shape = (values + 2 * penalty) / (values + penalty) ** 2
    h, noise = vectors.T @ h, vectors.T @ noise @ vectors
    gradient = 2 * shape * h
    value = float(h @ (shape * h) - shape @ np.diag(noise))
    error = math.sqrt(max(float(gradient @ noise @ gradient), 0.0))
    return value, error, np.asarray(vectors @ (h / (values + penalty)))


def _kernel_moments(samples: Array, centres: Array, width: float) -> tuple[Array, Array]:
    """Mean of the kernel values and covariance of that mean."""
    total, products = np.zeros(len(centres)), np.zeros((len(centres), len(centres)))
    for start in range(0, len(samples), BLOCK):
        squares = _squared_distances(samples[start : start + BLOCK], centres)
        kernel = np.exp(squares / (-2 * width**2))
        total += kernel.sum(axis=0)
        products += kernel.T @ kernel
    n = len(samples)
    mean = total / n
    return mean, (products / n - np.outer(mean, mean)) / (n - 1)
