"""Large-margin Gaussian classifiers, without privacy (Sha and Saul 2006)."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from sfumato.core.arrays import to_numpy
from sfumato.core.constraints import Form, labels, numbers, one_of, real, whole
from sfumato.exceptions import InvalidInputError
from sfumato.models.rows import RowsClassifier
from sfumato.papers.large_margin.ellipsoids import (
    EllipsoidAnswers,
    LargeMarginObjective,
    MarginLoss,
    cone_residual,
    extended,
    minimise_in_cone,
    penalised,
    to_matrices,
    to_vectors,
)

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

HINGE_WIDTHS = (0.5, 0.1, 0.02, 4e-3, 1e-3)  # the last is the hinge up to 1/4000 a pair


@dataclass(eq=False, repr=False)
class LargeMarginGaussianClassifier(EllipsoidAnswers, RowsClassifier):
    """``argmin_c aᵀ Φ_c a`` with ``a = [x; 1]`` and positive semidefinite Φ.

    They minimise
    ``1/n sum_i sum_{c != y_i} l(1 + aᵢᵀ Φ_{y_i} aᵢ - aᵢᵀ Φ_c aᵢ) + λ R(Φ)``.
    Each Φ is an ellipsoid (a centre, an inverse covariance, an offset), and each row should be
    nearer to its own ellipsoid than to every other class by a margin of 1.

    Parameters
    ----------
    loss : {"huber", "hinge"}, default="huber"
        l: the hinge rounded over ``[-h, h]``, or the hinge itself (approached by h = 0.001).
    regularizer : {"trace", "frobenius"}, default="trace"
        R: the sum of traces of Φ, or half the sum of squared Frobenius norms. (The trace of the
        inverse covariance alone, as printed by Sha and Saul, has no minimiser: a linear
        classifier costs nothing.)
    regularization : float, default=1e-2
        Strength λ.
    huber_width : float, default=0.5
        Half-width h of the rounded corner.
    tol : float, default=1e-6
        Largest residual of the optimality conditions; more than it gives a warning.
    max_iter : int, default=1000
        Iterations of the solver.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    matrices_ : ndarray of shape (n_classes, n_features + 1, n_features + 1)
        Φ of each class, for scaled rows.
    mean_, scale_ : ndarray of shape (n_features,)
        Mean and deviation of each column, by which rows are scaled.
    objective_ : float
        The objective reached.
    residual_ : float
        ``max |Φ - P(Φ - G)|``, G the gradient and P the projection on the cone; 0 at a minimum.
    n_iter_ : int
        Iterations of the solver (for the hinge, of its last round).

    See Also
    --------
    PrivateLargeMarginGaussianClassifier : The same with a guarantee.

    References
    ----------
    Sha and Saul, Large margin Gaussian mixture modeling for phonetic classification and
    recognition, ICASSP 2006.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sfumato import LargeMarginGaussianClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LargeMarginGaussianClassifier().fit(X, y)
    >>> round(model.objective_, 4)
    0.1251
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    loss: str = "huber"
    _: KW_ONLY
    regularizer: str = "trace"
    regularization: float = 1e-2
    huber_width: float = 0.5
    tol: float = 1e-6
    max_iter: int = 1000

    parameters: ClassVar[Form] = {
        "loss": one_of("huber", "hinge"),
        "regularizer": one_of("trace", "frobenius"),
        "regularization": real(above=0.0),
        "huber_width": real(above=0.0),
        "tol": real(above=0.0),
        "max_iter": whole(least=1),
    }
    learned: ClassVar[Form] = {
        "classes_": labels("c"),
        "mean_": numbers("d"),
        "scale_": numbers("d", above=0.0),
        "matrices_": numbers("c", "d+1", "d+1"),
        "residual_": real(),
        "objective_": real(),
        "n_iter_": whole(),
    }

    def _fit_classes(self, rows: Any, codes: Codes) -> None:
        if len(self.classes_) < 2:
            raise InvalidInputError(
                "The labels have only one class; a classifier needs at least two."
            )
        rows = to_numpy(rows).astype(np.float64)
        # Rounding leaves a constant column a deviation of some units in the last place.
        self.mean_, deviations = rows.mean(axis=0), rows.std(axis=0)
        constant = deviations <= 1e-12 * np.abs(rows).max(axis=0)
        self.scale_ = np.where(constant, 1.0, deviations)
        scaled = extended((rows - self.mean_) / self.scale_)
        n_classes, order = len(self.classes_), scaled.shape[1]
        weight, identity = float(self.regularization), to_vectors(np.eye(order))
        linear, quadratic = weight * identity, 0.0
        if self.regularizer == "frobenius":
            linear, quadratic = np.zeros_like(identity), weight
        W = np.tile(identity, (n_classes, 1))
        for width in HINGE_WIDTHS if self.loss == "hinge" else (float(self.huber_width),):
            objective = LargeMarginObjective(
                scaled, codes, n_classes, MarginLoss(width), 1 / len(rows)
            )
            smooth = penalised(objective, linear=linear, quadratic=quadratic)
            for tolerance in (self.tol, self.tol / 10):  # of factors, which mostly will do
                W, self.n_iter_ = minimise_in_cone(
                    smooth, W, tolerance=tolerance, max_iter=int(self.max_iter)
                )
                self.objective_, self.residual_ = smooth(W)[0], cone_residual(smooth, W)
                if self.residual_ <= self.tol:
                    break
            if self.residual_ > self.tol:
                warnings.warn(
                    f"The optimality conditions are met to {self.residual_:.1e} after at most "
                    f"{self.max_iter} iterations, not to tol={self.tol:g}. Raise 'max_iter' or "
                    "'tol'.",
                    ConvergenceWarning,
                    stacklevel=3,
                )
        self.matrices_ = to_matrices(W)

    def _scaled_rows(self, X: ArrayLike) -> Array:
        rows = to_numpy(self._queries(X)).astype(np.float64)
        return np.asarray((rows - self.mean_) / self.scale_)
