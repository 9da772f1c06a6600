"""The kernel affine hull of a set of rows: one layer, one branch (Definitions 1 and 2)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from sfumato.hulls.base import PRECISIONS, BranchHull
from sfumato.hulls.branch import stored_branch
from sfumato.hulls.evaluation import weights
from sfumato.kernels.arrays import Array
from sfumato.persistence.forms import Form, one_of, real, whole

__all__ = ["KernelAffineHull"]


class KernelAffineHull(BranchHull):
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
    depends on scale and offset of the data. Bring features to [0, 1] as the authors do.

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
    >>> from sfumato.hulls import KernelAffineHull
    >>> angle = np.linspace(0, 2 * np.pi, 100, endpoint=False)
    >>> circle = 0.5 + 0.5 * np.column_stack([np.cos(angle), np.sin(angle)])
    >>> hull = KernelAffineHull(n_components=2).fit(circle)
    >>> hull.distance([[1.0, 0.5], [2.0, 0.5]]).round(2)
    array([0.01, 0.61])
    """

    stored_form: ClassVar[Form] = {
        "hull_": stored_branch,
        "n_components_": whole(most="n"),
        "regularization_": real(least=0.0),
        "dtype": one_of(*PRECISIONS),
    }

    def __init__(self, n_components: int = 20, *, dtype: str = "float64") -> None:
        self.n_components = n_components
        self.dtype = dtype

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
        self._fit_hull(X, n_layers=1)
        self.regularization_ = float(self.hull_["regularization"][0])
        return self

    def membership(self, X: Any) -> Array:
        """Give the weights of the training rows in each image; they sum to 1.

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
