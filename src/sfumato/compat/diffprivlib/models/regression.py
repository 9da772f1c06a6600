"""Linear regression with diffprivlib's signature."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from sfumato.compat.diffprivlib.accountant import BudgetAccountant
from sfumato.compat.diffprivlib.models.shell import DELTA, Array, Shell, box_of_columns
from sfumato.linear import PrivateLinearRegressor

__all__ = ["LinearRegression"]


class LinearRegression(RegressorMixin, Shell):
    """Least squares, by `sfumato.PrivateLinearRegressor`.

    Parameters
    ----------
    epsilon : float, default=1.0
        The budget.
    bounds_X, bounds_y : tuple
        Public ``(lower, upper)`` of columns and of the target; required.
    fit_intercept, copy_X, random_state : object
        Without effect: there is always a constant.
    accountant : BudgetAccountant, optional
        Who pays.
    delta : float, default=1e-6
        The delta of the promise.

    Attributes
    ----------
    guarantee_ : Guarantee
        The privacy guarantee of the fit.

    Privacy
    -------
    Unit and relation : record; replace_one.
    Released : as `PrivateLinearRegressor`.
    Sensitivity : as there.
    Guarantee : (epsilon, delta).
    Assumptions and numerics : bounds are public. Proof: docs/guarantees/regression.md.
    """

    _without_effect = ("fit_intercept", "random_state")

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        bounds_X: Any = None,
        bounds_y: Any = None,
        fit_intercept: bool = True,
        copy_X: bool = True,
        random_state: Any = None,
        accountant: BudgetAccountant | None = None,
        delta: float = DELTA,
    ) -> None:
        self.epsilon = epsilon
        self.bounds_X = bounds_X
        self.bounds_y = bounds_y
        self.fit_intercept = fit_intercept
        self.copy_X = copy_X
        self.random_state = random_state
        self.accountant = accountant
        self.delta = delta

    def fit(self, X: Any, y: Any) -> Self:
        """Fit on rows and targets.

        Parameters
        ----------
        X, y : array-like
            Rows and targets.

        Returns
        -------
        LinearRegression
            Itself.
        """
        bounds = self._known(self.bounds_X, "bounds_X", "bounds_X=(LOWER, UPPER)")
        low, high = self._known(self.bounds_y, "bounds_y", "bounds_y=(LOWER, UPPER)")
        self.model_ = PrivateLinearRegressor(
            target_bounds=(float(low), float(high)),
            epsilon=self.epsilon,
            delta=self.delta,
            bounds=box_of_columns(bounds, X),
            ledger=self._bill(),
        ).fit(X, y)
        self.n_features_in_ = self.model_.n_features_in_
        return self

    def predict(self, X: Any) -> Array:
        """Give the target of each row.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
            Targets.
        """
        check_is_fitted(self)
        return np.asarray(self.model_.predict(X))
