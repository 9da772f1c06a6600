"""Transfer at entry level: mended, and as printed (Algorithms 5 and 6, equations 79 to 87).

Noise comes before everything else, so both promises hold, for one *number* of one row of the
source; they say nothing of the target. Mended, the source gives Gaussians of its noisy rows, and
the target is classified as by `sfumato.PrivateTransferClassifier`. As printed, it gives
autoencoders; equation (79) is an isometry of the target's leading principal components, so the
target's classifier runs in those coordinates, with the p of the source's space in its averages, and
the source's space is entered only where the source is asked.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sfumato.core.constraints import Form
from sfumato.core.memory import require_memory
from sfumato.exceptions import InvalidInputError
from sfumato.models.gaussians import CentredGaussians, gaussians_from_moments, top_eigenvectors
from sfumato.models.mappings import MembershipClassifier, MembershipMapping
from sfumato.models.transfer import (
    NOT_PROTECTED,
    WARNING,
    Gaussians,
    Planned,
    PrivateTransferClassifier,
    all_errors,
    fit_autoencoders,
    from_released,
    improve_labels,
    sound_rows,
    target_codes,
)
from sfumato.papers.entry_level import EntryEstimator
from sfumato.privacy.guarantee import Guarantee
from sfumato.sums.maps import IntoUnitCube
from sfumato.tables.cells import checked_column, checked_rows

Array = NDArray[Any]
Codes = NDArray[np.intp]
DIRECTION_COPIES = 4  # of a covariance, while its eigenvectors are found
COMPONENTS, LAYERS = 20, 5  # section 5 of the paper
MAX_FIRST_COMPONENTS = 20
MAX_POINTS = 1000
SHARED = ("schedule", "n_layers", "inducing_ratio", "kappa", "cross_fit", "use_source")


@dataclass(eq=False, repr=False)
class EntryTransfer(EntryEstimator, PrivateTransferClassifier):
    """Classify a target with few labels, helped by a source that protects single numbers.

    Parameters
    ----------
    schedule, n_layers, inducing_ratio, kappa, n_components, target_components, cross_fit, \
