"""Hulls of one set of rows: a single layer, or layers of falling dimension (Definitions 1 to 4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin

from sfumato.core.arrays import Array, like, to_numpy
from sfumato.core.constraints import Form, numbers, one_of, real, whole
from sfumato.models.hulls.branch import Branch, fit_branch, stored_branch
from sfumato.models.hulls.evaluation import distance, image, layer_images, nearest_layer, weights
from sfumato.models.hulls.rows import PRECISIONS, check_queries, check_rows
from sfumato.models.hulls.search import evaluate
from sfumato.tables.cells import check_choice, check_count


class _OneBranch(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """What both share: a folded model that maps points and measures distances."""

    n_components: int
    n_layers: int
    dtype: str
    hull_: Branch

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Learn the hull of the rows.

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
        self.hull_ = fit_branch(
            check_rows(self, X),
            n_components=check_count("n_components", self.n_components),
            n_layers=check_count("n_layers", self.n_layers),
            dtype=check_choice("dtype", self.dtype, PRECISIONS),
        )
        self.n_components_ = self.hull_["n_components"]
        found = to_numpy(self.hull_["regularization"])
        if isinstance(self, DeepAffineHull):
            self.n_layers_ = len(found)
        self.regularization_ = found if isinstance(self, DeepAffineHull) else float(found[0])
        return self

    def transform(self, X: Any) -> Array:
        """Return the image of each row; the mean of the training rows where there is none.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_features)
        """
        return self._answer(image, X, gives_rows=True)

    def distance(self, X: Any) -> Array:
        """Return the distance from each row to its image; infinite where there is none.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples,)
        """
        return self._answer(distance, X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = [self.dtype]
        return tags

    def _answer(
        self, function: Callable[[Branch, Array], Array], X: Any, *, gives_rows: bool = False
    ) -> Array:
        rows = check_queries(self, X)
        return like(X, evaluate(self.hull_, function, rows, gives_rows=gives_rows))


class KernelAffineHull(_OneBranch):
    r"""Map points onto the region that a set of rows fills inside its affine hull.

    .. math:: A(y) = \sum_i \frac{h_i(Py)}{\sum_j h_j(Py)}\, y_i, \qquad
              h(x) = (K + λ^* I)^{-1} k(x),

    where P projects on the first n principal directions of the rows, the kernel is Gaussian with
    their covariance, and λ* is the fixed point of the regularisation (equations 33 to 44 of [1]_).

    Parameters
    ----------
    n_components : int, default=20
        Subspace dimension n; capped by the rank of the rows.
    dtype : {"float64", "float32"}, default="float64"
        Precision of the stored model and of its answers. The fit is always in double precision.

    Attributes
    ----------
    hull_ : dict
        The folded model: plain arrays, no training rows unless they are wider than many.
    n_components_ : int
        Subspace dimension in use; 0 when all rows are one point, whose hull is that point.
    regularization_ : float
        λ*.
    n_features_in_ : int

    See Also
    --------
    DeepAffineHull : Several layers.
    WideAffineHull : Several branches, for many rows.

    Notes
    -----
    λ* grows with the squares of the rows while the kernel does not see their scale, so the map
    depends on scale and offset of the data. Scale features to [0, 1] as the authors do.

    The sum :math:`\sum_j h_j` is positive around the rows but not everywhere (Theorem 2 of the
    paper says otherwise and is wrong). Where it is not, a point has no image: its `distance` is
    infinite, its `membership` zero, and `transform` answers with the mean of the rows.

    References
    ----------
    .. [1] M. Kumar, B. A. Moser, L. Fischer, "On mitigating the utility-loss in differentially
       private learning: a new perspective by a geometrically inspired kernel approach", JAIR, 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.models.hulls import KernelAffineHull
    >>> angle = np.linspace(0, 2 * np.pi, 100, endpoint=False)
    >>> circle = 0.5 + 0.5 * np.column_stack([np.cos(angle), np.sin(angle)])
    >>> hull = KernelAffineHull(n_components=2).fit(circle)
    >>> hull.distance([[1.0, 0.5], [2.0, 0.5]]).round(2)
    array([0.01, 0.61])
    """

    n_layers = 1

    stored_form: ClassVar[Form] = {
        "hull_": stored_branch,
        "n_components_": whole(most="n"),
        "regularization_": real(least=0.0),
        "dtype": one_of(*PRECISIONS),
    }

    def __init__(self, n_components: int = 20, *, dtype: str = "float64") -> None:
        self.n_components = n_components
        self.dtype = dtype

    def membership(self, X: Any) -> Array:
        """Return the weights of the training rows in each image; they sum to 1.

        The folded model does not hold them, so this factors an N by N matrix once more.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        array of shape (n_samples, n_training_rows)
            Weights of the rows; they sum to one.
        """
        return self._answer(weights, X)


class DeepAffineHull(_OneBranch):
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
    >>> from sfumato.models.hulls import DeepAffineHull
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

    def layer_images(self, X: Any) -> Array:
        """Return the image of each row under each layer (51).

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
        """Return the number, from 1, of the layer whose image is nearest to each row (52).

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
