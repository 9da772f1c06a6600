"""The membership-inference score of a model: equation (69) of the kernel affine hull machines.

It is the squared distance of two densities, from samples of both (least-squares density
difference, Sugiyama et al. 2013). With Gaussian bumps at L centres c,
``g(x) = sum_l t_l exp(-||x - c_l||² / (2 s²))`` is fitted to the difference of the densities
f_a - f_b by ``t = (H + p I)⁻¹ h``, where

``H_lk = (pi s²)^(d/2) exp(-||c_l - c_k||² / (4 s²))`` and ``h = mean_a K(., c) - mean_b K(., c)``.

The squared L2 distance is ``2 t'h - t'Ht``, less its expectation from sampling noise alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from sfumato.audit.attacks import DIAGNOSTIC, choose_observation, observe
from sfumato.exceptions import InvalidInputError

Array = NDArray[np.float64]

CENTRES = 300
FOLDS = 5
WIDTHS = 13  # from twice the typical distance down to 1/32 of it, each 1/√2 of the one before
MAX_WIDTH = 2.0
PENALTIES = np.logspace(-6, 0, 13)  # as shares of the largest eigenvalue of H
BLOCK = 256  # rows whose kernel values fit into the cache


@dataclass(frozen=True)
class MembershipScore:
    """Squared distance of the densities of a model's observation on members and on others.

    value, standard_error: The score and its standard error, in units of 1 / unit of the
        observation.
    observation: What the model shows of a row; see `sfumato.audit.attacks`.
    members, non_members: The observations.
    """

    value: float
    standard_error: float
    observation: str
    members: NDArray[np.float64]
    non_members: NDArray[np.float64]

    def __str__(self) -> str:
        return (
            f"Membership score {self.value:.4g} ± {self.standard_error:.2g} per unit of "
            f"{self.observation} ({len(self.members)} members, {len(self.non_members)} others). "
            f"The unit is 1/{self.observation}: data ten times as large score a tenth, so scores "
            f"of different models compare only on one scale. {DIAGNOSTIC}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain JSON values."""
        named = {name: getattr(self, name) for name in ("value", "standard_error", "observation")}
        sizes = {"n_members": len(self.members), "n_non_members": len(self.non_members)}
        return {**named, "unit": f"1/{self.observation}", **sizes, "note": DIAGNOSTIC}


def membership_score(
    model: Any,
    members: ArrayLike,
    non_members: ArrayLike,
    *,
    y_members: ArrayLike | None = None,
    y_non_members: ArrayLike | None = None,
    observation: str | None = None,
) -> MembershipScore:
    r"""Return :math:`\int (f_{members}(r) - f_{others}(r))^2\,dr` of what a model shows of a row.

    Parameters
    ----------
    model : fitted estimator
        A hull classifier, for which r is the least distance to a hull (67), (68); or any
        classifier or density of scikit-learn.
    members, non_members : array-like of shape (n_rows, n_features)
        Rows that the model was fitted on, and rows of the same kind that it was not.
    y_members, y_non_members : array-like, optional
        Their labels.
    observation : {"distance", "loss", "margin", "confidence", "density"}, optional
        r; by default the first of them that the model offers.

    Returns
    -------
    MembershipScore
        The score, which is zero where members and others look alike.
    """
    with_labels = y_members is not None and y_non_members is not None
    observation = choose_observation(model, observation, with_labels=with_labels)
    inside = observe(model, members, y_members, observation)
    outside = observe(model, non_members, y_non_members, observation)
    found = density_difference(inside, outside)
    return MembershipScore(found.value, found.standard_error, observation, inside, outside)


@dataclass(frozen=True)
class DensityDifference:
    """The result of `density_difference`.

    value: Estimate of ``integral (f_a - f_b)²``; its unit is 1 / unit of the samples (to the power
        of their dimension). Corrected for sampling noise, so it may fall a little below zero.
    standard_error: Standard error of `value` from sampling.
    """

    value: float
    standard_error: float


