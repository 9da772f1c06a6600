"""Definitions 12 to 15 as printed: clusters and the stop of the smoother come from the raw rows.

Entries get the printed noise, an atom of mass delta at zero beside Laplace noise (74) to (77). That
noise covers neither the partition (Remark 4) nor the threshold (88): no finite epsilon holds.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import Any

from numpy.typing import ArrayLike, NDArray

from sfumato.core.parallel import map_in_parallel
from sfumato.exceptions import RefutedGuaranteeWarning
from sfumato.ledger.receipt import prepay
from sfumato.papers.kahm.entries import (
    DEFAULT_BRANCH,
    Codes,
    EntryFabricator,
    EntryHullClassifier,
    _EntryRows,
)
from sfumato.papers.kahm.smoothing import MAX_PASSES, Stop, modelling_error
from sfumato.privacy.events import NonPrivateEvent
from sfumato.privacy.guarantee import Status
from sfumato.synthetic.hull_classifier import BranchedRows
from sfumato.tables.bounds import Bounds


class _PrintedRows(_EntryRows):
    """Rows with the printed noise, cut by the raw rows."""

    partition = None
    n_smoothing = None

    def __repr__(self, **options: Any) -> str:
        shown: str = super().__repr__(**options)
        return f"{shown}  # NO PRIVACY: as printed"

    def _release(
        self, X: ArrayLike, y: ArrayLike | None
    ) -> tuple[BranchedRows, list[Stop] | None, Codes, NDArray[Any] | None]:
        scale, entries, codes, labels, _ = self._read_entries(X, y)
        mechanism = self._noise(scale, entries, atom=self.delta)
        warnings.warn(
            "The printed algorithm clusters the raw rows and stops by their error. That protects "
            "nobody, whatever the noise: the status of the guarantee is 'refuted'. Use "
            "the estimators of `sfumato` instead.",
            RefutedGuaranteeWarning,
            stacklevel=3,
        )
        raw = self._cut(entries, codes, DEFAULT_BRANCH, "kmeans")
        thresholds = map_in_parallel(
            partial(modelling_error, n_components=self.hull_components),
            raw.groups(self.device),
            n_jobs=self.n_jobs if self.device is None else 1,
        )
        # The second event has no finite epsilon, so that no budget pays for this.
        events = mechanism.event(), NonPrivateEvent()
        receipt = prepay(self.ledger, *events, unit=self.unit, relation=self.relation)
        noisy, promise = self._release_entries(scale, entries, mechanism, receipt)
        self.guarantee_ = replace(
            promise,
            epsilon=None,
            status=Status.REFUTED,
            claimed_epsilon=float(self.epsilon),
            record_reading=None,
            events=receipt.events,
        )
        stops = [Stop(MAX_PASSES, threshold=threshold) for threshold in thresholds]
        return replace(raw, rows=noisy), stops, codes, labels


class PrintedFabricator(_PrintedRows, EntryFabricator):
    """Fabricated rows as printed (Definitions 13 and 14): refuted, for study.

    Parameters
    ----------
    hull_components : int, default=20
        Subspace dimension n of the smoothing hulls.
    branch_size : int, optional
        Rows that are smoothed together, about 1000 by default.
    epsilon, delta : float, default=1.0, 1e-6
        The printed budget of one entry; delta is the mass of the atom.
    bounds, entry_bound, ledger, device, n_jobs, verbose, random_state
        See `EntryFabricator`.

    Attributes
    ----------
    guarantee_ : Guarantee
        That nothing is promised.
    n_smoothing_ : ndarray of shape (n_branches,)
        Passes of the smoother, which tell of the raw rows.

    See Also
    --------
    EntryFabricator : The same with a promise that holds.
    """

    def __init__(
        self,
        hull_components: int = 20,
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
        self.hull_components = hull_components
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


class PrintedAffineHullClassifier(_PrintedRows, EntryHullClassifier):
    """The nearest hull of rows made private as printed (Definitions 12 and 15): refuted, for study.

    Parameters
    ----------
    hull_components : int, default=20
        Subspace dimension n of the hulls.
    n_layers : int, default=5
        Number of layers L.
    fabricate : bool, default=True
        Definition 15, hulls of fabricated rows; False: Definition 12, hulls of noisy rows.
    branch_size : int, optional
        Rows of a branch, about 1000 by default.
    epsilon, delta : float, default=1.0, 1e-6
        The printed budget of one entry; delta is the mass of the atom.
    bounds, entry_bound, ledger, dtype, device, n_jobs, verbose, random_state
        See `EntryHullClassifier`.

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
    EntryHullClassifier : The same with a promise that holds.
    """

    def __init__(
        self,
        hull_components: int = 20,
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
        self.hull_components = hull_components
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

    def _smoothed(self, private: BranchedRows, stops: list[Stop] | None) -> Any:
        return super()._smoothed(private, stops if self.fabricate else None)
