"""The linear classifier without privacy, and what linear classifiers share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from sfumato.core.arrays import clip_to_finite
from sfumato.core.constraints import Form, check_n_scores, labels, numbers, one_of
from sfumato.exceptions import InvalidInputError
from sfumato.models.newton import newton
from sfumato.sums.losses import LOSSES, loss_named

Array = NDArray[np.float64]
PRECISION = 1e-9  # gradient norm a row at which the minimiser is found


def _has_probabilities(estimator: Any) -> bool:
    if estimator.loss != "softmax":
        raise AttributeError("Only loss='softmax' models probabilities.")
    return True


class LinearPredictions(ClassifierMixin, BaseEstimator, ABC):
    """Predictions from scores, `_scores`: one column for two classes, otherwise one per class."""

    loss: str
    classes_: NDArray[Any]

    @abstractmethod
    def _scores(self, X: ArrayLike) -> Array:
        """Return the scores of rows."""

    def decision_function(self, X: ArrayLike) -> Array:
        """Return the scores of each class; for two classes, the score of the second.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        """
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of the largest score.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        """
        scores = self._scores(X)
        codes = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[codes])

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the probability of each label; only for ``loss="softmax"``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        """
        scores = self._scores(X)
        if scores.shape[1] == 1:
            scores = np.column_stack([np.zeros(len(scores)), scores])
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_by_costs(self, X: ArrayLike, costs: Mapping[Any, float]) -> NDArray[Any]:
        """Return the label of least expected cost; only for ``loss="softmax"``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        costs : mapping of label to float
            Public cost of missing each label; 1 where it is not named. With two labels, the second
            is predicted where its probability is above ``cost of the first / sum of both``.
        """
        given = np.array([float(costs.get(label, 1.0)) for label in self.classes_.tolist()])
        unknown = [label for label in costs if label not in self.classes_.tolist()]
        if unknown or not (np.isfinite(given).all() and (given >= 0).all() and given.max() > 0):
            raise InvalidInputError(
                "'costs' must give a finite cost, not negative, for labels of the model."
            )
        return np.asarray(self.classes_[(self.predict_proba(X) * given).argmax(axis=1)])


class LinearClassifier(LinearPredictions):
    """``argmin_W  sum_i loss(W a_i; y_i) + (regularization/2) ||W||²``, by Newton's method.

    Parameters
    ----------
    loss : {"softmax", "huber", "hinge"}, default="softmax"
        Softmax is all classes jointly (logistic regression for two); huber and hinge are one class
        against the rest. The corner of the hinge is rounded over ``1 ± huber_width``, or for
        "hinge" over ``1 ± 0.05``.
    regularization : float, default=1.0
        Strong convexity of the sum.
    huber_width : float, default=0.5
        Half the width of the rounding for ``loss="huber"``.
    fit_intercept : bool, default=True
        Append a constant 1 to each row; its weight is regularised like the others.

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    coef_ : ndarray of shape (1 or n_classes, n_features)
        Weights of the features.
    intercept_ : ndarray of shape (1 or n_classes,)
        Weights of the constant.

    Notes
    -----
    The gradient of the mean objective is brought below 1e-9. Nothing here is private: see
    `PrivateLinearClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sfumato import LinearClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(LinearClassifier().fit(X, y).score(X, y) > 0.95)
    True
    """

    stored_form: ClassVar[Form] = {
        "classes_": labels("c"),
        "coef_": numbers("s", "d"),
        "intercept_": numbers("s"),
        "loss": one_of(*LOSSES),
    }

    def __init__(
        self,
        *,
        loss: str = "softmax",
        regularization: float = 1.0,
        huber_width: float = 0.5,
        fit_intercept: bool = True,
    ) -> None:
        self.loss = loss
        self.regularization = regularization
        self.huber_width = huber_width
        self.fit_intercept = fit_intercept

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Find the minimiser.

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
        rows, labels = self._checked(X, y)
        if not self.regularization > 0:
            raise InvalidInputError(
                f"'regularization' must be positive. Got {self.regularization} instead."
            )
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise InvalidInputError(
                "The labels have only one class; a classifier needs at least two."
            )
        width = rows.shape[1]
        if self.fit_intercept:
            rows = np.column_stack([rows, np.ones(len(rows))])
        loss = loss_named(self.loss, len(self.classes_), huber_width=self.huber_width)
        start = np.zeros((loss.n_scores, rows.shape[1]))
        weights = newton(
            *(loss, rows, loss.targets(codes, rows), start),
            *(self.regularization, PRECISION * len(rows)),
        )
        self.coef_ = weights[:, :width]
        self.intercept_ = weights[:, -1] if self.fit_intercept else np.zeros(len(weights))
        return self

    def _check_stored(self, sizes: dict[str, int]) -> None:
        check_n_scores(sizes)

    def _checked(self, X: ArrayLike, y: ArrayLike) -> tuple[Array, NDArray[Any]]:
        rows, labels = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(labels)
        return rows, labels

    def _scores(self, X: ArrayLike) -> Array:
        check_is_fitted(self)
        rows = clip_to_finite(validate_data(self, X, reset=False, dtype=np.float64))
        return np.asarray(rows @ self.coef_.T + self.intercept_)
