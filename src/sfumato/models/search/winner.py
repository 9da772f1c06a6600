"""What a search answers once it has ended: as its winner does."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted


def _has(name: str) -> Any:
    def check(search: WinnerMethods) -> bool:
        owner = getattr(search, "best_estimator_", search.estimator)
        return hasattr(owner, name)

    return check


class WinnerMethods:
    """Answers of the winner."""

    estimator: Any
    best_estimator_: Any

    @available_if(_has("predict"))  # type: ignore[untyped-decorator]
    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict with the winner.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels or numbers.
        """
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.predict(X))

    @available_if(_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """Return the winner's class probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities.
        """
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.predict_proba(X))

    @available_if(_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: ArrayLike) -> NDArray[Any]:
        """Return the winner's scores of classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray
            Scores.
        """
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.decision_function(X))

    @available_if(_has("transform"))  # type: ignore[untyped-decorator]
    def transform(self, X: ArrayLike) -> Any:
        """Transform with the winner.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray
            Transformed rows.
        """
        check_is_fitted(self)
        return self.best_estimator_.transform(X)

    @available_if(_has("score"))  # type: ignore[untyped-decorator]
    def score(self, X: ArrayLike, y: ArrayLike | None = None) -> float:
        """Score the winner on public rows; this is not private for rows that are secret.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Labels or targets.

        Returns
        -------
        float
            The winner's own score.
        """
        check_is_fitted(self)
        return float(self.best_estimator_.score(X, y))
