"""The classifier that gives a point to the class with the nearest hull (Definitions 7 and 8)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state

from sfumato.core.arrays import Array, is_foreign_array, like, namespace_of, to_numpy
from sfumato.core.constraints import Form, labels, listed, model_of, one_of
from sfumato.models.hulls.partition import RowGroups, partition_groups, places_of
from sfumato.models.hulls.rows import PRECISIONS, check_labels, check_queries, check_rows
from sfumato.models.hulls.search import branch_distances, fit_branches, pruned_branch_distances
from sfumato.models.hulls.wide import (
    WideAffineHull,
    check_hull_parameters,
    check_mergeable,
    nearest_columns,
)
from sfumato.tables.cells import check_choice

SEARCHES = ("exact", "pruned")


class AffineHullClassifier(ClassifierMixin, BaseEstimator):
    r"""Assign a point the label of the class whose wide hull has the nearest image.

    .. math:: \hat c(y) = \arg\min_c Γ_c(y), \qquad Γ_c(y) = \|y - W_c(y)\| .

    Parameters
    ----------
    n_components : int, default=20
        Subspace dimension n; capped by the rank of each branch.
    n_layers : int, default=5
        Number of layers L; capped by the subspace dimension. One layer is often as accurate and
        several times as fast.
    branch_size : int, default=1000
        Rows per branch on average.
    partition : {"kmeans", "random"}, default="kmeans"
        How the rows of a class are cut into branches, see `WideAffineHull`.
    search : {"exact", "pruned"}, default="exact"
        How `predict` finds the nearest hull. "pruned" evaluates all layers only of branches that
        look near; its margins come from experiments and nothing certifies them, so look at
        `pruning_agreement` on data of your own. All other methods are exact.
    dtype : {"float64", "float32"}, default="float64"
        Precision of the stored model and of its answers. The fit is always in double precision.
    n_jobs : int, optional
        Workers for branches and for batches of queries, see joblib.
    verbose : bool, default=False
        Show a progress bar while fitting.
    random_state : int, RandomState or None, default=None
        Starts of the k-means, or the random partition.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    hulls_ : list of WideAffineHull
        One per class, in the order of `classes_`.
    n_features_in_ : int

    See Also
    --------
    WideAffineHull : The hull of one class.
    KernelAffineHull : Scale, offset and far points.

    Notes
    -----
    Scale features to [0, 1]. A point that has no image under a hull is infinitely far from it; one
    that has no image under any hull gets the first class.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sfumato.models.hulls import AffineHullClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = AffineHullClassifier(random_state=0).fit(X[:1200] / 16, y[:1200])
    >>> round(model.score(X[1200:] / 16, y[1200:]), 2)
    0.96
    """

    stored_form: ClassVar[Form] = {
        "classes_": labels("c"),
        "hulls_": listed(model_of("WideAffineHull", n_features_in_="d"), size="c"),
        "search": one_of(*SEARCHES),
        "dtype": one_of(*PRECISIONS),
    }

    def __init__(
        self,
        n_components: int = 20,
        *,
        n_layers: int = 5,
        branch_size: int = 1000,
        partition: str = "kmeans",
        search: str = "exact",
        dtype: str = "float64",
        n_jobs: int | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_layers = n_layers
        self.branch_size = branch_size
        self.partition = partition
        self.search = search
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn one wide hull per class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Labels of any type; a class may have a single row.

        Returns
        -------
        Self
            The fitted estimator.
        """
        parameters = check_hull_parameters(self)
        check_choice("search", self.search, SEARCHES)
        rows = check_rows(self, X)
        self.classes_, codes = np.unique(check_labels(y, rows.shape[0]), return_inverse=True)
        generator = check_random_state(self.random_state)
        per_class = places_of(codes)
        numbers = self._partition(RowGroups(rows, per_class), generator)
        inside = [places_of(n) for n in numbers]
        places = [of[at] for of, cut in zip(per_class, inside, strict=True) for at in cut]
        groups = RowGroups(rows, places)
        branches = fit_branches(groups, n_jobs=self.n_jobs, verbose=self.verbose, **parameters)
        self.hulls_ = self._hulls_of(branches, numbers)
        return self

    def predict(self, X: Any, *, search: str | None = None) -> Array:
        """Return the label of the nearest hull (62).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        search : {"exact", "pruned"}, optional
            Instead of the parameter of the estimator.

        Returns
        -------
        array of shape (n_samples,)
            A tensor for a tensor when the labels are numbers.
        """
        rows = check_queries(self, X)
        search = check_choice("search", self.search if search is None else search, SEARCHES)
        find = branch_distances if search == "exact" else pruned_branch_distances
        labels = self.classes_[self._nearest_class(find, rows)]
        return like(X, labels) if is_foreign_array(X) and labels.dtype.kind in "biuf" else labels

    def distances(self, X: Any) -> Array:
        """Return the distance from each row to its image under the hull of each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Distances.
        """
        rows = check_queries(self, X)
        return like(
            X, self._min_per_class(branch_distances(self._branches(), rows, n_jobs=self.n_jobs))
        )

    def decision_function(self, X: Any) -> Array:
        r"""Return the logarithm of the matching score, :math:`-Γ_c^2 / \sum_c Γ_c^2`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        array of shape (n_samples, n_classes), or (n_samples,) for two classes
            With two classes, the value of the second minus that of the first.
        """
        scores = _log_matching(self.distances(X))
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def matching_score(self, X: Any) -> Array:
        r"""Return :math:`\exp(-Γ_c^2 / \sum_c Γ_c^2)`, between 1/e and 1 (63).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Scores.
        """
        scores = _log_matching(self.distances(X))
        return namespace_of(scores).exp(scores)

    def predict_proba(self, X: Any) -> Array:
        """Return the matching scores divided by their sum.

        They order the classes but are no calibrated chances: with C classes none can pass
        ``1 / (1 + (C - 1) / e)``. Use `CalibratedClassifierCV` where chances are needed.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Shares that sum to one.
        """
        scores = self.matching_score(X)
        return scores / namespace_of(scores).sum(scores, axis=1, keepdims=True)

    def pruning_agreement(self, X: Any) -> float:
        """Return the share of rows to which pruned and exact search give the same label.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        float
            The share.
        """
        pruned, exact = (to_numpy(self.predict(X, search=search)) for search in SEARCHES)
        return float(np.mean(pruned == exact))

    def merge(self, *others: AffineHullClassifier) -> AffineHullClassifier:
        """Return the classifier that knows the branches of all parties, class by class (104).

        Parameters
        ----------
        *others : AffineHullClassifier
            Fitted on rows of the same width; they may know other classes.

        Returns
        -------
        AffineHullClassifier
            The merged classifier.
        """
        parties = [self, *others]
        check_mergeable(parties)
        merged = type(self)(**self.get_params(deep=False))
        merged.n_features_in_ = self.n_features_in_
        merged.classes_ = np.unique(np.concatenate([party.classes_ for party in parties]))
        merged.hulls_ = []
        for label in merged.classes_:
            first, *rest = [h for party in parties for h in party._hulls_with(label)]
            merged.hulls_.append(first.merge(*rest))
        return merged

    def _hulls_with(self, label: Any) -> list[WideAffineHull]:
        return [
            hull for known, hull in zip(self.classes_, self.hulls_, strict=True) if known == label
        ]

    def _branches(self) -> list[Any]:
        return [branch for hull in self.hulls_ for branch in hull.branches_]

    def _partition(
        self, classes: RowGroups, generator: np.random.RandomState
    ) -> list[NDArray[np.intp]]:
        return partition_groups(
            classes,
            branch_size=self.branch_size,
            partition=self.partition,
            random_state=generator,
        )

    def _hulls_of(
        self, branches: list[Any], numbers: list[NDArray[np.intp]]
    ) -> list[WideAffineHull]:
        parameters = {k: v for k, v in self.get_params(deep=False).items() if k != "search"}
        pattern = WideAffineHull(**parameters)
        ends = np.cumsum([n.max() + 1 for n in numbers])
        starts = [0, *ends[:-1]]
        cuts = zip(starts, ends, numbers, strict=True)
        return [pattern.of_branches(branches[a:b], n) for a, b, n in cuts]

    def _min_per_class(self, distances: Array) -> Array:
        xp = namespace_of(distances)
        ends = np.cumsum([len(hull.branches_) for hull in self.hulls_]).tolist()
        starts = [0, *ends[:-1]]
        least = [xp.min(distances[:, a:b], axis=1) for a, b in zip(starts, ends, strict=True)]
        return xp.stack(least, axis=1)

    def _nearest_class(self, find: Any, rows: Array) -> NDArray[np.intp]:
        distances = find(self._branches(), rows, n_jobs=self.n_jobs)
        return nearest_columns(self._min_per_class(distances))


def _log_matching(distances: Array) -> Array:
    """Return ``-Γ_c² / Σ Γ²``; infinite distances share the sum equally, as in the limit."""
    xp = namespace_of(distances)
    endless = xp.isinf(distances)
    shares = xp.astype(endless, distances.dtype)
    has_endless = xp.any(endless, axis=1, keepdims=True)
    # Dividing by the largest distance first keeps the squares from passing the largest float.
    scale = xp.max(xp.where(endless, xp.zeros_like(distances), distances), axis=1, keepdims=True)
    relative = distances / xp.where(scale > 0, scale, xp.ones_like(scale))
    squares = xp.where(has_endless, shares, relative * relative)
    total = xp.sum(squares, axis=1, keepdims=True)
    even = xp.full_like(squares, 1 / squares.shape[1])  # all distances zero
    return -xp.where(total > 0, squares / xp.where(total > 0, total, xp.ones_like(total)), even)
