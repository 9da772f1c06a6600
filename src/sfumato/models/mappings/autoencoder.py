"""Autoencoders of one set of rows, or one per cluster of many rows (Algorithms 2 and 3)."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import check_random_state

from sfumato.core.arrays import Array, like, namespace_of, to_numpy
from sfumato.core.constraints import Form, listed, one_of, real, whole
from sfumato.exceptions import InvalidInputError
from sfumato.models.hulls.partition import RowGroups, partition_rows, places_of
from sfumato.models.hulls.rows import PRECISIONS, check_queries, check_rows
from sfumato.models.mappings.branch import Branch, fit_branch, layer_outputs, stored_branch
from sfumato.models.mappings.many import (
    branch_errors,
    evaluate,
    filtered_by,
    fit_branches,
    seed_from,
)
from sfumato.tables.cells import check_choice, check_count


class _Filter(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """What both share: the nearest output of all clusters and layers."""

    dtype: str
    n_jobs: int | None = None
    verbose: bool = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = [self.dtype]
        return tags

    def transform(self, X: Any) -> Array:
        """Filter rows: give the nearest output of all clusters and layers (64), (69).

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
        nearest = np.asarray(to_numpy(self._errors(rows)).argmin(axis=1))
        return like(X, filtered_by(self._clusters(), nearest, rows))

    def errors(self, X: Any) -> Array:
        """Return the squared distance of each row to what `transform` makes of it (65), (70).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Squared errors.
        """
        found = self._errors(check_queries(self, X))
        return like(X, namespace_of(found).min(found, axis=1))

    def _errors(self, rows: Array) -> Array:
        return branch_errors(self._clusters(), rows, n_jobs=self.n_jobs, verbose=self.verbose)

    def _clusters(self) -> list[Branch]:
        return self.branches_ if hasattr(self, "branches_") else [self.branch_]


class MembershipAutoencoder(_Filter):
    r"""Layers of membership mappings, each from fewer principal coordinates back to the row.

    .. math:: x^1 = P y, \quad x^{l+1} = P^{l+1} \hat y^l(x^l), \quad
              D(y) = \hat y^{l^*}, \quad l^* = \arg\min_l \|y - \hat y^l\|^2 .

    Parameters
    ----------
    n_components : int, default=20
        Subspace dimension n of the first layer; each further layer has one less. Capped by the
        rank of the rows.
    n_layers : int, default=5
        Number of layers L.
    inducing_ratio : float, default=0.5
        Largest number of inducing points of the first layer, as a share of the rows, r_max.
    kappa : float, default=0.1
        Smallest tau(M, 1), see `MembershipMapping`.
    center : bool, default=True
        Subtract the mean first; as printed (False), outputs are drawn towards zero.
    dtype : {"float64", "float32"}, default="float64"
        Precision of the stored model and of its answers. The fit is always in double precision.
    random_state : int, RandomState or None, default=None
        Starts of the k-means.

    Attributes
    ----------
    branch_ : dict
        The folded model.
    n_inducing_ : list of int
        Inducing points M of each layer.
    noise_precision_ : list of float
        beta of each layer.
    n_features_in_ : int

    See Also
    --------
    WideMembershipAutoencoder : For many rows.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sfumato import MembershipAutoencoder
    >>> X = load_digits(n_class=1).data / 16
    >>> model = MembershipAutoencoder(5, n_layers=2, random_state=0).fit(X)
    >>> model.layer_outputs(X).shape
    (178, 2, 64)
    """

    stored_form: ClassVar[Form] = {
        "branch_": stored_branch,
        "n_inducing_": listed(whole(least=1)),
        "noise_precision_": listed(real(least=0.0, most=1e308)),
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
        dtype: str = "float64",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_layers = n_layers
        self.inducing_ratio = inducing_ratio
        self.kappa = kappa
        self.center = center
        self.dtype = dtype
        self.random_state = random_state

    def fit(self, X: Any, y: object = None) -> Self:  # noqa: ARG002 - the contract's y
        """Learn the layers.

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
        rows = check_rows(self, X)
        self.branch_ = fit_branch(rows, seed=seed_from(self.random_state), **parameters)
        self.n_inducing_ = [int(layer["inducing"].shape[0]) for layer in self.branch_["layers"]]
        self.noise_precision_ = [layer["noise_precision"] for layer in self.branch_["layers"]]
        return self

    def layer_outputs(self, X: Any) -> Array:
        """Return the outputs of all layers, shape (n_samples, n_layers, n_features).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_layers, n_features)
            The outputs.
        """
        rows = check_queries(self, X)
        return like(X, evaluate(self.branch_, layer_outputs, rows))


class WideMembershipAutoencoder(_Filter):
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


def check_parameters(estimator: Any) -> dict[str, Any]:
    """Return the arguments of `fit_branch` that an estimator holds."""
    return {
        "n_components": check_count("n_components", estimator.n_components),
        "n_layers": check_count("n_layers", estimator.n_layers),
        "inducing_ratio": check_ratio(estimator.inducing_ratio),
        "kappa": check_kappa(estimator.kappa),
        "center": bool(estimator.center),
        "dtype": check_choice("dtype", estimator.dtype, PRECISIONS),
    }


def check_ratio(value: Any) -> float:
    """Return r_max, a share of the rows."""
    if not isinstance(value, Real) or not 0 < float(value) <= 1:
        raise InvalidInputError(f"'inducing_ratio' must lie in (0, 1]. Got {value!r} instead.")
    return float(value)


def check_kappa(value: Any) -> float:
    """Return the least tau(M, 1)."""
    if not isinstance(value, Real) or not 0 < float(value) < float("inf"):
        raise InvalidInputError(f"'kappa' must be positive and finite. Got {value!r} instead.")
    return float(value)
