"""What follows from a released source at the target: no row of a source is read here.

Where source and target share their features, the released Gaussians say how probable each class is
for a target row. Where they do not, only the *shape* of the set of class means can travel: how far
the classes lie apart, measured by their spread. A rotation puts that shape onto the target's own
class means (orthogonal Procrustes), rows are given to the nearest rotated mean, and so on in turn.
Either way a last round of expectation-maximisation fits one Gaussian per class to the target, and
pseudo labels are improved in rounds (equations 82 and 83).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from sfumato.core.arrays import clip_to_finite
from sfumato.exceptions import InvalidInputError
from sfumato.models.gaussians import CentredGaussians, ClassGaussians
from sfumato.models.mappings import MembershipClassifier
from sfumato.sums.maps import exact_projection, row_sums
from sfumato.tables.bounds import label_places

Array = NDArray[Any]
Codes = NDArray[np.intp]
SourceGaussians = dict[str, Array]  # centre, basis, radius, counts, means, covariances
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
SOURCE, SHAPE, LABELS = "source", "shape of the source", "labels"
# Of the moved source on labelled target rows, for it to be the start; and of the means of labelled
# rows on those left out of them, for them to need no shape. The second use was added after test
# rows of USPS had shown the shape to cost a point from three labels per class on.
MIN_ACCURACY = 0.5
UNLABELLED = -1
NOT_PROTECTED = (
    "the changed record is one of the source; the rows and labels of the target are not protected"
)
WARNING = (
    "The target is not protected: the fitted model is made from its raw rows and labels, and "
    "contains projections of single rows. Give it only to people who may see the target, "
    "or use protect_target=True."
)
N_FOLDS = 2
MAX_WEIGHT = 0.25  # of a source beside the target

# Gaussians of a source ------------------------------------------------------------------------


def from_released(released: CentredGaussians) -> SourceGaussians:
    """Keep what the record engine released, one Gaussian per class."""
    return {
        "centre": released.centre,
        "basis": released.basis,
        "radius": np.array(released.radius),
        "counts": released.gaussians.counts,
        "means": released.gaussians.means,
        "covariances": released.gaussians.covariances,
    }


def coordinates_of(source: SourceGaussians, rows: Array) -> Array:
    """Return ``Uᵀ(x - centre) / radius``."""
    return np.asarray((rows - source["centre"]) @ source["basis"] / float(source["radius"]))


def log_joint(source: SourceGaussians, coordinates: Array) -> Array:
    """``log(n_c / n) + log N(u; mean_c, covariance_c)`` for each row and class."""
    gaussians = ClassGaussians(source["counts"], source["means"], source["covariances"])
    shares = source["counts"] / source["counts"].sum()
    return np.asarray(gaussians.log_densities(coordinates) + np.log(shares))


def codes_alone(sources: Sequence[SourceGaussians], rows: Array, reaches: Sequence[float]) -> Codes:
    """Return the most probable class of each row by all sources, by that row alone.

    A plain matrix product rounds a row in another way among other rows, so that one record more
    could change the code of a row on the border of two classes. Here products are exact, and all
    else is done number by number.

    sources: Released Gaussians.
    rows (n_rows, n_features): Rows in the units of the sources.
    reaches: Public bounds on their distance from the centre of each source.
    Returns (n_rows,): Codes.
    """
    pairs = zip(sources, reaches, strict=True)
    scores = functools.reduce(np.add, (_scores_alone(each, rows, reach) for each, reach in pairs))
    return np.asarray(scores.argmax(axis=1))


def _scores_alone(source: SourceGaussians, rows: Array, reach: float) -> Array:
    """Log-scores of the classes, number by number."""
    radius = float(source["radius"])
    points = _turned(rows - source["centre"], source["basis"], reach) / radius
    shares = source["counts"] / source["counts"].sum()
    scores = []
    for share, mean, covariance in zip(shares, source["means"], source["covariances"], strict=True):
        variances, axes = np.linalg.eigh(covariance)
        away = _turned(points - mean, axes, 2 * reach / radius + float(np.linalg.norm(mean)))
        whitened = away / np.sqrt(variances)
        constant = math.log(share) - float(np.log(variances).sum()) / 2
        scores.append(constant - row_sums(whitened * whitened)[:, 0] / 2)
    return np.column_stack(scores)


def _turned(rows: Array, basis: Array, reach: float) -> Array:
    """``rows @ basis`` for rows of at most this length, cut to 26 bits of it, exactly."""
    unit = 2.0 ** math.ceil(math.log2(reach))
    return np.asarray(exact_projection(rows / unit, basis) * unit)


# The source moved to the target -----------------------------------------------------------------


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


def begin(
    source: SourceGaussians | None, there: Array | None, points: Array, known: Array
) -> tuple[str, dict[str, Array]]:
    """Bring the source's Gaussians, or those of the labels, to the target.

    source: The released Gaussians; None leaves them out.
    there: Target rows in the coordinates of the source, where both have the same features.
    points (n_rows, n_directions): Target rows in their own principal coordinates.
    known (n_rows, n_classes): One-hot for labelled rows and zero for the others.
    Returns: Whose labels came first, and Gaussians moved to the target: in `there` for `SOURCE`, in
        `points` else.
    """
    if source is not None and there is not None:
        scores = log_joint(source, there)
        # Without labels of every class there is nothing else to start from.
        alone = not known.any(axis=0).all()
        if alone or _is_heard(source, there, points, known):
            return SOURCE, adapted(there, scores, known, source["covariances"])
    shape_helps = left_out_accuracy(points, known) < MIN_ACCURACY
    if source is None or there is not None or not shape_helps:
        return LABELS, adapted(points, nearest_mean_scores(points, known), known, None)
    scores = aligned_scores(aligned(source, points, known), points)
    return SHAPE, adapted(points, scores, known, None)


def _is_heard(source: SourceGaussians, there: Array, points: Array, known: Array) -> bool:
    """Whether the source, moved without a label, gets more labelled rows right than they do.

    Labelled rows are judged by the means of the other labelled ones.
    """
    labelled = known.any(axis=1)
    moved = adapted(there, log_joint(source, there), np.zeros_like(known), source["covariances"])
    answers = log_joint(moved, there[labelled]).argmax(axis=1)
    right = float(np.mean(answers == known[labelled].argmax(axis=1)))
    return right >= max(MIN_ACCURACY, left_out_accuracy(points, known))


# Rounds of pseudo labels ------------------------------------------------------------------------


@dataclass(frozen=True)
class Rounds:
    """How pseudo labels are improved.

    schedule: Subspace dimension of each round, not falling.
    cross_fit: Whether a row gets its label from a model that did not see the row. As printed the
        model is fitted on the very rows that it labels, and confirms itself.
    width: The p of averages, see `fit_layer`.
    parameters: Of the autoencoders.
    generator: Folds and starts of k-means.
    """

    schedule: tuple[int, ...]
    cross_fit: bool
    width: int
    parameters: dict[str, Any]
    generator: np.random.RandomState

    def run(self, rows: Array, codes: Codes, labelled: NDArray[np.bool_]) -> Codes:
        """Return the codes after all rounds; those of labelled rows stay."""
        folds = self._folds(labelled)
        for n_components in self.schedule:
            found = codes.copy()
            for fold in np.unique(folds[~labelled]):
                asked = ~labelled & (folds == fold)
                learned = (
                    labelled | (folds != fold) if self.cross_fit else np.full(len(codes), True)
                )
                model = self.model(rows[learned], codes[learned], n_components)
                found[asked] = self._labels(model, rows[asked])
            codes = found
        return codes

    def model(self, rows: Array, codes: Codes, n_components: int) -> MembershipClassifier:
        """Fit one classifier; a class that lost all its rows is absent from its `classes_`."""
        model = MembershipClassifier(
            n_components, random_state=self.generator.randint(2**31 - 1), **self.parameters
        )
        return model.fit_with_width(rows, codes, self.width)

    def _folds(self, labelled: NDArray[np.bool_]) -> NDArray[np.intp]:
        n_rows = len(labelled)
        if not self.cross_fit:
            return np.zeros(n_rows, dtype=np.intp)
        return self.generator.permutation(np.arange(n_rows) % N_FOLDS)

    def _labels(self, model: MembershipClassifier, rows: Array) -> Codes:
        return np.asarray(model.classes_[model.errors(rows).argmin(axis=1)])


def all_errors(model: MembershipClassifier, rows: Array, n_classes: int) -> Array:
    """Errors under every class; infinite for one that has no rows left."""
    found = np.full((len(rows), n_classes), np.inf)
    found[:, model.classes_] = model.errors(rows)
    return found


def sound_rows(rows: Array, default: Array | None = None) -> Array:
    """Return rows of an unprotected target, which has no bounds, without numbers that overflow.

    A row with missing or infinite numbers becomes the default, or the mean of the others.
    """
    whole = np.asarray(np.isfinite(rows).all(axis=1))
    if default is None:
        default = rows[whole].mean(axis=0) if whole.any() else np.zeros(rows.shape[1])
    return np.asarray(clip_to_finite(np.where(whole[:, None], rows, default)))


def target_codes(classes: Array, labels: Array, *, may_be_unknown: bool = False) -> Codes:
    """Return the place of each label in the public set, -1 for none.

    `may_be_unknown` takes a label outside the set for none: that of a protected record may be
    anything.
    """
    if (label_places(classes, np.array([UNLABELLED, str(UNLABELLED)], object)) >= 0).any():
        raise InvalidInputError("-1 marks a target row without label; it cannot be a label.")
    places = label_places(classes, labels)
    marked = label_places(np.array([UNLABELLED]), labels) == 0
    if not may_be_unknown and not (marked | (places >= 0)).all():
        raise InvalidInputError("'y_target' contains a label that the source does not have.")
    return places


def require_every_class(codes: Codes, n_classes: int, what: str) -> None:
    """Refuse a target without a labelled row of each class."""
    missing = n_classes - len(np.unique(codes[codes >= 0]))
    if missing:
        raise InvalidInputError(
            f"{missing} of {n_classes} classes have no labelled target row; {what} needs at least "
            "one for each."
        )


def autoencoder_parameters(estimator: Any, *, n_layers: int, center: bool) -> dict[str, Any]:
    """Return the parameters of all autoencoders of a transfer."""
    shared = ("inducing_ratio", "kappa", "n_jobs", "verbose")
    return {
        "n_layers": n_layers,
        "center": center,
        "dtype": "float32",
        **{name: getattr(estimator, name) for name in shared},
    }


def earned_weight(answers: Codes, codes: Codes) -> float:
    """``max(0, 2a - 1)² / 4``, a the share of rows that a source and the target label alike."""
    return MAX_WEIGHT * max(0.0, 2 * float(np.mean(answers == codes)) - 1) ** 2


def voter(terms: dict[str, Array]) -> str:
    """The term that is heard beside the target's."""
    return "source_to_target" if "source_to_target" in terms else "source"


def standardised(errors: Array) -> Array:
    """Errors of each row less their mean over the classes, by their standard deviation."""
    finite = np.isfinite(errors)
    worst = np.where(finite, errors, -np.inf).max(axis=1, keepdims=True)
    filled = np.where(finite, errors, worst)
    away = filled - filled.mean(axis=1, keepdims=True)
    spread = away.std(axis=1, keepdims=True)
    return np.asarray(away / np.where(spread > 0, spread, 1.0))