use_source, n_jobs, verbose, random_state
        See `sfumato.PrivateTransferClassifier`.
    $entry

    Attributes
    ----------
    source_ : dict
        Gaussians of the source, from its noisy rows.
    source_guarantee_ : Guarantee
        The promise for one number of one row of the source.
    guarantee_ : Guarantee
        The same; with a target on condition that the record is one of the source.

    Privacy
    -------
    $privacy
    Assumptions and numerics : bounds are public; noise is float-safe. Rows and labels of the
        target are not protected. Proof: docs/guarantees/transfer.md.
    """

    parameters: ClassVar[Form] = {
        **EntryEstimator.parameters,
        **PrivateTransferClassifier.parameters,
    }

    def plan_source(self, source: Any, y_source: Any) -> Planned:
        """Check the source, every entry of which gets noise; nothing is charged."""
        budget, scale, entries, codes, labels = self._read_entries(source, y_source)
        if labels is None or len(labels) < 2:
            raise InvalidInputError("The label set has only one class; a classifier needs two.")
        self.classes_, n_features = labels, entries.shape[1]
        self.source_bounds_, self.n_source_features_ = self.row_bounds, n_features
        mechanism = self._noise(scale, entries)
        require_memory(DIRECTION_COPIES * float(n_features) ** 2, "The subspace of the source")

        def draw() -> tuple[Gaussians, Guarantee]:
            assert budget.receipt is not None  # noqa: S101 - charged before anything is drawn
            noisy, promise = self._release_entries(scale, entries, mechanism, budget.receipt)
            kept = min(self.n_components, n_features)
            variance = mechanism.variance() / scale.units**2
            return from_noisy_rows(noisy, codes, len(labels), kept, variance), promise

        return budget, (mechanism.event(),), draw


def from_noisy_rows(
    rows: Array, codes: Codes, n_classes: int, n_components: int, noise_variance: Array
) -> Gaussians:
    """Return Gaussians of rows whose entries carry independent noise of a known variance a column.

    Directions are the principal ones that stand out of the noise, and those of the class means.
    The noise adds its own covariance to that of the rows, which is taken off again, and leaves
    sampling noise of about its variance times ``√(2 n)`` on a sum over n rows, to
    which the rows add their own. What that drowns is shrunk by `gaussians_from_moments`.
    """
    centre = rows.mean(axis=0)
    away = rows - centre
    n_rows, n_features = away.shape
    without_noise = away.T @ away / n_rows - np.diag(noise_variance)
    values, principal = top_eigenvectors(without_noise, n_components)
    edge = float(noise_variance.max()) * ((1 + math.sqrt(n_features / n_rows)) ** 2 - 1)
    counts = np.maximum(np.bincount(codes, minlength=n_classes), 1)
    means = np.array([away[codes == code].sum(axis=0) for code in range(n_classes)])
    both = np.column_stack([principal[:, values > edge], (means / counts[:, None]).T])
    left, sizes, _ = np.linalg.svd(both, full_matrices=False)
    basis = left[:, sizes > 1e-9 * max(float(sizes[0]), 1e-300)]
    coordinates = away @ basis
    order = coordinates.shape[1]
    spread = float(np.einsum("ij,ij->", coordinates, coordinates)) / n_rows
    scaled = (basis.T * noise_variance) @ basis
    radius = math.sqrt(max(spread - float(np.trace(scaled)), 1e-9 * spread, 1e-300))
    coordinates /= radius
    scaled /= radius**2
    moments = np.zeros((n_classes, order + 1, order + 1))
    for code in range(n_classes):
        mine = coordinates[codes == code]
        members = np.column_stack([mine, np.ones(len(mine))])
        moments[code] = members.T @ members
        moments[code, :-1, :-1] -= scaled * len(mine)
    # Sampling has noise of its own: rows of a spread of about 1 / order along each direction.
    noise = (float(np.trace(scaled)) + 1) / order * math.sqrt(2 * n_rows / n_classes)
    gaussians = gaussians_from_moments(moments, noise)
    return from_released(CentredGaussians(centre, basis, radius, gaussians, np.arange(n_classes)))


@dataclass(eq=False, repr=False)
class PrintedTransfer(ClassifierMixin, EntryEstimator):
    """Classify a target with few labels by autoencoders, beside those of a noisy source (87).

    Parameters
    ----------
    schedule : tuple of int, default=(5, 10, 15, 20)
        Subspace dimension of the autoencoders in each round.
    n_layers : int, default=5
        Layers of the target's autoencoders.
    inducing_ratio, kappa : float, default=0.5, 0.1
        See `sfumato.MembershipMapping`.
    cross_fit : bool, default=False
        Label each target row by a model that did not see it, which is not printed.
    use_source : bool, default=True
        False leaves the source out at the target's side.
    $entry
    n_jobs : int, optional
        Workers, see joblib.
    verbose : bool, default=False
        Show progress bars.
    random_state : int, RandomState or None, default=None
        Public randomness: folds and starts of k-means. Never the noise.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The public label set, sorted.
    source_guarantee_ : Guarantee
        What is promised for one number of one row of the source.
    guarantee_ : Guarantee
        The same; with a target on condition that the record is one of the source.

    See Also
    --------
    sfumato.PrivateTransferClassifier : Transfer with a promise for whole records.
    """

    _: KW_ONLY
    schedule: tuple[int, ...] = (5, 10, 15, 20)
    n_layers: int = LAYERS
    inducing_ratio: float = 0.5
    kappa: float = 0.1
    cross_fit: bool = False
    use_source: bool = True
    n_jobs: int | None = None
    verbose: bool = False
    random_state: Any = None

    parameters: ClassVar[Form] = {
        **EntryEstimator.parameters,
        **{name: PrivateTransferClassifier.parameters[name] for name in SHARED},
    }

    def fit(self, source: ArrayLike, y_source: ArrayLike) -> Self:
        """Release every entry of the source with noise, and learn from noisy rows (Algorithm 6).

        Parameters
        ----------
        source : array-like of shape (n_source_rows, n_source_features)
            Rows of the source.
        y_source : array-like of shape (n_source_rows,)
            Labels of the source.

        Returns
        -------
        Self
            The fitted estimator, which answers rows of the source's space.
        """
        self.__dict__.pop("target_classifier_", None)
        budget, scale, entries, codes, labels = self._read_entries(source, y_source)
        if labels is None or len(labels) < 2:
            raise InvalidInputError("The label set has only one class; a classifier needs two.")
        mechanism = self._noise(scale, entries, atom=self.delta)
        receipt = budget.charge(mechanism.event())  # charge one entry, then draw
        noisy, self.source_guarantee_ = self._release_entries(scale, entries, mechanism, receipt)
        self.classes_, self.n_source_features_ = labels, entries.shape[1]
        generator = check_random_state(self.random_state)
        n_components = min(COMPONENTS, noisy.shape[1])
        self.source_classifier_ = fit_autoencoders(
            self, generator, noisy, codes, n_components, n_layers=LAYERS, center=False
        )
        self.source_directions_ = _subspace(noisy, -(-noisy.shape[1] // 2)).T
        self.guarantee_ = self.source_guarantee_
        return self

    def fit_target(self, target: ArrayLike, y_target: ArrayLike) -> NDArray[Any]:
        """Learn to classify a target by the source that was fitted (79) to (86).

        Parameters
        ----------
        target : array-like of shape (n_target_rows, n_target_features)
            Rows of the target.
        y_target : array-like of shape (n_target_rows,)
            Their labels, -1 where there is none; at least one of each class.

        Returns
        -------
        ndarray of shape (n_target_rows,)
            The labels that the target's rows have in the end.
        """
        check_is_fitted(self, "source_classifier_")
        rows = sound_rows(checked_rows(self, target, reset=True))
        known = checked_column(self, y_target, len(rows))
        codes = target_codes(self.classes_, known, every_class="the printed transfer")
        warnings.warn(WARNING, stacklevel=2)
        self.guarantee_ = self.source_guarantee_.only_if(NOT_PROTECTED)
        labelled = codes >= 0
        if not self._common_features():
            n_kept = min(len(self.source_directions_), rows.shape[1])
            self.target_directions_ = _subspace(rows, n_kept)
        points = self._target_points(rows)
        generator = check_random_state(self.random_state)
        words: dict[str, Any] = {"center": False, "width": self.n_source_features_}
        # First labels by a classifier of the labelled rows alone, with every point inducing. Its
        # subspace dimension is one less than the smallest class has rows, at most 20.
        smallest = int(np.bincount(codes[labelled]).min())
        n_components = max(1, min(MAX_FIRST_COMPONENTS, smallest - 1))
        fit: Callable[..., Any] = partial(fit_autoencoders, self, generator, **words)
        given = points[labelled], codes[labelled]
        first = fit(*given, n_components, n_layers=1, inducing_ratio=1.0)
        found = np.where(labelled, codes, first.errors(points).argmin(axis=1))
        fit = partial(fit, n_layers=self.n_layers)
        found = improve_labels(fit, points, found, labelled, self, generator)
        self.target_classifier_ = fit(points, found, self.schedule[-1])
        # Learn to undo the source's filter of a row's own class (84) to (86).
        there = self._in_source_space(points)
        n_points = min(math.ceil(len(there) / 2), MAX_POINTS)
        self.source_to_target_ = MembershipMapping(
            inducing_ratio=n_points / len(there),
            center=False,
            random_state=int(generator.randint(2**31 - 1)),
        ).fit(_filtered(self.source_classifier_, there, found), there)
        return np.asarray(self.classes_[found])

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of the class with the least error of any term (87).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows of the target's space, or of the source's where no target was fitted.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
        """
        least = np.min(list(self.terms(X).values()), axis=0)
        return np.asarray(self.classes_[least.argmin(axis=1)])

    def terms(self, X: ArrayLike) -> dict[str, Array]:
        """Return the errors of each row under each class, one matrix for each term of (87).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        dict of ndarray of shape (n_samples, n_classes)
            "target", "source_to_target" and "source"; without a target "source" alone.
        """
        check_is_fitted(self, "source_classifier_")
        rows, n_classes = checked_rows(self, X, reset=False), len(self.classes_)
        if not hasattr(self, "target_classifier_"):
            return {"source": all_errors(self.source_classifier_, self._scaled(rows), n_classes)}
        points = self._target_points(sound_rows(rows, np.zeros(rows.shape[1])))
        found = {"target": all_errors(self.target_classifier_, points, n_classes)}
        if self.use_source:
            there = self._in_source_space(points)
            columns = []  # the second term of (87)
            for code in range(n_classes):
                passed = _filtered(self.source_classifier_, there, np.full(len(there), code))
                away = there - self.source_to_target_.predict(passed)
                columns.append(np.sum(away**2, axis=1))
            found["source_to_target"] = np.column_stack(columns)
            found["source"] = all_errors(self.source_classifier_, there, n_classes)
        return found

    def winners(self, X: ArrayLike) -> dict[str, int]:
        """Count the rows that each term decides.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        dict of str to int
            Rows by term.
        """
        terms = self.terms(X)
        least = np.array([errors.min(axis=1) for errors in terms.values()]).argmin(axis=0)
        return {name: int(np.sum(least == i)) for i, name in enumerate(terms)}

    def _common_features(self) -> bool:
        return bool(self.n_source_features_ == self.n_features_in_)

    def _scaled(self, rows: Array) -> Array:
        scaled: Array = IntoUnitCube(self.row_bounds, rows.shape[1]).scaled(rows)
        return scaled

    def _target_points(self, rows: Array) -> Array:
        """Target rows where the target's classifier works (79)."""
        if self._common_features():
            return self._scaled(rows)
        return np.asarray(rows @ self.target_directions_)

    def _in_source_space(self, points: Array) -> Array:
        if self._common_features():
            return points
        return np.asarray(points @ self.source_directions_[: points.shape[1]])


def _filtered(source: MembershipClassifier, rows: Array, codes: Codes) -> Array:
    places = np.searchsorted(source.classes_, codes).clip(max=len(source.classes_) - 1)
    return np.asarray(source.filtered(rows, places))


def _subspace(rows: Array, n_kept: int) -> Array:
    """Leading eigenvectors of the rows' covariance, as columns."""
    away = rows - rows.mean(axis=0)
    return top_eigenvectors(away.T @ away, n_kept)[1]