def density_difference(a: ArrayLike, b: ArrayLike, *, random_state: Any = 0) -> DensityDifference:
    """Estimate ``integral (f_a - f_b)²`` from samples of both densities.

    Parameters
    ----------
    a, b : array-like of shape (n,) or (n, d)
        Samples, any number of them; at least 10 each.
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
    it, equal densities would show a positive distance. Up to 300 samples are centres of the fit.

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
    # Centres from both samples alike, so that a small one is not lost in a large one
    chosen = [
        each[generator.choice(len(each), min(len(each), CENTRES // 2), replace=False)]
        for each in samples
    ]
    centres = np.unique(np.concatenate(chosen), axis=0)
    # Widths are tried in units of the median distance of centres.
    squares = _squared_distances(centres, centres)[np.triu_indices(len(centres), 1)]
    unit = math.sqrt(float(np.median(squares))) if squares.size else 0.0
    unit = unit or max(float(np.ptp(each)) for each in samples) or 1.0
    samples, centres = [each / unit for each in samples], centres / unit
    folds = [
        [each[part] for part in np.array_split(generator.permutation(len(each)), FOLDS)]
        for each in samples
    ]
    width, penalty = _cross_validated(folds, centres)
    value, error = _estimate(samples, centres, width, penalty)
    scale = unit ** samples[0].shape[1]
    return DensityDifference(value / scale, error / scale)


def _samples(name: str, values: ArrayLike) -> Array:
    samples = np.asarray(values, dtype=np.float64)
    samples = samples[:, None] if samples.ndim == 1 else samples
    if samples.ndim != 2 or not np.isfinite(samples).all():
        raise InvalidInputError(f"'{name}' must contain finite numbers, in one or two dimensions.")
    if len(samples) < 2 * FOLDS:
        raise InvalidInputError(
            f"'{name}' must contain at least {2 * FOLDS} samples. Got {len(samples)} instead."
        )
    return samples


def _squared_distances(x: Array, centres: Array) -> Array:
    squares = np.zeros((len(x), len(centres)))
    for column in range(x.shape[1]):  # differences, not products: no cancellation
        squares += (x[:, column, None] - centres[None, :, column]) ** 2
    return squares


def _gram(centres: Array, width: float) -> Array:
    volume = (math.pi * width**2) ** (centres.shape[1] / 2)
    return np.asarray(volume * np.exp(_squared_distances(centres, centres) / (-4 * width**2)))


def _cross_validated(folds: list[list[Array]], centres: Array) -> tuple[float, float]:
    """Return width and penalty with the least held-out loss ``t'Ht - 2 t'h``."""
    sums = []
    for own in folds:  # kernel values summed over the rows of each fold, for every width
        found = np.zeros((len(own), WIDTHS, len(centres)))
        for fold, into in zip(own, found, strict=True):
            for start in range(0, len(fold), BLOCK):
                squares = _squared_distances(fold[start : start + BLOCK], centres)
                kernel = np.exp(squares * (-0.5 / MAX_WIDTH**2))
                for i in range(WIDTHS):  # the next width is 1/√2 of the last: a kernel squared
                    into[i] += np.ones(len(kernel)) @ kernel
                    np.multiply(kernel, kernel, out=kernel)
        sums.append(found)
    sizes = [np.array([len(fold) for fold in own], dtype=float) for own in folds]
    best = (math.inf, MAX_WIDTH, 1.0)
    for i in range(WIDTHS):
        width = MAX_WIDTH * 2 ** (-i / 2)
        values, vectors = np.linalg.eigh(_gram(centres, width))
        values = np.maximum(values, 0.0)
        # h of each fold that is held out, and of the others, as columns in the eigenvectors
        a, b = (s[:, i] / n[:, None] for s, n in zip(sums, sizes, strict=True))
        held = vectors.T @ (a - b).T
        a, b = (
            (s.sum(0) - s)[:, i] / (n.sum() - n)[:, None] for s, n in zip(sums, sizes, strict=True)
        )
        kept = vectors.T @ (a - b).T
        for penalty in PENALTIES * values[-1]:
            weights = kept / (values + penalty)[:, None]
            losses = (values[:, None] * weights**2).sum(0) - 2 * (weights * held).sum(0)
            best = min(best, (float(losses.mean()), width, float(penalty)))
    return best[1], best[2]


def _estimate(
    samples: list[Array], centres: Array, width: float, penalty: float
) -> tuple[float, float]:
    """Return the noise-corrected squared distance and its standard error."""
    means, noise = [], np.zeros((len(centres), len(centres)))
    for each in samples:
        total, products = np.zeros(len(centres)), np.zeros(noise.shape)
        for start in range(0, len(each), BLOCK):
            squares = _squared_distances(each[start : start + BLOCK], centres)
            kernel = np.exp(squares / (-2 * width**2))
            total += kernel.sum(axis=0)
            products += kernel.T @ kernel
        n, mean = len(each), total / len(each)
        means.append(mean)
        noise += (products / n - np.outer(mean, mean)) / (n - 1)  # covariance of h
    values, vectors = np.linalg.eigh(_gram(centres, width))
    values = np.maximum(values, 0.0)
    # 2A - AHA in the eigenvectors of H
    shape = (values + 2 * penalty) / (values + penalty) ** 2
    h, noise = vectors.T @ (means[0] - means[1]), vectors.T @ noise @ vectors
    gradient = 2 * shape * h
    value = float(h @ (shape * h) - shape @ np.diag(noise))
    error = math.sqrt(max(float(gradient @ noise @ gradient), 0.0))
    return value, error
