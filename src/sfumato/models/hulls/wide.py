"""The wide hull: one deep hull per cluster of rows (Definitions 5 and 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sfumato.core.arrays import Array, like, namespace_of, to_numpy
from sfumato.core.constraints import Form, integers, listed, one_of
from sfumato.exceptions import InvalidInputError
from sfumato.models.hulls.branch import Branch, stored_branch
from sfumato.models.hulls.partition import PARTITIONS, RowGroups, partition_rows, places_of
from sfumato.models.hulls.rows import PRECISIONS, check_queries, check_rows
from sfumato.models.hulls.search import branch_distances, fit_branches, nearest_images
from sfumato.tables.cells import check_choice, check_count


class WideAffineHull(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    r"""Cut many rows into branches, fit a deep hull to each and keep the nearest image.

    .. math:: W(y) = D_{\hat s}(y), \quad \hat s = \arg\min_{s \le S} \|y - D_s(y)\|, \quad
              S = \lceil N / \text{branch size} \rceil .

    The time of `fit` is linear in the number of rows, since a branch does not grow.

    Parameters
    ----------
    n_components : int, default=20
        Subspace dimension n; capped by the rank of each branch.
    n_layers : int, default=5
        Number of layers L; capped by the subspace dimension.
    branch_size : int, default=1000
        Rows per branch on average.
    partition : {"kmeans", "random"}, default="kmeans"
        How rows are cut into branches. Where noise dominates the rows, "random" serves better:
        clusters of noise surround the data instead of following them.
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
    branches_ : list of dict
        The folded model of each branch.
    branch_ : ndarray of shape (n_training_rows,)
        Number of the branch of each training row.
    n_features_in_ : int

    See Also
    --------
    DeepAffineHull : A single branch.
    AffineHullClassifier : One wide hull per class.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.models.hulls import WideAffineHull
    >>> rows = np.random.default_rng(0).random((90, 3))
    >>> hull = WideAffineHull(3, branch_size=30, random_state=0).fit(rows)
    >>> len(hull.branches_), hull.distance(rows).shape
    (3, (90,))
    """

    stored_form: ClassVar[Form] = {
        "branches_": listed(stored_branch, size="b"),
        "branch_": integers(None, below="b"),
        "dtype": one_of(*PRECISIONS),
    }

    def __init__(
        self,
        n_components: int = 20,
        *,
        n_layers: int = 5,
        branch_size: int = 1000,
        partition: str = "kmeans",
        dtype: str = "float64",
        n_jobs: int | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_layers = n_layers
        self.branch_size = branch_size
        self.partition = partition
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Cut the rows into branches and learn each.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : None
            Not used.

        Returns
        -------
        Self
            The fitted estimator.
        """
        parameters = check_hull_parameters(self)
        rows = check_rows(self, X)
        self.branch_ = partition_rows(
            rows,
            branch_size=self.branch_size,
            partition=self.partition,
            random_state=check_random_state(self.random_state),
        )
        groups = RowGroups(rows, places_of(self.branch_))
        self.branches_ = fit_branches(
            groups, n_jobs=self.n_jobs, verbose=self.verbose, **parameters
        )
        return self

    def transform(self, X: Any) -> Array:
        """Return the image of each row under its nearest branch.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        array of shape (n_samples, n_features)
            Nearest images.
        """
        rows = check_queries(self, X)
        numbers = nearest_columns(self._distances(rows))
        return like(X, nearest_images(self.branches_, numbers, rows))

    def distance(self, X: Any) -> Array:
        """Return the distance from each row to its image (60); infinite where there is none.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        array of shape (n_samples,)
            Distances.
        """
        distances = self._distances(check_queries(self, X))
        return like(X, namespace_of(distances).min(distances, axis=1))

    def nearest_branch(self, X: Any) -> NDArray[np.intp]:
        """Return the number of the branch with the nearest image for each row (56).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Numbers of branches.
        """
        return nearest_columns(self._distances(check_queries(self, X)))

    def merge(self, *others: WideAffineHull) -> WideAffineHull:
        """Return the hull with the branches of all: its distance is the least of theirs (101).

        Parameters
        ----------
        *others : WideAffineHull
            Fitted on rows of the same width, for example by other parties.

        Returns
        -------
        WideAffineHull
            The merged hull.
        """
        hulls = [self, *others]
        check_mergeable(hulls)
        offsets = np.cumsum([0, *(len(hull.branches_) for hull in hulls[:-1])])
        numbers = [hull.branch_ + shift for hull, shift in zip(hulls, offsets, strict=True)]
        branches = [branch for hull in hulls for branch in hull.branches_]
        return self.of_branches(branches, np.concatenate(numbers))

    def of_branches(self, branches: list[Branch], numbers: NDArray[np.intp]) -> WideAffineHull:
        """Return a fitted hull with these parameters around branches that were fitted elsewhere.

        Parameters
        ----------
        branches : list of dict
            Branches as in `branches_`.
        numbers : ndarray of shape (n_training_rows,)
            Number of the branch of each training row.

        Returns
        -------
        WideAffineHull
            The fitted hull.
        """
        hull: WideAffineHull = clone(self)
        hull.branches_ = branches
        hull.branch_ = numbers
        hull.n_features_in_ = int(branches[0]["mean"].shape[0])
        return hull

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = [self.dtype]
        return tags

    def _distances(self, rows: Array) -> Array:
        return branch_distances(self.branches_, rows, n_jobs=self.n_jobs)


def nearest_columns(distances: Array) -> NDArray[np.intp]:
    """Return the place of the least distance in each row; the first of equals."""
    return np.asarray(np.argmin(to_numpy(distances), axis=1))


def check_hull_parameters(estimator: Any) -> dict[str, Any]:
    """Check the parameters of a wide hull; return those that a branch needs."""
    check_count("branch_size", estimator.branch_size)
    check_choice("partition", estimator.partition, PARTITIONS)
    return {
        "n_components": check_count("n_components", estimator.n_components),
        "n_layers": check_count("n_layers", estimator.n_layers),
        "dtype": check_choice("dtype", estimator.dtype, PRECISIONS),
    }


def check_mergeable(estimators: Sequence[Any]) -> None:
    """Refuse to merge estimators that differ in the width of their rows or in precision."""
    for estimator in estimators:
        check_is_fitted(estimator)
    for words, name in (("number of features", "n_features_in_"), ("precision", "dtype")):
        found = sorted({getattr(estimator, name) for estimator in estimators})
        if len(found) > 1:
            raise InvalidInputError(f"Only hulls of the same {words} can be merged. Got {found}.")
