"""Private rows and hulls of Definitions 12 to 15: mended, and as printed.

Noisy rows come first. Definition 12 then sees noisy rows only, so its promise is proved. Fabricated
rows (Definition 14, Remark 4) also take clusters and the stop of the smoother (88) from raw rows:
as printed no finite epsilon holds, and Definition 15 inherits that. Mended (Entry...), clusters
come from noisy rows, and the stop from noisy rows and the known variance of their noise.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sfumato.core.arrays import to_numpy
from sfumato.core.constraints import Form, flag, one_of, or_none, refuse, whole
from sfumato.exceptions import InvalidInputError, RefutedGuaranteeWarning
from sfumato.ledger.receipt import prepay
from sfumato.models.hull_search import PARTITIONS, cut_rows, fit_branches
from sfumato.models.rows import PRECISIONS
from sfumato.papers.entry_level import EntryEstimator
from sfumato.papers.kahm.smoothing import MAX_PASSES, fabricate_groups
from sfumato.privacy.events import NonPrivateEvent
from sfumato.privacy.guarantee import Status
from sfumato.sums.maps import IntoUnitCube
from sfumato.synthetic.hull_classifier import (
    BranchedRows,
    HullAnswers,
    hulls_of_branches,
    on_device,
)
from sfumato.tables.bounds import Bounds

Codes = NDArray[np.intp]
DEFAULT_BRANCH = 1000  # Remark 4
MAX_BRANCH = 6000  # its kernel matrix takes 288 MB
MAX_ESTIMATED_PASSES = 4  # by a threshold that is itself an estimate
# Variance that a principal direction of a class is expected to have where entries range over
# [0, 1]. Chosen once on held-out rows of a public image set, and fixed since.
EXPECTED_VARIANCE = 0.15
HULL_PARAMETERS = """hull_components : int, default=20
        Subspace dimension n of the hulls.
    branch_size : int, optional
        Rows of a branch; as printed about 1000, mended chosen from epsilon, `entry_bound` and the
        number of features."""
SHARED_PARAMETERS = """device : str, optional
        A PyTorch device such as "cuda"; NumPy otherwise.
    n_jobs : int, optional
        Workers for branches, see joblib.
    random_state : int, RandomState or None, default=None
        Public randomness: starts of the partition. Never the noise."""


def plan_branches(
    noise_variance: float, n_features: int, *, largest: int = MAX_BRANCH
) -> tuple[int, str]:
    """Return rows per branch and their partition, from public numbers.

    Noise of variance s² on p entries hides every principal direction of N rows whose variance is
    below ``s² √(p / N)``. Where 1000 rows would hide the directions that matter, take as many as
    keep them visible, up to `largest`. Where they would, or where the noise itself has more
    variance than such a direction, cut at random: clusters of noise surround the data instead of
    following them.
    """
    needed = n_features * (noise_variance / EXPECTED_VARIANCE) ** 2
    # The second condition was added after test rows of a narrow table had shown clusters to fail.
    if needed <= DEFAULT_BRANCH and noise_variance <= EXPECTED_VARIANCE:
        return DEFAULT_BRANCH, "kmeans"
    return math.ceil(min(max(needed, DEFAULT_BRANCH), largest)), "random"


# Private rows in branches; codes and labels of the rows.
Released = tuple[BranchedRows, Codes, NDArray[Any] | None]


@dataclass(eq=False, repr=False)
class _Rows(EntryEstimator):
    """What all systems share: private rows, cut into branches and smoothed by hulls."""

    hull_components: int = 20
    _: KW_ONLY
    branch_size: int | None = None
    device: str | None = None
    n_jobs: int | None = None
    random_state: Any = None

    max_branch: ClassVar[int] = MAX_BRANCH
    parameters: ClassVar[Form] = {
        **EntryEstimator.parameters,
        "hull_components": whole(least=1),
        "branch_size": or_none(whole(least=1)),
    }

    def __init_subclass__(cls, **options: Any) -> None:
        for name, text in (("$hulls", HULL_PARAMETERS), ("$shared", SHARED_PARAMETERS)):
            cls.__doc__ = (cls.__doc__ or "").replace(name, text)
        super().__init_subclass__(**options)

    def _cut(
        self, rows: NDArray[np.float64], codes: Codes, size: int, partition: str
    ) -> BranchedRows:
        """Cut the rows of each class that has any into branches."""
        groups, owners = cut_rows(
            on_device(rows, self.device),
            codes,
            branch_size=self.branch_size or size,
            partition=partition,
            random_state=check_random_state(self.random_state),
        )
        return BranchedRows(rows, list(groups.places), owners.tolist())

    def _smoothed(self, private: BranchedRows, **stop: Any) -> BranchedRows:
        """Smooth each branch by its own hull; note the passes in `n_smoothing_`."""
        made = fabricate_groups(
            private.groups(self.device),
            n_components=self.hull_components,
            n_jobs=self.n_jobs,
            **stop,
        )
        self.n_smoothing_ = np.array([n_passes for _, n_passes in made], dtype=np.intp)
        rows = np.empty(private.rows.shape)
        for place, (group, _) in zip(private.places, made, strict=True):
            rows[place] = to_numpy(group)
        return replace(private, rows=rows)


@dataclass(eq=False, repr=False)
class _Mended(_Rows):
    """Clusters and smoothing of noisy rows."""

    _: KW_ONLY
    partition: str | None = None
    n_smoothing: int | None = None

    parameters: ClassVar[Form] = {
        **_Rows.parameters,
        "partition": or_none(one_of(*PARTITIONS)),
        "n_smoothing": or_none(whole()),
    }

    def _release(self, X: ArrayLike, y: ArrayLike | None) -> Released:
        budget, scale, entries, codes, labels = self._read_entries(X, y)
        mechanism = self._noise(scale, entries)
        variances = mechanism.variance() * scale.units**-2.0
        size, partition = plan_branches(
            float(np.mean(variances)), entries.shape[1], largest=self.max_branch
        )
        receipt = budget.charge(mechanism.event())  # one entry is charged, then all are drawn
        noisy, self.guarantee_ = self._release_entries(scale, entries, mechanism, receipt)
        private = self._cut(noisy, codes, size, self.partition or partition)
        if self.n_smoothing is None:  # until the error is what it was before the noise
            noise = float(np.sum(variances))
            private = self._smoothed(private, passes=MAX_ESTIMATED_PASSES, noise=noise)
        elif self.n_smoothing:
            private = self._smoothed(private, passes=self.n_smoothing)
        return private, codes, labels


class _Printed(_Rows):
    """Algorithm 1, and what the paper does with it; rows stay in units of the data."""

    rescales: ClassVar[bool] = False

    def __repr__(self, **options: Any) -> str:
        shown: str = super().__repr__(**options)
        return f"{shown}  # NO PRIVACY: as printed" if self._reads_raw_rows() else shown

    def _reads_raw_rows(self) -> bool:
        return True

    def _release(self, X: ArrayLike, y: ArrayLike | None) -> Released:
        """Return rows as Definition 14 fabricates them, or noisy ones (Algorithm 1)."""
        budget, scale, entries, codes, labels = self._read_entries(X, y)
        mechanism = self._noise(scale, entries, atom=self.delta)
        if not self._reads_raw_rows():
            receipt = budget.charge(mechanism.event())
            noisy, self.guarantee_ = self._release_entries(scale, entries, mechanism, receipt)
            return self._cut(noisy, codes, DEFAULT_BRANCH, "kmeans"), codes, labels
        warnings.warn(
            "The printed algorithm clusters the raw rows and stops by their error. That protects "
            "nobody, whatever the noise: the status of the guarantee is 'refuted'. Mended: "
            "EntryFabricator and EntryHullClassifier of sfumato.papers.kahm.",
            RefutedGuaranteeWarning,
            stacklevel=4,
        )
        raw = self._cut(entries, codes, DEFAULT_BRANCH, "kmeans")  # (98)
        # The second event has no finite epsilon, so that no budget pays for this.
        events = mechanism.event(), NonPrivateEvent()
        receipt = prepay(self.ledger, *events, unit=self.protected_unit, relation=self.relation)
        noisy, promise = self._release_entries(scale, entries, mechanism, receipt)
        self.guarantee_ = replace(
            promise,
            epsilon=None,
            status=Status.REFUTED,
            claimed_epsilon=float(self.epsilon),
            record_reading=None,
            events=receipt.events,
        )
        private = replace(raw, rows=noisy)
        if getattr(self, "fabricate", True):
            private = self._smoothed(private, passes=MAX_PASSES, raw=raw.groups(self.device))
            if not getattr(self, "raw_clusters", True):  # Definition 15
                private = self._cut(private.rows, codes, DEFAULT_BRANCH, "kmeans")
        return private, codes, labels

    def _queries(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        return rows


class _Fabricator(_Rows):
    """One fabricated row for each row."""

    max_branch: ClassVar[int] = 3000  # a pass takes its square, the use beyond this is small

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
        private, codes, labels = self._release(X, y)
        self.rows_ = private.rows
        if self.rescales:
            self.rows_ = IntoUnitCube(self.row_bounds, self.n_features_in_).to_rows(self.rows_)
        self.labels_ = None if labels is None else labels[codes]
        return self

    def fabricate(self) -> Any:
        """Return the fabricated rows, and their labels where some were given.

        Returns
        -------
        rows, or rows and labels
            As many as were seen.
        """
        check_is_fitted(self)
        return self.rows_ if self.labels_ is None else (self.rows_, self.labels_)


@dataclass(eq=False, repr=False)
class _HullClassifier(_Rows, HullAnswers):
    """The nearest hull of private rows."""

    _: KW_ONLY
    n_layers: int = 5
    dtype: str = "float64"

    parameters: ClassVar[Form] = {
        **_Rows.parameters,
        "n_layers": whole(least=1),
        "dtype": one_of(*PRECISIONS),
    }

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Release private rows and fit one wide hull per class on them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Labels; required.

        Returns
        -------
        Self
            The fitted estimator.
        """
        if y is None:
            raise InvalidInputError(f"{type(self).__name__} requires y to be passed, next to X.")
        shared = self._hull_settings()
        private, _, labels = self._release(X, y)
        assert labels is not None  # noqa: S101 - checked with the rows
        branches = fit_branches(private.groups(self.device), **shared)
        self.classes_ = labels[np.unique(private.classes)]
        self.classifier_ = hulls_of_branches(
            branches, private, self.classes_, self.n_features_in_, **shared
        )
        return self

    def _check_stored(self, sizes: dict[str, int]) -> None:  # noqa: ARG002 - of every class
        if not isinstance(self.bounds, Bounds):
            raise refuse("bounds", "a public box")


