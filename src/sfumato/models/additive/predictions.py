"""Predictions from scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if

from sfumato.exceptions import InvalidInputError

Array = NDArray[np.float64]


def check_steps(n_steps: Any, max_gradient_norm: float) -> None:
    """Check the settings of the descent."""
    if isinstance(n_steps, bool) or not isinstance(n_steps, int | np.integer) or n_steps < 1:
        raise InvalidInputError(f"'n_steps' must be an integer >= 1. Got {n_steps!r}.")
    if not 0 < max_gradient_norm < 2:
        raise InvalidInputError(
            f"'max_gradient_norm' must lie between 0 and 2. Got {max_gradient_norm} instead."
        )


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
