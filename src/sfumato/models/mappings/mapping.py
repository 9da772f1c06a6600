"""The membership mapping as a regressor (Algorithm 1, Definition 10)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import assert_all_finite

from sfumato.core.arrays import Array, cast, is_foreign_array, like, namespace_of
from sfumato.core.constraints import Form, flag, numbers, real, refuse
from sfumato.exceptions import InvalidInputError
from sfumato.models.hulls.rows import check_queries, check_rows
from sfumato.models.mappings.autoencoder import check_kappa, check_ratio
from sfumato.models.mappings.inducing import cross_kernel
from sfumato.models.mappings.layer import fit_layer
from sfumato.models.mappings.many import seed_from


class MembershipMapping(MultiOutputMixin, RegressorMixin, BaseEstimator):
    r"""Regression on inducing points whose smoothing follows from the data.

    .. math:: \hat y(x) = g(x)\,(K_{xa}^T K_{xa} + \lambda K_{aa})^{-1} K_{xa}^T Y, \qquad
              \lambda = \tau(M, 1) + 1 / (\sigma^2 \beta),

    with the Gaussian kernel on inputs divided by their ranges, centroids of k-means as inducing
    points, M of them such that :math:`\tau(M, 1) \ge \kappa`, and :math:`1/\beta` the mean squared
    error of the mapping itself.

    Parameters
    ----------
    inducing_ratio : float, default=0.5
        Largest number of inducing points, as a share of the rows, r_max.
    kappa : float, default=0.1
        Smallest tau(M, 1); a larger one gives fewer inducing points and a smoother mapping. With
        few inputs, 0.1 allows only one or two points: use a smaller value.
    center : bool, default=True
        Subtract the mean of y first. As printed (False), outputs are drawn to zero, and an
        offset that is large compared with the spread of y ruins the mapping.
    random_state : int, RandomState or None, default=None
        Starts of the k-means.

    Attributes
    ----------
    inducing_points_ : array of shape (n_inducing, n_features)
    coefficients_ : array of shape (n_inducing, n_outputs)
    tau_ : float
        tau(M, 1).
    kernel_variance_ : float
        sigma².
    noise_precision_ : float
        beta.
    origin_, scale_, offset_ : array
        Subtracted from the inputs; factor of the inputs; added to the outputs.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import MembershipMapping
    >>> x = np.linspace(0, 1, 200)[:, None]
    >>> mapping = MembershipMapping(kappa=1e-6, random_state=0).fit(x, np.sin(3 * x[:, 0]))
    >>> bool(mapping.score(x, np.sin(3 * x[:, 0])) > 0.99)
    True
    """

    stored_form: ClassVar[Form] = {
        "single_output_": flag(),
        "offset_": numbers("p"),
        "origin_": numbers("d"),
        "scale_": numbers("d", least=0.0),
        "scaled_points_": numbers("M", "d"),
        "coefficients_": numbers("M", "p"),
        "tau_": real(),
        "kernel_variance_": real(least=0.0),
        "noise_precision_": real(least=0.0, most=1e308),
    }

    def __init__(
        self,
        *,
        inducing_ratio: float = 0.5,
        kappa: float = 0.1,
        center: bool = True,
        random_state: Any = None,
    ) -> None:
        self.inducing_ratio = inducing_ratio
        self.kappa = kappa
        self.center = center
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the mapping from rows of X to rows of y.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Outputs.

        Returns
        -------
        Self
            The fitted estimator.
        """
        ratio, kappa = check_ratio(self.inducing_ratio), check_kappa(self.kappa)
        x = cast(check_rows(self, X), "float64")
        xp = namespace_of(x)
        outputs = _check_outputs(y, x)
        self.single_output_ = outputs.ndim == 1
        Y = outputs[:, None] if self.single_output_ else outputs
        self.offset_ = xp.mean(Y, axis=0) if self.center else xp.zeros_like(Y[0, :])
        layer, _ = fit_layer(
            x,
            Y - self.offset_,
            max_points=max(1, round(ratio * x.shape[0])),
            kappa=kappa,
            seed=seed_from(self.random_state),
            width=int(Y.shape[1]),
        )
        self.origin_, self.scale_ = layer["origin"], layer["scale"]
        self.scaled_points_ = layer["inducing"]
        self.coefficients_ = layer["coefficients"]
        self.tau_, self.kernel_variance_ = layer["tau"], layer["variance"]
        self.noise_precision_ = layer["noise_precision"]
        return self

    def _check_stored(self, sizes: dict[str, int]) -> None:
        if self.single_output_ and sizes["p"] != 1:
            raise refuse("single_output_", "false where there are several outputs")

    @property
    def inducing_points_(self) -> Array:
        """Inducing points in the units of X."""
        xp = namespace_of(self.scale_)
        constant = self.scale_ == 0
        return self.scaled_points_ / xp.where(constant, 1.0, self.scale_) + self.origin_

    def predict(self, X: Any) -> Array:
        """Return the outputs of the mapping (60).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            The outputs.
        """
        x = cast(like(getattr(self, "origin_", None), check_queries(self, X)), "float64")
        kernel = cross_kernel((x - self.origin_) * self.scale_, self.scaled_points_)
        answer = like(X, kernel @ self.coefficients_ + self.offset_)
        return answer[:, 0] if self.single_output_ else answer


def _check_outputs(y: Any, x: Array) -> Array:
    """Return y as finite doubles beside the inputs, of one or two dimensions."""
    if y is None:
        raise InvalidInputError(
            "MembershipMapping requires y to be passed, but the target y is None."
        )
    try:
        values = y if is_foreign_array(y) else np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError("'y' must contain numbers, one row for each row of X.") from None
    if values.ndim not in (1, 2) or values.shape[0] != x.shape[0]:
        raise InvalidInputError(
            f"'y' must have one row for each of the {x.shape[0]} rows of X, in one or two "
            f"dimensions. Got inconsistent shape {tuple(values.shape)}."
        )
    try:
        if not is_foreign_array(values):
            assert_all_finite(values, input_name="y")
    except ValueError as error:
        raise InvalidInputError(str(error)) from None
    return cast(like(x, values), "float64")