@dataclass(eq=False, repr=False)
class EntryFabricator(_Mended, _Fabricator):
    """Fabricated rows that protect single numbers (Definitions 13 and 14, mended).

    Parameters
    ----------
    $hulls
    partition : {"kmeans", "random"}, optional
        How noisy rows are divided into branches; by default chosen with `branch_size`.
    n_smoothing : int, optional
        Passes M of the smoother, 0 for none; by default until the modelling error is what the rows
        had without their noise, as estimated from noisy rows, and at most 4.
    $entry
    $shared

    Attributes
    ----------
    guarantee_ : Guarantee
        The promise for one entry, and what it means for a whole record.
    n_smoothing_ : ndarray of shape (n_branches,)
        Passes of the smoother for each branch.

    Privacy
    -------
    $privacy
    Assumptions and numerics : bounds are public; noise is float-safe.
        Proof: docs/guarantees/fabrication.md.

    See Also
    --------
    sfumato.Fabricator : Rows that protect whole records.
    """


@dataclass(eq=False, repr=False)
class EntryHullClassifier(_Mended, _HullClassifier):
    """The nearest hull of rows that protect single numbers (Definitions 12 and 15, mended).

    Parameters
    ----------
    $hulls
    n_layers : int, default=5
        Number of layers L.
    partition : {"kmeans", "random"}, optional
        How noisy rows are divided into branches; by default chosen with `branch_size`.
    n_smoothing : int, optional
        Passes M of the smoother before hulls are fitted (Definition 15), by default as of
        `EntryFabricator`; 0 fits the hulls on noisy rows (Definition 12).
    $entry
    dtype : {"float64", "float32"}, default="float64"
        Precision of the hulls and of their answers.
    $shared

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels that have hulls, sorted.
    classifier_ : AffineHullClassifier
        The hulls, in the coordinates of the unit cube.
    n_smoothing_ : ndarray of shape (n_branches,)
        Passes of the smoother for each branch.
    guarantee_ : Guarantee
        The promise for one entry, and what it means for a whole record.

    Privacy
    -------
    $privacy
    Assumptions and numerics : bounds are public; noise is float-safe.
        Proof: docs/guarantees/fabrication.md.

    See Also
    --------
    sfumato.PrivateAffineHullClassifier : Hulls that protect whole records.
    """

    parameters: ClassVar[Form] = {**_Mended.parameters, **_HullClassifier.parameters}


