"""Definitions 12 to 15 as printed: clusters and the stop of the smoother come from the raw rows.

Entries get the printed noise, an atom of mass delta at zero beside Laplace noise (74) to (77). That
noise covers neither the partition (Remark 4) nor the threshold (88): no finite epsilon holds.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from sfumato.accounting.receipt import prepay
from sfumato.events import NonPrivateEvent
from sfumato.exceptions import RefutedGuaranteeWarning
from sfumato.fabrication.engines import (
    BranchedRows,
    cut_rows,
    entry_guarantee,
    entry_mechanism,
    in_order,
    smoothed_branches,
)
from sfumato.fabrication.hull_classifier import hulls_of_branches
from sfumato.fabrication.public_rules import BranchPlan, require_entries
from sfumato.fabrication.smoothing import MOST_PASSES, Stop, modelling_error
from sfumato.guarantee import Guarantee, Relation, Status, Unit
from sfumato.hulls.search import fit_branches
from sfumato.parallel import map_in_parallel
from sfumato.private import PrivateEstimator
from sfumato.sums.maps import IntoUnitCube
from sfumato.tables.bounds import PUBLIC_LABELS, Bounds
from sfumato.tables.cells import checked_column

__all__ = ["PrintedAffineHullClassifier", "PrintedFabricator"]

BRANCH = 1000  # Remark 4


class _PrintedRows(PrivateEstimator):
    """What both share: rows with the printed noise, cut by the raw rows."""

    offered_units: ClassVar[tuple[Unit, ...]] = (Unit.ENTRY,)
    offered_relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE_ONE,)
    scales_columns: ClassVar[bool] = False  # as printed
    unit = "entry"
    relation = "replace_one"

    n_components: int
    branch_size: int | None
    entry_bound: float | None
    device: str | None
    n_jobs: int | None
    verbose: bool
    random_state: Any

    def __repr__(self, **options: Any) -> str:
        shown: str = super().__repr__(**options)
        return f"{shown}  # NO PRIVACY: as printed"

    def _release(
        self, X: ArrayLike, y: ArrayLike | None
    ) -> tuple[BranchedRows, list[Stop], NDArray[np.intp], NDArray[Any] | None]:
        """Give noisy rows in raw branches, where the smoothing of each stops, and the labels."""
        bounds = self._check_promise()
        require_entries(type(self).__name__, bounds, self.relation)
        rows = self._check_rows(X)
        codes, labels = np.zeros(len(rows), dtype=np.intp), None
        if y is not None:  # labels are public at entry level
            public = replace(bounds, labels=bounds.labels or PUBLIC_LABELS)
            codes, labels = public.clip_labels(checked_column(self, y, len(rows)))
        self._warn_if_weak(len(rows))
        scale = IntoUnitCube(bounds, rows.shape[1])
        mechanism = entry_mechanism(scale, self.entry_bound, self.epsilon, self.delta)
        warnings.warn(
            "The printed algorithm clusters the raw rows and stops by their error. That protects "
            "nobody, whatever the noise: the status of the guarantee is 'refuted'. Use "
            "the estimators of `sfumato` instead.",
            RefutedGuaranteeWarning,
            stacklevel=3,
        )
        entries = scale.scaled_entries(rows)
        plan = BranchPlan(self.branch_size or BRANCH, "kmeans")
        raw = BranchedRows(entries, *cut_rows(entries, codes, plan, self.random_state))
        thresholds = map_in_parallel(
            partial(modelling_error, n_components=self.n_components),
            raw.groups(self.device),
            n_jobs=self.n_jobs if self.device is None else 1,
        )
        # The second event has no finite epsilon, so that no budget pays for this.
        events = mechanism.event(), NonPrivateEvent()
        receipt = prepay(self.ledger, *events, unit=self.unit, relation=self.relation)
        units = scale.entry_units(self.entry_bound)
        noisy = mechanism.release(entries * units, ledger=receipt) / units
        self.guarantee_: Guarantee = replace(
            entry_guarantee(mechanism, scale, self.entry_bound, self._public_facts()),
            epsilon=None,
            status=Status.REFUTED,
            claimed_epsilon=float(self.epsilon),
            record_reading=None,
            events=receipt.events,
        )
        stops = [Stop(MOST_PASSES, threshold=threshold) for threshold in thresholds]
        return replace(raw, rows=noisy), stops, codes, labels

    def _smoothed(self, private: BranchedRows, stops: list[Stop] | None) -> Any:
        """Smooth each branch by its own hull; note the passes in `n_smoothing_`."""
        groups, self.n_smoothing_ = smoothed_branches(
            private,
            stops,
            n_components=self.n_components,
            device=self.device,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )
        return groups


class PrintedFabricator(_PrintedRows):
    """Fabricated rows as printed (Definitions 13 and 14): refuted, for study.

    Parameters
    ----------
    n_components : int, default=20
        Subspace dimension n of the smoothing hulls.
    branch_size : int, optional
        Rows that are smoothed together, about 1000 by default.
    epsilon, delta : float, default=1.0, 1e-6
        The printed budget of one entry; delta is the mass of the atom.
    bounds : Bounds
        A public box of the rows; required.
    entry_bound : float, optional
        The largest change d of one entry; by default any change inside the box.
    ledger : DatasetBudget, optional
        Who pays; no finite budget does.
    device : str, optional
        A PyTorch device such as "cuda"; NumPy else.
    n_jobs : int, optional
        Workers for branches, see joblib.
    verbose : bool, default=False
        Show progress bars.
    random_state : int, RandomState or None, default=None
        Public randomness: starts of the partition. Never the noise.

    Attributes
    ----------
    guarantee_ : Guarantee
        That nothing is promised.
    n_smoothing_ : ndarray of shape (n_branches,)
        Passes of the smoother, which tell of the raw rows.

    See Also
    --------
    sfumato.Fabricator : Private rows with a promise that holds.
    """

    def __init__(
        self,
        n_components: int = 20,
        *,
        branch_size: int | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        bounds: Bounds | None = None,
        entry_bound: float | None = None,
        ledger: Any = None,
        device: str | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.branch_size = branch_size
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.entry_bound = entry_bound
        self.ledger = ledger
        self.device = device
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Fabricate one row for each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,), optional
            Labels.

        Returns
        -------
        Self
            The fitted estimator.
        """
        private, stops, codes, labels = self._release(X, y)
        made = in_order(private, self._smoothed(private, stops))
        self.rows_ = IntoUnitCube(self.row_bounds, made.shape[1]).to_rows(made)
        self.labels_ = None if labels is None else labels[codes]
        return self

    def fabricate(self) -> Any:
        """Give the fabricated rows, and their labels where some were given.

        Returns
        -------
        rows, or rows and labels
            As many as were seen.
        """
        check_is_fitted(self)
        return self.rows_ if self.labels_ is None else (self.rows_, self.labels_)


