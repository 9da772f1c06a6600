"""The conditionally deep kernel affine hull: layers of falling dimension (Definitions 3 and 4)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from sfumato.hulls.base import PRECISIONS, BranchHull
from sfumato.hulls.branch import stored_branch
from sfumato.hulls.evaluation import layer_images, n_layers_of, nearest_layer
from sfumato.kernels.arrays import Array, to_numpy
from sfumato.persistence.forms import Form, numbers, one_of, whole

__all__ = ["DeepAffineHull"]


class DeepAffineHull(BranchHull):
    r"""Pass points through hulls of dimension n, n - 1, ... and keep the nearest image.

    .. math:: M_l = A_{n-l+1} \circ \dots \circ A_n, \qquad
              D(y) = M_{\hat l}(y), \quad \hat l = \arg\min_{l \le L} \|y - M_l(y)\|.

    Parameters
    ----------
    n_components : int, default=20
        Subspace dimension n of the first layer; capped by the rank of the rows.
    n_layers : int, default=5
        Number of layers L; capped by the subspace dimension.
    dtype : {"float64", "float32"}, default="float64"
        Precision of the stored model and of its answers. The fit is always in double precision.

    Attributes
    ----------
    hull_ : dict
        The folded model, one principal basis for all layers.
    n_components_, n_layers_ : int
        Dimension and number of layers in use.
    regularization_ : ndarray of shape (n_layers,)
        λ* of each layer.
    n_features_in_ : int

    See Also
    --------
    KernelAffineHull : A single layer; its notes hold here as well.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.hulls import DeepAffineHull
    >>> rows = np.random.default_rng(0).random((60, 5))
    >>> hull = DeepAffineHull(n_components=4, n_layers=3).fit(rows)
    >>> hull.layer_images(rows[:2]).shape
    (2, 3, 5)
    """

    stored_form: ClassVar[Form] = {
        "hull_": stored_branch,
        "n_components_": whole(most="n"),
        "n_layers_": whole("L", least=1),
        "regularization_": numbers("L", least=0.0),
        "dtype": one_of(*PRECISIONS),
    }

    def __init__(
        self, n_components: int = 20, *, n_layers: int = 5, dtype: str = "float64"
    ) -> None:
        self.n_components = n_components
        self.n_layers = n_layers
        self.dtype = dtype

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Learn all layers from the rows.

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
        self._fit_hull(X, n_layers=self.n_layers)
        self.n_layers_ = n_layers_of(self.hull_)
        self.regularization_ = to_numpy(self.hull_["regularization"])
        return self

    def layer_images(self, X: Any) -> Array:
        """Give the image of each row under each layer (51).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        array of shape (n_samples, n_layers, n_features)
            Images of each row under each layer.
        """
        return self._answer(layer_images, X, gives_rows=True)

    def layer(self, X: Any) -> Array:
        """Give the number, from 1, of the layer whose image is nearest to each row (52).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        array of int of shape (n_samples,)
            Number of the layer, from 1.
        """
        return self._answer(nearest_layer, X)
