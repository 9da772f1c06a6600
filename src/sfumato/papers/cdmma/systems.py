"""The paper's transfer, as printed (Algorithms 5 and 6, equations 79 to 87).

Noise comes before everything else, so the promise holds, for one *number* of one row of the source;
it says nothing of the target. Equation (79) is an isometry of the target's leading principal
components, so the target's classifier runs in those coordinates, with the p of the source's space
in its averages, and the source's space is entered only where the source is asked.
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

from sfumato.core.constraints import Form, flag, whole
from sfumato.exceptions import InvalidInputError
from sfumato.models.linear import top_eigenvectors
from sfumato.models.mappings import MembershipClassifier, MembershipMapping
from sfumato.models.transfer import (
    NOT_PROTECTED,
    WARNING,
    PrivateTransferClassifier,
    all_errors,
    fit_autoencoders,
    improve_labels,
    sound_rows,
    target_codes,
)
from sfumato.papers.entry_level import EntryEstimator
from sfumato.sums.maps import IntoUnitCube
from sfumato.tables.cells import checked_column, checked_rows

Array = NDArray[Any]
Codes = NDArray[np.intp]
COMPONENTS, LAYERS = 20, 5  # section 5 of the paper
MAX_FIRST_COMPONENTS = 20
MAX_POINTS = 1000


@dataclass(eq=False, repr=False)
class MembershipTransferClassifier(ClassifierMixin, EntryEstimator):
    """Classify a target with few labels by autoencoders, and those of a noisy source (87).

    `fit` releases the source (Algorithms 5 and 6); `fit_target` learns a target, any number of
    times. The promise is printed and proved for one number of the source.

    Parameters
    ----------
    schedule : tuple of int, default=(5, 10, 15, 20)
        Subspace dimension of the autoencoders in each round.
    n_layers : int, default=5
        Layers of the target's autoencoders.
    inducing_ratio, kappa : float, default=0.5, 0.1
        See `sfumato.MembershipMapping`.
    rounds : int, default=1
        Iterations of (82) and (83) for each dimension of the schedule. "4 iterations" are one for
        each of four; read as four for each, Table 1 comes nearer.
    branch_size : int, default=1000
        Rows of a branch, of which a class of the target has ``ceil(N / branch_size)``; 1500 stands
        for *rounding* N / 1000 for classes below 1500 rows, as a paper of the same author has it.
    cross_fit : bool, default=False
        Label each target row by a model that did not see it, which is not printed: mended.
    $entry
    n_jobs : int, optional
        Workers, see joblib.
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

    Privacy
    -------
    Unit and relation : one number of one row of the source, replaced by one at most d away; labels
        and class sizes are public. The target is not protected.
    Released : every number of the source with noise (75); all else sees noisy rows only.
    Sensitivity : d, the range of the bounds or `entry_bound`.
    Guarantee : (epsilon, delta) for a number; the figure for a whole row is stated next to it.
    Assumptions and numerics : noise is float-safe. Proof: docs/guarantees/entry.md.

    See Also
    --------
    sfumato.PrivateTransferClassifier : Transfer with a promise for whole records.
    """

    _: KW_ONLY
    schedule: tuple[int, ...] = (5, 10, 15, 20)
    n_layers: int = LAYERS
    inducing_ratio: float = 0.5
    kappa: float = 0.1
    rounds: int = 1
    branch_size: int = 1000
    cross_fit: bool = False
    n_jobs: int | None = None
    random_state: Any = None

    parameters: ClassVar[Form] = {
        **EntryEstimator.parameters,
        **{name: MembershipMapping.parameters[name] for name in ("inducing_ratio", "kappa")},
        "schedule": PrivateTransferClassifier.parameters["schedule"],
        "n_layers": whole(least=1),
        "cross_fit": flag(),
        "rounds": whole(least=1),
        "branch_size": whole(least=1),
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
        self.source_directions_ = _subspace(noisy, max(1, noisy.shape[1] // 2)).T
        self.guarantee_ = self.source_guarantee_
        return self

    def fit_target(self, target: ArrayLike, y_target: ArrayLike) -> NDArray[Any]:
        """Learn to classify a target by the source that was fitted (79) to (86).

        Parameters
        ----------
        target : array-like of shape (n_target_rows, n_target_features)
            Rows of the target. With as many features as the source they have its bounds; with
            another number (79) scales none of them: bring each to about [0, 1], as the source is.
        y_target : array-like of shape (n_target_rows,)
            Their labels, -1 where there is none ("-1" among strings); at least one of each class.

        Returns
        -------
        ndarray of shape (n_target_rows,)
            The labels that the target's rows have in the end.
        """
        check_is_fitted(self, "source_classifier_")
        rows = sound_rows(checked_rows(self, target, reset=True))
        known = checked_column(self, y_target, len(rows))
        codes = target_codes(self.classes_, known, every_class="this transfer")
        warnings.warn(WARNING, stacklevel=2)
        self.guarantee_ = self.source_guarantee_.only_if(NOT_PROTECTED)
        labelled = codes >= 0
        n_kept = min(len(self.source_directions_), rows.shape[1])
        alike = rows.shape[1] == self.n_source_features_
        self.target_directions_ = None if alike else _subspace(rows, n_kept)
        points = self._target_points(rows)
        generator = check_random_state(self.random_state)
        words: dict[str, Any] = {
            "center": False,
            "width": self.n_source_features_,
            "branch_size": self.branch_size,
        }
        # First labels by a classifier of the labelled rows alone, with every point inducing. Its
        # subspace dimension is one less than the smallest class has rows, at most 20.
        smallest = int(np.bincount(codes[labelled]).min())
        n_components = max(1, min(MAX_FIRST_COMPONENTS, smallest - 1))
        fit: Callable[..., Any] = partial(fit_autoencoders, self, generator, **words)
        given = points[labelled], codes[labelled]
        first = fit(*given, n_components, n_layers=1, inducing_ratio=1.0)
        found = np.where(labelled, codes, first.errors(points).argmin(axis=1))

        def fit_and_keep(*arguments: Any) -> MembershipClassifier:
            model: MembershipClassifier = fit(*arguments, n_layers=self.n_layers)
            if len(arguments[0]) == len(points):  # not of a fold
                self.target_classifier_ = model
            return model

        schedule = tuple(n for n in self.schedule for _ in range(self.rounds))
        found = improve_labels(
            fit_and_keep, points, found, labelled, schedule, generator, self.cross_fit
        )
        if self.cross_fit:  # all of its models are of one fold
            fit_and_keep(points, found, self.schedule[-1])
        # Learn to undo the source's filter of a row's own class (84) to (86).
        there = self._in_source_space(points)
        n_points = min(math.ceil(len(there) / 2), MAX_POINTS)
        self.source_to_target_ = MembershipMapping(
            inducing_ratio=n_points / len(there),
            kappa=self.kappa,
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
        there = self._in_source_space(points)
        columns = []  # the second term of (87)
        for code in range(n_classes):
            passed = _filtered(self.source_classifier_, there, np.full(len(there), code))
            away = there - self.source_to_target_.predict(passed)
            columns.append(np.sum(away**2, axis=1))
        found["source_to_target"] = np.column_stack(columns)
        found["source"] = all_errors(self.source_classifier_, there, n_classes)
        return found

    def _scaled(self, rows: Array) -> Array:
        scaled: Array = IntoUnitCube(self.row_bounds, rows.shape[1]).scaled(rows)
        return scaled

    def _target_points(self, rows: Array) -> Array:
        """Target rows where the target's classifier works (79)."""
        if self.target_directions_ is None:
            return self._scaled(rows)
        return np.asarray(rows @ self.target_directions_)

    def _in_source_space(self, points: Array) -> Array:
        if self.target_directions_ is None:
            return points
        return np.asarray(points @ self.source_directions_[: points.shape[1]])


def _filtered(source: MembershipClassifier, rows: Array, codes: Codes) -> Array:
    places = np.searchsorted(source.classes_, codes).clip(max=len(source.classes_) - 1)
    return np.asarray(source.filtered(rows, places))


def _subspace(rows: Array, n_kept: int) -> Array:
    """Leading eigenvectors of the rows' covariance, as columns."""
    away = rows - rows.mean(axis=0)
    return top_eigenvectors(away.T @ away, n_kept)[1]
