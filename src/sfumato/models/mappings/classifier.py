"""The classifier that gives a row to the autoencoder that rebuilds it best (Algorithm 4)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state

from sfumato.core.arrays import Array, is_foreign_array, like, namespace_of, to_numpy
from sfumato.core.constraints import Form, integers, labels, listed, one_of
from sfumato.models.hulls.partition import RowGroups, partition_rows, places_of
from sfumato.models.hulls.rows import check_labels, check_queries, check_rows
from sfumato.models.mappings.autoencoder import check_parameters
from sfumato.models.mappings.branch import stored_branch
from sfumato.models.mappings.many import branch_errors, filtered_by, fit_branches
from sfumato.tables.cells import check_count


class MembershipClassifier(ClassifierMixin, BaseEstimator):
    r"""Assign a row the label of the class whose wide autoencoder rebuilds it best.

    .. math:: \hat c(y) = \arg\min_c \|y - W_c(y)\|^2 .

    Parameters
    ----------
    n_components : int, default=20
        Subspace dimension n of the first layer; capped by the rank of each cluster.
    n_layers : int, default=5
        Number of layers L.
    inducing_ratio : float, default=0.5
        Largest number of inducing points of the first layer, as a share of the rows, r_max.
    kappa : float, default=0.1
        Smallest tau(M, 1), see `MembershipMapping`.
    center : bool, default=True
        Subtract each cluster's mean first; as printed (False), outputs are drawn to zero.
    branch_size : int, default=1000
        Rows per cluster on average.
    dtype : {"float64", "float32"}, default="float64"
        Precision of the stored model and of its answers. The fit is always in double precision.
    n_jobs : int, optional
        Workers for clusters and for batches of queries, see joblib.
    verbose : bool, default=False
        Show progress bars.
    random_state : int, RandomState or None, default=None
        Starts of all k-means.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    branches_ : list of dict
        The folded model of each cluster.
    branch_classes_ : ndarray of shape (n_branches,)
        Position in `classes_` of the class of each cluster.
    n_features_in_ : int

    Notes
    -----
    Scale features to about [0, 1].

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sfumato import MembershipClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = MembershipClassifier(10, n_layers=2, random_state=0).fit(X[:1200] / 16, y[:1200])
    >>> bool(model.score(X[1200:] / 16, y[1200:]) > 0.93)
    True
    """

    stored_form: ClassVar[Form] = {
        "classes_": labels("c"),
        "branches_": listed(stored_branch, size="b"),
        "branch_classes_": integers("b", below="c", all_of_them=True),
        "dtype": one_of("float64", "float32"),
    }

    def __init__(
        self,
        n_components: int = 20,
        *,
        n_layers: int = 5,
        inducing_ratio: float = 0.5,
        kappa: float = 0.1,
        center: bool = True,
        branch_size: int = 1000,
        dtype: str = "float64",
        n_jobs: int | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_layers = n_layers
        self.inducing_ratio = inducing_ratio
        self.kappa = kappa
        self.center = center
        self.branch_size = branch_size
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn one wide autoencoder per class.

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
        return self.fit_with_width(X, y, None)

    def fit_with_width(self, X: Any, y: Any, width: int | None) -> Self:
        """Fit rows that were rotated into fewer coordinates and keep the width they had.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Labels.
        width : int or None
            The number of features p by which errors are averaged; None for that of X.

        Returns
        -------
        Self
            The fitted estimator.
        """
        parameters = check_parameters(self)
        check_count("branch_size", self.branch_size)
        rows = check_rows(self, X)
        self.classes_, codes = np.unique(check_labels(y, rows.shape[0]), return_inverse=True)
        generator = check_random_state(self.random_state)
        places, classes = [], []
        for code, members in enumerate(places_of(codes)):
            numbers = partition_rows(
                RowGroups(rows, [members])[0],
                branch_size=self.branch_size,
                partition="kmeans",
                random_state=generator,
            )
            places += [members[inside] for inside in places_of(numbers)]
            classes += [code] * (int(numbers.max()) + 1)
        self.branches_ = fit_branches(
            RowGroups(rows, places),
            n_jobs=self.n_jobs,
            verbose=self.verbose,
            generator=generator,
            width=width,
            **parameters,
        )
        self.branch_classes_ = np.array(classes)
        return self

    def predict(self, X: Any) -> Array:
        """Return the label of the class with the least error (71).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
        """
        found = to_numpy(self.errors(X)).argmin(axis=1)
        labels = self.classes_[found]
        return like(X, labels) if is_foreign_array(X) and labels.dtype.kind in "biuf" else labels

    def errors(self, X: Any) -> Array:
        """Return the squared error of each row under each class, shape (n_samples, n_classes).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Squared errors.
        """
        rows = check_queries(self, X)
        found = branch_errors(self.branches_, rows, n_jobs=self.n_jobs, verbose=self.verbose)
        return like(X, self._min_per_class(found))

    def decision_function(self, X: Any) -> Array:
        """Return minus the errors; with two classes, the first error less the second.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Scores; the second shape for more than two classes.
        """
        found = self.errors(X)
        return found[:, 0] - found[:, 1] if found.shape[1] == 2 else -found

    def filtered(self, X: Any, codes: NDArray[np.intp]) -> Array:
        """Filter each row by the autoencoder of one class, as source to target models need it (84).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        codes : ndarray of shape (n_samples,)
            Position in `classes_` of the class for each row.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The filtered rows.
        """
        rows = check_queries(self, X)
        found = to_numpy(branch_errors(self.branches_, rows, n_jobs=self.n_jobs))
        foreign = self.branch_classes_[None, :] != codes[:, None]
        return like(X, self._by_branch(rows, np.where(foreign, np.inf, found).argmin(axis=1)))

    def _by_branch(self, rows: Array, numbers: NDArray[np.intp]) -> Array:
        return filtered_by(self.branches_, numbers, rows)

    def _min_per_class(self, found: Array) -> Array:
        xp = namespace_of(found)
        cuts = np.searchsorted(self.branch_classes_, np.arange(len(self.classes_) + 1)).tolist()
        pairs = pairwise(cuts)
        return xp.stack([xp.min(found[:, a:b], axis=1) for a, b in pairs], axis=1)
