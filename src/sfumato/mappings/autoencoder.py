"""The conditionally deep autoencoder of one set of rows, as a transformer (Algorithm 2)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin

from sfumato.hulls.rows import check_queries, check_rows
from sfumato.kernels.arrays import Array, like
from sfumato.mappings.branch import filtered, fit_branch, layer_outputs, stored_branch
from sfumato.mappings.many import branch_errors, evaluate, seed_from
from sfumato.mappings.parameters import check_parameters
from sfumato.persistence.forms import Form, listed, one_of, real, whole

__all__ = ["MembershipAutoencoder"]


class MembershipAutoencoder(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
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
        Most inducing points of the first layer as a share of the rows, r_max.
    kappa : float, default=0.1
        Least tau(M, 1), see `MembershipMapping`.
    center : bool, default=True
        Take the mean off first; as printed (False) the outputs draw towards zero.
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = [self.dtype]
        return tags

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

    def transform(self, X: Any) -> Array:
        """Filter rows: give the output of the layer that is nearest to each (64).

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
        return like(X, evaluate(self.branch_, filtered, rows))

    def layer_outputs(self, X: Any) -> Array:
        """Give the outputs of all layers, shape (n_samples, n_layers, n_features).

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

    def errors(self, X: Any) -> Array:
        """Give the squared distance of each row to what `transform` makes of it (65).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Squared errors.
        """
        rows = check_queries(self, X)
        return like(X, branch_errors([self.branch_], rows, n_jobs=None)[:, 0])
