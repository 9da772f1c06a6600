"""The wide autoencoder: one autoencoder per cluster of rows (Algorithm 3, Definition 13)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import check_random_state

from sfumato.hulls.partition import RowGroups, partition_rows, places_of
from sfumato.hulls.rows import check_count, check_queries, check_rows
from sfumato.kernels.arrays import Array, like, namespace_of, to_numpy
from sfumato.mappings.branch import stored_branch
from sfumato.mappings.many import branch_errors, filtered_by, fit_branches
from sfumato.mappings.parameters import check_parameters
from sfumato.persistence.forms import Form, listed, one_of

__all__ = ["WideMembershipAutoencoder"]


class WideMembershipAutoencoder(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    r"""Cut many rows into clusters, fit an autoencoder to each and keep the nearest output.

    .. math:: W(y) = D_{s^*}(y), \quad s^* = \arg\min_{s \le S} \|y - D_s(y)\|^2, \quad
              S = \lceil N / \text{branch size} \rceil .

    Parameters
    ----------
    n_components : int, default=20
        Subspace dimension n of the first layer.
    n_layers : int, default=5
        Number of layers L.
    inducing_ratio : float, default=0.5
        Most inducing points of the first layer as a share of the rows, r_max.
    kappa : float, default=0.1
        Least tau(M, 1), see `MembershipMapping`.
    center : bool, default=True
        Take the mean of each cluster off first; as printed (False) outputs draw towards zero.
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
    branches_ : list of dict
        The folded model of each cluster.
    n_features_in_ : int

    See Also
    --------
    MembershipAutoencoder : A single cluster.
    MembershipClassifier : One wide autoencoder per class.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sfumato import WideMembershipAutoencoder
    >>> X = load_digits().data / 16
    >>> model = WideMembershipAutoencoder(5, n_layers=1, branch_size=600, random_state=0).fit(X)
    >>> len(model.branches_), model.transform(X).shape
    (3, (1797, 64))
    """

    stored_form: ClassVar[Form] = {
        "branches_": listed(stored_branch),
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = [self.dtype]
        return tags

    def fit(self, X: Any, y: object = None) -> Self:  # noqa: ARG002 - the contract's y
        """Cut the rows and learn one autoencoder per cluster.

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
        parameters = check_parameters(self)
        branch_size = check_count("branch_size", self.branch_size)
        rows = check_rows(self, X)
        generator = check_random_state(self.random_state)
        numbers = partition_rows(
            rows, branch_size=branch_size, partition="kmeans", random_state=generator
        )
        self.branches_ = fit_branches(
            RowGroups(rows, places_of(numbers)),
            n_jobs=self.n_jobs,
            verbose=self.verbose,
            generator=generator,
            **parameters,
        )
        return self

    def transform(self, X: Any) -> Array:
        """Filter rows: give the nearest output of all clusters and layers (69).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The filtered rows.
        """
        rows = check_queries(self, X)
        return like(X, filtered_by(self.branches_, self._nearest(rows), rows))

    def errors(self, X: Any) -> Array:
        """Give the squared distance of each row to what `transform` makes of it (70).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Squared errors.
        """
        found = self._branch_errors(check_queries(self, X))
        return like(X, namespace_of(found).min(found, axis=1))

    def _branch_errors(self, rows: Array) -> Array:
        return branch_errors(self.branches_, rows, n_jobs=self.n_jobs, verbose=self.verbose)

    def _nearest(self, rows: Array) -> NDArray[np.intp]:
        return np.asarray(to_numpy(self._branch_errors(rows)).argmin(axis=1))
