"""Rows and hulls at entry level, mended: clusters and smoothing see noisy rows only.

Definitions 12 to 15 of the paper. Whatever the printed algorithm takes from raw rows is chosen here
from public numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sfumato.core.arrays import to_numpy
from sfumato.core.constraints import refuse
from sfumato.exceptions import InvalidInputError
from sfumato.models.hull_search import PARTITIONS, cut_rows, fit_branches
from sfumato.papers.entry_level import EntryEstimator
from sfumato.papers.kahm.smoothing import Stop, fabricate_groups
from sfumato.privacy.guarantee import Guarantee
from sfumato.sums.maps import IntoUnitCube
from sfumato.synthetic.hull_classifier import (
    BranchedRows,
    PrivateAffineHullClassifier,
    hulls_of_branches,
)
from sfumato.tables.bounds import Bounds
from sfumato.tables.cells import check_choice, check_count

Codes = NDArray[np.intp]
DEFAULT_BRANCH = 1000  # Remark 4
MAX_BRANCH = 6000  # its kernel matrix takes 288 MB
# Variance that a principal direction of a class is expected to have where entries range over
# [0, 1]. Chosen once on held-out rows of a public image set, and fixed since.
EXPECTED_VARIANCE = 0.15
# Up to this variance a second smoothing pass takes more detail than noise. Chosen on held-out
# rows, after test rows had shown that two passes fall short at small noise.
LITTLE_NOISE = 2 / 8**2


def plan_branches(
    noise_variance: float, n_features: int, *, largest: int = MAX_BRANCH
) -> tuple[int, str, int]:
    """Return rows per branch, their partition and the smoothing passes, from public numbers.

    Noise of variance s² on p entries hides every principal direction of N rows whose variance is
    below ``s² √(p / N)``. Where 1000 rows would hide the directions that matter, take as many as
    keep them visible, up to `largest`. Where they would, or where the noise itself has more
    variance than such a direction, cut at random: clusters of noise surround the data instead of
    following them.
    """
    needed = n_features * (noise_variance / EXPECTED_VARIANCE) ** 2
    # The second condition was added after test rows of a narrow table had shown clusters to fail.
    if needed <= DEFAULT_BRANCH and noise_variance <= EXPECTED_VARIANCE:
        return DEFAULT_BRANCH, "kmeans", 1 if noise_variance <= LITTLE_NOISE else 2
    return math.ceil(min(max(needed, DEFAULT_BRANCH), largest)), "random", 2


def unpartition(private: BranchedRows, groups: Sequence[Any]) -> NDArray[np.float64]:
    """Put rows of branches back to the places of the rows that they stand for."""
    rows = np.empty(private.rows.shape)
    for place, group in zip(private.places, groups, strict=True):
        rows[place] = to_numpy(group)
    return rows


class _EntryRows(EntryEstimator):
    """What both systems share: private rows, cut into branches and smoothed by hulls."""

    max_branch: ClassVar[int] = MAX_BRANCH
    gaussians_per_class: int | None = None  # of hulls that protect records
    samples_per_gaussian: int | None = None

    hull_components: int
    branch_size: int | None
    partition: str | None
    n_smoothing: int | None
    device: str | None
    n_jobs: int | None
    verbose: bool
    random_state: Any
    guarantee_: Guarantee

    def _release(
        self, X: ArrayLike, y: ArrayLike | None
    ) -> tuple[BranchedRows, list[Stop] | None, Codes, NDArray[Any] | None]:
        """Return noisy rows in branches, where the smoothing of each stops, and the labels."""
        if self.partition is not None:
            check_choice("partition", self.partition, PARTITIONS)
        check_count("hull_components", self.hull_components)
        for name in ("branch_size", "n_smoothing"):
            if getattr(self, name):
                check_count(name, getattr(self, name))
        scale, entries, codes, labels, budget = self._read_entries(X, y)
        mechanism = self._noise(scale, entries)
        variance = mechanism.variance() * float(np.mean(scale.units**-2))
        size, partition, passes = plan_branches(variance, entries.shape[1], largest=self.max_branch)
        receipt = budget.pay(mechanism.event())  # one entry is charged, then all are drawn
        noisy, self.guarantee_ = self._release_entries(scale, entries, mechanism, receipt)
        private = self._cut(noisy, codes, size, partition)
        passes = passes if self.n_smoothing is None else self.n_smoothing
        stops = [Stop(passes)] * len(private.places) if passes else None
        return private, stops, codes, labels

    def _cut(
        self, rows: NDArray[np.float64], codes: Codes, size: int, partition: str
    ) -> BranchedRows:
        """Cut the rows of each class that has any into branches."""
        groups, owners, _ = cut_rows(
            rows,
            codes,
            branch_size=self.branch_size or size,
            partition=self.partition or partition,
            random_state=check_random_state(self.random_state),
        )
        return BranchedRows(rows, list(groups.places), owners.tolist())

    def _smoothed(self, private: BranchedRows, stops: list[Stop] | None) -> Any:
        """Smooth each branch by its own hull; note the passes in `n_smoothing_`."""
        groups = private.groups(self.device)
        if stops is None:
            self.n_smoothing_ = np.zeros(len(groups), dtype=np.intp)
            return groups
        made = fabricate_groups(
            groups,
            n_components=self.hull_components,
            stops=stops,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )
        self.n_smoothing_ = np.array([each.n_passes for each in made], dtype=np.intp)
        return [each.rows for each in made]


class EntryFabricator(_EntryRows):
    """Fabricated rows that protect single numbers (Definitions 13 and 14, mended).

    Parameters
    ----------
    hull_components : int, default=20
        Subspace dimension n of the smoothing hulls.
    branch_size : int, optional
        Rows that are smoothed together; by default chosen from epsilon, `entry_bound` and the
        number of features.
    partition : {"kmeans", "random"}, optional
        How noisy rows are divided into branches; by default chosen with `branch_size`.
    n_smoothing : int, optional
        Passes M of the smoother, 0 for none; by default 2, or 1 if the noise is small.
    epsilon, delta : float, default=1.0, 1e-6
        The budget of one entry; the noise needs no delta.
    bounds : Bounds
        A public box of the rows; required.
    entry_bound : float, optional
        The largest protected change d of one entry; by default any change inside the box.
    ledger : DatasetBudget, optional
        Who pays.
    device : str, optional
        A PyTorch device such as "cuda"; NumPy otherwise.
    n_jobs : int, optional
        Workers for branches, see joblib.
    verbose : bool, default=False
        Show progress bars.
    random_state : int, RandomState or None, default=None
        Public randomness: starts of the partition. Never the noise.

    Attributes
    ----------
    guarantee_ : Guarantee
        The promise for one entry, and what it means for a whole record.
    n_smoothing_ : ndarray of shape (n_branches,)
        Passes of the smoother for each branch.

    Privacy
    -------
    Unit and relation : one entry, replaced by one at most d away; labels, class sizes and the
        number of rows are public.
    Released : every entry with noise. Clusters and smoothing see noisy rows only.
    Sensitivity : d.
    Guarantee : (epsilon, 0) for an entry; the figure for a whole record is stated next to it.
    Assumptions and numerics : bounds are public; noise is float-safe.
        Proof: docs/guarantees/fabrication.md.

    See Also
    --------
    sfumato.Fabricator : Rows that protect whole records.
    """

    max_branch: ClassVar[int] = (
        3000  # the time of a pass grows with its square, the use beyond this hardly
    )

    def __init__(
        self,
        hull_components: int = 20,
        *,
        branch_size: int | None = None,
        partition: str | None = None,
        n_smoothing: int | None = None,
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
        self.partition = partition
        self.n_smoothing = n_smoothing
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
        made = unpartition(private, self._smoothed(private, stops))
        self.rows_ = IntoUnitCube(self.row_bounds, made.shape[1]).to_rows(made)
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


class EntryHullClassifier(_EntryRows, PrivateAffineHullClassifier):
    """The nearest hull of rows that protect single numbers (Definitions 12 and 15, mended).

    Parameters
    ----------
    hull_components : int, default=20
        Subspace dimension n of the hulls.
    n_layers : int, default=5
        Number of layers L.
    branch_size : int, optional
        Rows of a branch; by default chosen from epsilon, `entry_bound` and the number of features.
    partition : {"kmeans", "random"}, optional
        How noisy rows are divided into branches; by default chosen with `branch_size`.
    n_smoothing : int, optional
        Passes M of the smoother before hulls are fitted (Definition 15), by default 2, or 1 if the
        noise is small; 0 fits the hulls on noisy rows (Definition 12).
    epsilon, delta : float, default=1.0, 1e-6
        The budget of one entry; the noise needs no delta.
    bounds : Bounds
        A public box of the rows; required.
    entry_bound : float, optional
        The largest protected change d of one entry; by default any change inside the box.
    ledger : DatasetBudget, optional
        Who pays.
    dtype : {"float64", "float32"}, default="float64"
        Precision of the hulls and of their answers.
    device : str, optional
        A PyTorch device such as "cuda"; NumPy otherwise.
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
        Passes of the smoother for each branch.
    guarantee_ : Guarantee
        The promise for one entry, and what it means for a whole record.

    Privacy
    -------
    Unit and relation : one entry, replaced by one at most d away; labels, class sizes and the
        number of rows are public.
    Released : every entry with noise. Clusters, smoothing and hulls see noisy rows only.
    Sensitivity : d.
    Guarantee : (epsilon, 0) for an entry; the figure for a whole record is stated next to it.
    Assumptions and numerics : bounds are public; noise is float-safe.
        Proof: docs/guarantees/fabrication.md.

    See Also
    --------
    sfumato.PrivateAffineHullClassifier : Hulls that protect whole records.
    """

    def __init__(
        self,
        hull_components: int = 20,
        *,
        n_layers: int = 5,
        branch_size: int | None = None,
        partition: str | None = None,
        n_smoothing: int | None = None,
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
        self.branch_size = branch_size
        self.partition = partition
        self.n_smoothing = n_smoothing
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

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:  # type: ignore[override]
        """Release noisy rows and fit one wide hull per class on them.

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
            raise InvalidInputError("EntryHullClassifier requires y to be passed.")
        self._check_request()
        shared = self._hull_settings()
        private, stops, _, labels = self._release(X, y)
        branches = fit_branches(self._smoothed(private, stops), **shared)
        assert labels is not None  # noqa: S101 - checked with the rows
        self.classes_ = labels[np.unique(private.classes)]
        self.classifier_ = hulls_of_branches(
            branches, private, self.classes_, self.n_features_in_, **shared
        )
        return self

    def _check_stored(self, sizes: dict[str, int]) -> None:  # noqa: ARG002 - of every class
        if not isinstance(self.bounds, Bounds):
            raise refuse("bounds", "a public box")
