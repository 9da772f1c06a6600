"""Transfer as printed: Algorithms 5 and 6 and equations (79) to (87).

Noise comes before everything else, so the promise holds, for one *number* of one row of the source;
it says nothing of the target. Equation (79) is an isometry of the target's leading principal
components. The target's classifier therefore runs in those coordinates, with the p of the source's
space in its averages, and the source's space is entered only where the source is asked.
"""

from __future__ import annotations

import math
import warnings
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sfumato.exceptions import InvalidInputError
from sfumato.models.gaussians import top_eigenvectors
from sfumato.models.mappings import MembershipClassifier, MembershipMapping
from sfumato.models.transfer import (
    NOT_PROTECTED,
    WARNING,
    all_errors,
    fit_autoencoders,
    improve_labels,
    require_every_class,
    sound_rows,
    target_codes,
)
from sfumato.papers.entry_level import EntryEstimator
from sfumato.privacy.guarantee import Guarantee
from sfumato.sums.maps import IntoUnitCube
from sfumato.tables.bounds import Bounds
from sfumato.tables.cells import checked_column, checked_rows

COMPONENTS, LAYERS = 20, 5  # section 5 of the paper
MAX_FIRST_COMPONENTS = 20
Array = NDArray[Any]
MAX_POINTS = 1000


def fit_source_to_target(
    source: MembershipClassifier,
    rows: Array,
    codes: NDArray[np.intp],
    generator: np.random.RandomState,
) -> MembershipMapping:
    """Learn to undo the source's filter of a row's own class (84) to (86)."""
    n_points = min(math.ceil(len(rows) / 2), MAX_POINTS)
    mapping = MembershipMapping(
        inducing_ratio=n_points / len(rows),
        center=False,
        random_state=int(generator.randint(2**31 - 1)),
    )
    return mapping.fit(_filtered(source, rows, codes), rows)


def source_to_target_errors(
    source: MembershipClassifier, mapping: MembershipMapping, rows: Array, n_classes: int
) -> Array:
    """Second term of equation (87)."""
    columns = []
    for code in range(n_classes):
        output = mapping.predict(_filtered(source, rows, np.full(len(rows), code)))
        columns.append(np.sum((rows - output) ** 2, axis=1))
    return np.column_stack(columns)


def _filtered(source: MembershipClassifier, rows: Array, codes: NDArray[np.intp]) -> Array:
    places = np.searchsorted(source.classes_, codes).clip(max=len(source.classes_) - 1)
    return np.asarray(source.filtered(rows, places))


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
    epsilon, delta : float, default=1.0, 1e-6
        The budget of one entry of the source; delta is the mass of the atom (75).
    bounds : Bounds
        A public box of the source's rows, and the label set; required.
    entry_bound : float, optional
        The largest change d of one entry; by default any change inside the box.
    ledger : DatasetBudget, optional
        Who pays for the source.
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

    source_guarantee_: Guarantee

    def __init__(
        self,
        *,
        schedule: tuple[int, ...] = (5, 10, 15, 20),
        n_layers: int = LAYERS,
        inducing_ratio: float = 0.5,
        kappa: float = 0.1,
        cross_fit: bool = False,
        use_source: bool = True,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        bounds: Bounds | None = None,
        entry_bound: float | None = None,
        ledger: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.schedule = schedule
        self.n_layers = n_layers
        self.inducing_ratio = inducing_ratio
        self.kappa = kappa
        self.cross_fit = cross_fit
        self.use_source = use_source
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.entry_bound = entry_bound
        self.ledger = ledger
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

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
        scale, entries, codes, labels, budget = self._read_entries(source, y_source)
        if labels is None or len(labels) < 2:
            raise InvalidInputError("The label set has only one class; a classifier needs two.")
        mechanism = self._noise(scale, entries, atom=self.delta)
        receipt = budget.pay(mechanism.event())  # charge one entry, then draw
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
        codes = target_codes(self.classes_, checked_column(self, y_target, len(rows)))
        require_every_class(codes, len(self.classes_), "the printed transfer")
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
        given = points[labelled], codes[labelled], n_components
        first = fit_autoencoders(self, generator, *given, n_layers=1, inducing_ratio=1.0, **words)
        found = np.where(labelled, codes, first.errors(points).argmin(axis=1))
        fit = partial(fit_autoencoders, self, generator, n_layers=self.n_layers, **words)
        found = improve_labels(fit, points, found, labelled, self, generator)
        self.target_classifier_ = fit(points, found, self.schedule[-1])
        self.source_to_target_ = fit_source_to_target(  # (84) to (86)
            self.source_classifier_, self._in_source_space(points), found, generator
        )
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
        rows, n_classes = self._rows(X), len(self.classes_)
        if not hasattr(self, "target_classifier_"):
            return {"source": all_errors(self.source_classifier_, self._scaled(rows), n_classes)}
        points = self._target_points(sound_rows(rows, np.zeros(rows.shape[1])))
        found = {"target": all_errors(self.target_classifier_, points, n_classes)}
        if self.use_source:
            there = self._in_source_space(points)
            found["source_to_target"] = source_to_target_errors(
                self.source_classifier_, self.source_to_target_, there, n_classes
            )
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
        return IntoUnitCube(self.row_bounds, rows.shape[1]).scaled(rows)

    def _target_points(self, rows: Array) -> Array:
        """Target rows where the target's classifier works (79)."""
        if self._common_features():
            return self._scaled(rows)
        return np.asarray(rows @ self.target_directions_)

    def _in_source_space(self, points: Array) -> Array:
        if self._common_features():
            return points
        return np.asarray(points @ self.source_directions_[: points.shape[1]])


def _subspace(rows: Array, n_kept: int) -> Array:
    """Leading eigenvectors of the rows' covariance, as columns."""
    away = rows - rows.mean(axis=0)
    return top_eigenvectors(away.T @ away, n_kept)[1]
