"""Large-margin Gaussian classifiers, without privacy (Sha and Saul 2006)."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import assert_all_finite, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from sfumato.core.arrays import clip_to_finite
from sfumato.core.constraints import (
    Form,
    check_parameters,
    integers,
    labels,
    numbers,
    one_of,
    real,
    refuse,
    whole,
)
from sfumato.exceptions import InvalidInputError
from sfumato.papers.large_margin.ellipsoids import (
    EllipsoidAnswers,
    LargeMarginObjective,
    MarginLoss,
    MixtureLoss,
    Smooth,
    centroids,
    cone_residual,
    descend,
    extended,
    minimise_in_cone,
    penalised,
    quadratic_features,
    shifted_into_cone,
    softmin,
    to_matrices,
    to_vectors,
)

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

HINGE_WIDTHS = (0.5, 0.1, 0.02, 4e-3, 1e-3)  # the last is the hinge up to 1/4000 a pair


@dataclass(eq=False, repr=False)
class LargeMarginGaussianClassifier(EllipsoidAnswers, ClassifierMixin, BaseEstimator):
    """``argmin_c softmin_{k in c} aᵀ Φ_k a`` with ``a = [x; 1]`` and positive semidefinite Φ.

    They minimise
    ``1/n sum_i sum_{c != y_i} l(1 + aᵢᵀ Φ_{own} aᵢ - softmin_{k in c} aᵢᵀ Φ_k aᵢ) + λ R(Φ)``.
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
    n_ellipsoids : int, default=1
        Ellipsoids per class; the own one of a row is found by k-means inside its class. Fewer
        where a class has fewer different rows.
    positivity : {"cone", "shift"}, default="cone"
        How matrices become positive semidefinite: as a constraint, or by one shift of all of them
        after a minimum without constraint, which changes no decision. "shift" needs the
        Frobenius regulariser.
    scaling : {"columns", "overall", "none"}, default="columns"
        Take the mean from each column and divide by its standard deviation, or by one deviation
        for all columns (for principal components), or take the rows as they are.
    tol : float, default=1e-6
        Largest residual of the optimality conditions; more than it gives a warning.
    max_iter : int, default=1000
        Iterations of the solver.
    random_state : int, RandomState instance or None, default=None
        For k-means.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    matrices_ : ndarray of shape (n_matrices, n_features + 1, n_features + 1)
        Φ of each ellipsoid, for scaled rows; those of a class stand together.
    starts_ : ndarray of shape (n_classes,)
        First ellipsoid of each class.
    mean_, scale_ : ndarray of shape (n_features,)
        What rows are scaled by.
    objective_ : float
        The objective reached.
    residual_ : float
        ``max |Φ - P(Φ - G)|`` for "cone", the largest entry of the gradient for "shift".
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
    n_ellipsoids: int = 1
    positivity: str = "cone"
    scaling: str = "columns"
    tol: float = 1e-6
    max_iter: int = 1000
    random_state: Any = None

    parameters: ClassVar[Form] = {
        "loss": one_of("huber", "hinge"),
        "regularizer": one_of("trace", "frobenius"),
        "regularization": real(above=0.0),
        "huber_width": real(above=0.0),
        "n_ellipsoids": whole(least=1),
        "positivity": one_of("cone", "shift"),
        "scaling": one_of("columns", "overall", "none"),
        "tol": real(above=0.0),
        "max_iter": whole(least=1),
    }
    stored_form: ClassVar[Form] = {
        "classes_": labels("c"),
        "mean_": numbers("d"),
        "scale_": numbers("d", above=0.0),
        "matrices_": numbers("m", "d+1", "d+1"),
        "starts_": integers("c", below="m"),
        "residual_": real(),
        "objective_": real(),
        "n_iter_": whole(),
    }

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Find the ellipsoids.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Labels.

        Returns
        -------
        Self
            The fitted estimator.
        """
        check_parameters(self, self.parameters)
        if self.positivity == "shift" and self.regularizer != "frobenius":
            raise InvalidInputError(
                "positivity='shift' needs regularizer='frobenius': without the cone a trace has no "
                "least value."
            )
        rows, codes = self._checked(X, y)
        self.mean_, self.scale_ = _scales(rows, self.scaling)
        scaled = (rows - self.mean_) / self.scale_
        own, self.starts_, n_matrices = self._own_ellipsoids(scaled, codes)
        order, weight = rows.shape[1] + 1, float(self.regularization)
        W = to_vectors(np.broadcast_to(np.eye(order), (n_matrices, order, order)))
        for width in HINGE_WIDTHS if self.loss == "hinge" else (float(self.huber_width),):
            single = self.n_ellipsoids == 1
            loss = MarginLoss(width) if single else MixtureLoss(width, self.starts_)
            objective = LargeMarginObjective(extended(scaled), own, n_matrices, loss, 1 / len(rows))
            if self.regularizer == "frobenius":
                smooth = penalised(objective, quadratic=weight)
            else:
                smooth = penalised(objective, linear=weight * to_vectors(np.eye(order)))
            W = self._minimised(smooth, W)
        self.matrices_ = to_matrices(W)
        if self.positivity == "shift":
            self.matrices_ = shifted_into_cone(self.matrices_)
        return self

    def _checked(self, X: ArrayLike, y: ArrayLike) -> tuple[Array, Codes]:
        if y is None:
            raise InvalidInputError("requires y to be passed, but the target y is None.")
        try:
            rows, labels = validate_data(self, X, y, dtype=np.float64)
            labels = column_or_1d(labels, warn=True)
            assert_all_finite(labels, input_name="y")
            check_classification_targets(labels)
        except ValueError as error:
            message = str(error)
            if "could not convert" in message:  # the original quotes the value
                message = "The rows must contain numbers; a text was found that is not a number."
            raise InvalidInputError(message) from None
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise InvalidInputError(
                "The labels have only one class; a classifier needs at least two."
            )
        return rows, codes.astype(np.intp)

    def _check_stored(self, sizes: dict[str, int]) -> None:  # noqa: ARG002 - the hook's sizes
        if self.starts_[0] != 0 or not (np.diff(self.starts_) > 0).all():
            raise refuse("starts_", "the first ellipsoid of each class, in order")

    def _own_ellipsoids(self, rows: Array, codes: Codes) -> tuple[Codes, Codes, int]:
        """Return the ellipsoid of each row, the first one of each class, and their number."""
        if self.n_ellipsoids == 1:
            return codes, np.arange(len(self.classes_)), len(self.classes_)
        generator = check_random_state(self.random_state)
        own, starts, total = np.empty_like(codes), [], 0
        for code in range(len(self.classes_)):
            members = codes == code
            parts = min(int(self.n_ellipsoids), len(np.unique(rows[members], axis=0)))
            means = KMeans(parts, n_init=1, random_state=generator).fit(rows[members])
            starts.append(total)
            own[members] = total + means.labels_
            total += parts
        return own, np.array(starts), total

    def _minimised(self, smooth: Smooth, start: Array) -> Array:
        tolerance, max_iter = self.tol / 10, int(self.max_iter)
        if self.positivity == "cone":
            W, n_iter = minimise_in_cone(smooth, start, tolerance=tolerance, max_iter=max_iter)
            self.residual_ = cone_residual(smooth, W)
        else:
            W, n_iter = descend(smooth, start, tolerance=tolerance, max_iter=max_iter)
            self.residual_ = float(np.abs(smooth(W)[1]).max())
        self.objective_, self.n_iter_ = smooth(W)[0], n_iter
        if self.residual_ > self.tol:
            warnings.warn(
                f"The optimality conditions are met to {self.residual_:.1e} after at most "
                f"{max_iter} iterations, not to tol={self.tol:g}. Raise 'max_iter' or "
                "'tol'.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return W

    @property
    def centroids_(self) -> Array:
        """Centres of the ellipsoids, among the rows as given."""
        return np.asarray(centroids(self.matrices_) * self.scale_ + self.mean_)

    @property
    def precisions_(self) -> Array:
        """Inverse covariances of the ellipsoids, for rows as given."""
        return np.asarray(self.matrices_[:, :-1, :-1] / np.outer(self.scale_, self.scale_))

    def distances(self, X: ArrayLike) -> Array:
        """Return the score of each row and class, shape (n_samples, n_classes); the least wins.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            One distance a class.
        """
        check_is_fitted(self)
        rows = clip_to_finite(validate_data(self, X, reset=False, dtype=np.float64))
        features = quadratic_features(extended((rows - self.mean_) / self.scale_))
        return softmin(features @ to_vectors(self.matrices_).T, self.starts_)


def _scales(rows: Array, scaling: str) -> tuple[Array, Array]:
    """Mean and deviation of each column; a constant column is divided by 1."""
    if scaling == "none":
        return np.zeros(rows.shape[1]), np.ones(rows.shape[1])
    deviations = rows.std(axis=0)
    if scaling == "overall":
        deviations = np.full_like(deviations, np.sqrt(np.mean(deviations**2)))
    # Rounding leaves a constant column a deviation of some units in the last place.
    constant = deviations <= 1e-12 * np.abs(rows).max(axis=0)
    return rows.mean(axis=0), np.where(constant, 1.0, deviations)