class PrintedAffineHullClassifier(ClassifierMixin, _PrintedRows):
    """The nearest hull of rows made private as printed (Definitions 12 and 15): refuted, for study.

    Parameters
    ----------
    n_components : int, default=20
        Subspace dimension n of the hulls.
    n_layers : int, default=5
        Number of layers L.
    fabricate : bool, default=True
        Definition 15, hulls of fabricated rows; False: Definition 12, hulls of noisy rows.
    branch_size : int, optional
        Rows of a branch, about 1000 by default.
    epsilon, delta : float, default=1.0, 1e-6
        The printed budget of one entry; delta is the mass of the atom.
    bounds : Bounds
        A public box of the rows; required.
    entry_bound : float, optional
        The largest change d of one entry; by default any change inside the box.
    ledger : DatasetBudget, optional
        Who pays; no finite budget does.
    dtype : {"float64", "float32"}, default="float64"
        Precision of the stored hulls and of their answers.
    device : str, optional
        A PyTorch device such as "cuda"; NumPy else.
    n_jobs : int, optional
        Workers for branches, see joblib.
    verbose : bool, default=False
        Show progress bars.
    random_state : int, RandomState or None, default=None
        Public randomness: starts of the partition. Never the noise.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels that have hulls, sorted.
    classifier_ : AffineHullClassifier
        The hulls, in the coordinates of the unit cube.
    n_smoothing_ : ndarray of shape (n_branches,)
        Passes of the smoother, which tell of the raw rows.
    guarantee_ : Guarantee
        That nothing is promised.

    See Also
    --------
    sfumato.PrivateAffineHullClassifier : Hulls of private rows with a promise that holds.
    """

    def __init__(
        self,
        n_components: int = 20,
        *,
        n_layers: int = 5,
        fabricate: bool = True,
        branch_size: int | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        bounds: Bounds | None = None,
        entry_bound: float | None = None,
        ledger: Any = None,
        dtype: str = "float64",
        device: str | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_layers = n_layers
        self.fabricate = fabricate
        self.branch_size = branch_size
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.entry_bound = entry_bound
        self.ledger = ledger
        self.dtype = dtype
        self.device = device
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Release rows as printed and fit one wide hull per class on them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Labels.

        Returns
        -------
        Self
            The fitted estimator.
        """
        private, stops, _, labels = self._release(X, y)
        groups = self._smoothed(private, stops if self.fabricate else None)
        shared = {
            name: getattr(self, name)
            for name in ("n_components", "n_layers", "dtype", "n_jobs", "verbose")
        }
        branches = fit_branches(groups, **shared)
        assert labels is not None  # noqa: S101 - a classifier is fitted with labels
        self.classes_ = labels[np.unique(private.classes)]
        self.classifier_ = hulls_of_branches(
            branches, private, self.classes_, self.n_features_in_, **shared
        )
        return self

    def distances(self, X: ArrayLike) -> NDArray[np.float64]:
        """Give the distance from each row to the hull of each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            One distance per class.
        """
        check_is_fitted(self)
        rows = self._check_rows(X, reset=False)
        scaled = IntoUnitCube(self.row_bounds, rows.shape[1]).scaled(rows)
        return np.asarray(self.classifier_.distances(scaled))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Give the label of the nearest hull.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
        """
        return np.asarray(self.classes_[self.distances(X).argmin(axis=1)])

    def merge(self, *others: PrintedAffineHullClassifier) -> PrintedAffineHullClassifier:
        """Give the classifier with the hulls of all parties, class by class (104).

        Parameters
        ----------
        *others : PrintedAffineHullClassifier
            Fitted by other parties with the same bounds.

        Returns
        -------
        PrintedAffineHullClassifier
            The merged classifier.
        """
        merged: PrintedAffineHullClassifier = clone(self)
        merged.n_features_in_ = self.n_features_in_
        merged.classifier_ = self.classifier_.merge(*(party.classifier_ for party in others))
        merged.classes_ = merged.classifier_.classes_
        parties = [self, *others]
        merged.n_smoothing_ = np.concatenate([party.n_smoothing_ for party in parties])
        merged.guarantee_ = self.guarantee_
        return merged
