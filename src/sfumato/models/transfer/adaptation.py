"""Bring the source's classes to the target, with and without a common space.

Where source and target share their features, the released Gaussians say how probable each class is
for a target row. Where they do not, only the *shape* of the set of class means can travel: how far
the classes lie apart, measured by their spread. A rotation puts that shape onto the target's own
class means (orthogonal Procrustes), rows are given to the nearest rotated mean, and so on in turn.
Either way a last round of expectation-maximisation fits one Gaussian per class to the target.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from sfumato.models.transfer.gaussians import SourceGaussians, log_joint

Array = NDArray[np.float64]
Alignment = dict[str, Array]  # centre, whiten, means, log_shares
Gaussians = dict[str, Array]  # counts, means, covariances

# Chosen on rows of USPS and MNIST that no reported accuracy is taken from.
ROUNDS = 15
LABEL_WEIGHT = 5.0  # rows that one labelled row counts for,
LABEL_SHARE = 1 / 250  # or this share of all rows, if that is more
SOURCE_ROWS = 5000.0  # target rows that the source's covariance of a class counts for
POOLED_ROWS = 500.0  # and the pooled covariance, without the source's,
POOLED_SHARE = 1 / 18  # or this share of all rows
SPHERE = 0.15  # standard deviation of a class, by the root mean square length of the rows
RIDGE = 0.05  # of the average eigenvalue, added before whitening
MIN_EIGENVALUE = 1e-3  # of the average one


def nearest_mean_scores(rows: Array, known: Array) -> Array:
    """Log-scores of round Gaussians around the means of the labelled rows.

    `known` is one-hot for labelled rows and zero for the others.
    """
    means = (known.T @ rows) / known.sum(axis=0)[:, None]
    return -_squared_distances(rows, means) / (2 * _sphere(rows))


def left_out_accuracy(rows: Array, known: Array) -> float:
    """Share of labelled rows nearest to the mean of their class, each left out of its own mean.

    A row that is alone in its class counts as missed.
    """
    labelled = known.any(axis=1)
    points, own = rows[labelled], known[labelled]
    codes, counts, sums = own.argmax(axis=1), own.sum(axis=0), own.T @ points
    squares = _squared_distances(points, sums / np.maximum(counts, 1)[:, None])
    squares[:, counts == 0] = np.inf
    others = (sums[codes] - points) / np.maximum(counts[codes] - 1, 1)[:, None]
    alone = counts[codes] == 1
    squares[np.arange(len(codes)), codes] = np.where(
        alone, np.inf, np.sum((points - others) ** 2, axis=1)
    )
    return float(np.mean((squares.argmin(axis=1) == codes) & ~alone))


def adapted(
    rows: Array, scores: Array, known: Array, covariances: Array | None = None
) -> Gaussians:
    """Fit one Gaussian per class to the target rows by expectation-maximisation, from first scores.

    Means follow the target. Each covariance is drawn towards the source's, where it is given, and
    towards the one pooled over the classes else.
    """
    pooled_rows = max(POOLED_ROWS, POOLED_SHARE * len(rows))
    prior = pooled_rows if covariances is None else SOURCE_ROWS
    for _ in range(ROUNDS):
        weights = _memberships(scores, known)
        counts = weights.sum(axis=0)
        means = (weights.T @ rows) / counts[:, None]
        scatters = np.array([(w[:, None] * rows).T @ rows for w in weights.T])
        scatters -= counts[:, None, None] * (means[:, :, None] * means[:, None, :])
        shapes = scatters.sum(axis=0) / counts.sum() if covariances is None else covariances
        drawn = (scatters + prior * shapes) / (counts + prior)[:, None, None]
        found = {"counts": counts, "means": means, "covariances": _definite(drawn)}
        scores = log_joint(found, rows)
    return found


def aligned(source: SourceGaussians, rows: Array, known: Array) -> Alignment:
    """Put the source's class means among target rows of another space by a rotation.

    First with round classes, from the means of the labelled rows; then in coordinates in which
    the classes of either side have unit spread within.
    """
    shares = source["counts"] / source["counts"].sum()
    away = source["means"] - shares @ source["means"]
    within = np.einsum("c,cij->ij", shares, source["covariances"])
    spread = np.trace(within) + float(shares @ np.einsum("ci,ci->c", away, away))
    shape = away * np.sqrt(_mean_square(rows) / spread)
    scores = nearest_mean_scores(rows, known)
    means = (known.T @ rows) / known.sum(axis=0)[:, None]
    counts = np.ones(len(means))
    for _ in range(ROUNDS):
        centres = shape @ _rotation(means - means.mean(axis=0), shape, counts)
        scores = np.log(shares) - _squared_distances(rows, centres) / (2 * _sphere(rows))
        counts, means, _ = _class_moments(rows, _memberships(scores, known))
    shape = away @ _whitening(within)
    for _ in range(ROUNDS):
        counts, means, pooled = _class_moments(rows, _memberships(scores, known))
        found = _align_whitened(shape, np.log(shares), counts, means, pooled)
        scores = aligned_scores(found, rows)
    return found


def aligned_scores(alignment: Alignment, rows: Array) -> Array:
    """Log-scores of target rows under the rotated source."""
    x = (rows - alignment["centre"]) @ alignment["whiten"]
    return np.asarray(alignment["log_shares"] - _squared_distances(x, alignment["means"]) / 2)


def _align_whitened(
    shape: Array, log_shares: Array, counts: Array, means: Array, pooled: Array
) -> Alignment:
    centre = counts @ means / counts.sum()
    whiten = _whitening(pooled)
    here = (means - centre) @ whiten
    there = shape @ _rotation(here, shape, counts)
    size = float(np.sum(counts[:, None] * here * there) / np.sum(counts[:, None] * there**2))
    return {"centre": centre, "whiten": whiten, "means": size * there, "log_shares": log_shares}


def _rotation(here: Array, there: Array, counts: Array) -> Array:
    """Orthonormal rows Q that bring ``there @ Q`` nearest to `here` (Procrustes)."""
    left, _, right = np.linalg.svd(there.T @ (here * counts[:, None]), full_matrices=False)
    return np.asarray(left @ right)


def _memberships(scores: Array, known: Array) -> Array:
    weights = softmax(scores, axis=1)
    labelled = known.any(axis=1)
    weights[labelled] = max(LABEL_WEIGHT, LABEL_SHARE * len(known)) * known[labelled]
    return np.asarray(np.maximum(weights, 1e-12))


def _class_moments(rows: Array, weights: Array) -> tuple[Array, Array, Array]:
    """Return counts, means and the covariance within classes."""
    counts = weights.sum(axis=0)
    means = (weights.T @ rows) / counts[:, None]
    second = (rows * weights.sum(axis=1)[:, None]).T @ rows
    return counts, means, (second - (means * counts[:, None]).T @ means) / counts.sum()


def _whitening(covariance: Array) -> Array:
    values, axes = np.linalg.eigh(covariance)
    raised = np.maximum(values, 0.0) + RIDGE * max(float(values.mean()), 1e-300)
    return np.asarray(axes / np.sqrt(raised))


def _definite(covariances: Array) -> Array:
    """Raise small eigenvalues, so that a covariance can be inverted."""
    values, axes = np.linalg.eigh(covariances)
    least = MIN_EIGENVALUE * np.maximum(values.mean(axis=1, keepdims=True), 1e-300)
    raised = np.maximum(values, least)
    return np.asarray((axes * raised[:, None, :]) @ np.swapaxes(axes, 1, 2))


def _squared_distances(rows: Array, centres: Array) -> Array:
    squares = np.einsum("ij,ij->i", rows, rows)[:, None] + np.einsum("ij,ij->i", centres, centres)
    return np.asarray(np.maximum(squares - 2 * rows @ centres.T, 0.0))


def _mean_square(rows: Array) -> float:
    return max(float(np.einsum("ij,ij->", rows, rows)) / len(rows), 1e-300)


def _sphere(rows: Array) -> float:
    return SPHERE**2 * _mean_square(rows)