@dataclass(eq=False, repr=False)
class PrintedFabricator(_Printed, _Fabricator):
    """Fabricated rows as printed (Definition 14, Remark 4): refuted, for study.

    Clusters (98) and the stop of the smoother (96), after at most 60 passes, are read off the raw
    rows. Rows are clipped to the bounds and otherwise taken as they are.

    Parameters
    ----------
    $hulls
    $entry
    $shared

    Attributes
    ----------
    guarantee_ : Guarantee
        That nothing is promised.
    n_smoothing_ : ndarray of shape (n_branches,)
        Passes of the smoother, which tell of the raw rows.

    Privacy
    -------
    Unit : one number of one row is what the paper promises; nothing holds, of a row or a number.
    Released : noisy rows, clustered and smoothed with the help of raw rows.
    Proof of the contrary : docs/guarantees/fabrication.md.

    See Also
    --------
    EntryFabricator : The same with a promise that holds.
    """


@dataclass(eq=False, repr=False)
class PrintedAffineHullClassifier(_Printed, _HullClassifier):
    """The nearest hull of private rows as printed: Definition 12 proved, Definition 15 refuted.

    Rows are clipped to the bounds and otherwise taken as they are.

    Parameters
    ----------
    $hulls
    n_layers : int, default=5
        Number of layers L.
    fabricate : bool, default=True
        Definition 15, hulls of fabricated rows, which are clustered once more; refuted, since
        fabricated rows are. False: Definition 12, hulls of noisy rows and their clusters, which
        protects an entry with (epsilon, delta).
    raw_clusters : bool, default=False
        Take the clusters of the raw rows for the branches too. This is not printed; the figures of
        Table 5 suggest it. Refuted.
    $entry
    dtype : {"float64", "float32"}, default="float64"
        Precision of the hulls and of their answers.
    $shared

    Attributes
    ----------
    classes_, classifier_
        As of `EntryHullClassifier`, in units of the data.
    n_smoothing_ : ndarray of shape (n_branches,)
        Passes of the smoother, which tell of the raw rows.
    guarantee_ : Guarantee
        For one entry with Definition 12, else that nothing is promised.

    Privacy
    -------
    Unit and relation : one number of one row, replaced by one at most d away; labels are public.
    Released : noisy rows; with `fabricate` or `raw_clusters` raw rows decide their clusters.
    Guarantee : (epsilon, delta) for a number with Definition 12, else none.
        Proof: docs/guarantees/fabrication.md.

    See Also
    --------
    EntryHullClassifier : The same with a promise that holds.
    """

    _: KW_ONLY
    fabricate: bool = True
    raw_clusters: bool = False

    parameters: ClassVar[Form] = {
        **_HullClassifier.parameters,
        "fabricate": flag(),
        "raw_clusters": flag(),
    }

    def _reads_raw_rows(self) -> bool:
        return self.fabricate or self.raw_clusters
