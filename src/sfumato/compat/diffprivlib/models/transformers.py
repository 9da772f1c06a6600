"""Transformers with diffprivlib's names and signatures."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sfumato.compat.diffprivlib.accountant import BudgetAccountant
from sfumato.compat.diffprivlib.models.shell import DELTA, Array, Shell, box
from sfumato.exceptions import UnsupportedModeError
from sfumato.moments import PrivateMoments, PrivatePCA
from sfumato.tables.bounds import Bounds
from sfumato.tables.cells import as_rows

__all__ = ["PCA", "StandardScaler"]


class PCA(TransformerMixin, Shell):
    """Principal components around a public centre, by `sfumato.PrivatePCA`.

    Parameters
    ----------
    n_components : int, optional
        Directions kept; all by default.
    epsilon : float, default=1.0
        The budget.
    data_norm : float, optional
        Public largest length of a row; required unless there are `bounds`.
    centered : bool, default=False
        Without effect: rows are centred at the public centre of the bounds, 0 for a norm.
    bounds : tuple, optional
        Public ``(lower, upper)``.
    copy : bool, default=True
        Without effect.
    whiten : bool, default=False
        Not offered.
    random_state : object
        Without effect.
    accountant : BudgetAccountant, optional
        Who pays.
    delta : float, default=1e-6
        The delta of the promise.

    Attributes
    ----------
    components_, mean_ : ndarray
        Directions, and the public centre.
    guarantee_ : Guarantee
        The privacy guarantee of the fit.

    Privacy
    -------
    Unit and relation : record; replace_one.
    Released : as `PrivatePCA`.
    Sensitivity : as there.
    Guarantee : (epsilon, delta).
    Assumptions and numerics : bounds are public. Proof: docs/guarantees/pca.md.
    """

    _without_effect = ("random_state",)

    def __init__(
        self,
        n_components: int | None = None,
        *,
        epsilon: float = 1.0,
        data_norm: float | None = None,
        centered: bool = False,
        bounds: Any = None,
        copy: bool = True,
        whiten: bool = False,
        random_state: Any = None,
        accountant: BudgetAccountant | None = None,
        delta: float = DELTA,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.data_norm = data_norm
        self.centered = centered
        self.bounds = bounds
        self.copy = copy
        self.whiten = whiten
        self.random_state = random_state
        self.accountant = accountant
        self.delta = delta

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002 - of a pipeline
        """Find directions.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows.
        y : object
            Not looked at.

        Returns
        -------
        PCA
            Itself.
        """
        if self.whiten:
            raise UnsupportedModeError("'whiten' is not offered here.")
        if self.bounds is None:
            norm = self._known(self.data_norm, "data_norm", "data_norm=LENGTH")
            bounds = Bounds(norm=norm)
        else:
            bounds = box(self.bounds, norm=self.data_norm)
        width = as_rows(X).shape[1]
        self.model_ = PrivatePCA(
            n_components=width if self.n_components is None else self.n_components,
            epsilon=self.epsilon,
            delta=self.delta,
            bounds=bounds,
            ledger=self._bill(),
        ).fit(X)
        self.components_, self.mean_ = self.model_.components_, self.model_.centre_
        self.n_components_, self.n_features_in_ = len(self.components_), width
        return self

    def transform(self, X: Any) -> Array:
        """Give coordinates along the directions.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n, n_components)
            Coordinates.
        """
        check_is_fitted(self)
        return np.asarray((as_rows(X, self.n_features_in_) - self.mean_) @ self.components_.T)

    def inverse_transform(self, X: Any) -> Array:
        """Give rows of coordinates.

        Parameters
        ----------
        X : array-like of shape (n, n_components)
            Coordinates.

        Returns
        -------
        ndarray of shape (n, n_features)
            Rows.
        """
        check_is_fitted(self)
        return np.asarray(as_rows(X) @ self.components_ + self.mean_)


class StandardScaler(TransformerMixin, Shell):
    """Private means and deviations of columns, by `sfumato.PrivateMoments`.

    Parameters
    ----------
    epsilon : float, default=1.0
        The budget.
    bounds : tuple
        Public ``(lower, upper)``, numbers or one per column; required.
    copy : bool, default=True
        Without effect.
    with_mean, with_std : bool, default=True
        Whether to take the mean away, and to divide by the deviation.
    random_state : object
        Without effect.
    accountant : BudgetAccountant, optional
        Who pays.
    delta : float, default=1e-6
        The delta of the promise.

    Attributes
    ----------
    mean_, var_, scale_ : ndarray
        Private means, variances and deviations.
    guarantee_ : Guarantee
        The privacy guarantee of the fit.

    Privacy
    -------
    Unit and relation : record; replace_one.
    Released : as `PrivateMoments`, of columns scaled to their ranges.
    Sensitivity : as there.
    Guarantee : (epsilon, delta).
    Assumptions and numerics : bounds are public. Proof: docs/guarantees/moments.md.
    """

    _without_effect = ("random_state",)

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        bounds: Any = None,
        copy: bool = True,
        with_mean: bool = True,
        with_std: bool = True,
        random_state: Any = None,
        accountant: BudgetAccountant | None = None,
        delta: float = DELTA,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.copy = copy
        self.with_mean = with_mean
        self.with_std = with_std
        self.random_state = random_state
        self.accountant = accountant
        self.delta = delta

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002 - of a pipeline
        """Find means and deviations.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows.
        y : object
            Not looked at.

        Returns
        -------
        StandardScaler
            Itself.
        """
        bounds = self._known(self.bounds, "bounds", "bounds=(LOWER, UPPER)")
        rows = as_rows(X)
        lower, upper = (np.broadcast_to(np.asarray(end, float), rows.shape[1]) for end in bounds)
        middle, width = (lower + upper) / 2, upper - lower
        inside = np.clip(rows, lower, upper)  # first, or a far cell would warn that it is there
        scaled = np.clip((inside - middle) / width, -0.5, 0.5)  # each cell by itself
        self.model_ = PrivateMoments(
            epsilon=self.epsilon,
            delta=self.delta,
            bounds=Bounds(lower=-0.5, upper=0.5),
            ledger=self._bill(),
        ).fit(scaled)
        self.mean_ = np.clip(middle + width * self.model_.means_[0], lower, upper)
        self.var_ = np.diag(self.model_.covariances_[0]) * width**2
        self.scale_ = np.sqrt(self.var_)
        self.n_features_in_ = rows.shape[1]
        return self

    def transform(self, X: Any) -> Array:
        """Scale rows.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n, n_features)
            Scaled rows.
        """
        check_is_fitted(self)
        rows = as_rows(X, self.n_features_in_)
        rows = rows - self.mean_ if self.with_mean else rows
        return np.asarray(rows / self.scale_ if self.with_std else rows)
