"""Classifiers with diffprivlib's names and signatures."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from sfumato.additive import PrivateAdditiveClassifier
from sfumato.compat.diffprivlib.accountant import BudgetAccountant
from sfumato.compat.diffprivlib.models.shell import DELTA, Array, Shell, box, box_of_columns
from sfumato.linear import PrivateLinearClassifier
from sfumato.moments import PrivateGaussianClassifier
from sfumato.tables.bounds import PUBLIC_LABELS, Bounds

__all__ = ["GaussianNB", "LogisticRegression", "RandomForestClassifier"]


class _Classifier(ClassifierMixin, Shell):
    def _fitted(self, model: Any, X: Any, y: Any) -> Self:
        self.model_ = model.fit(X, y)
        self.classes_, self.n_features_in_ = model.classes_, model.n_features_in_
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Give the label of each row.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
            Labels.
        """
        check_is_fitted(self)
        return np.asarray(self.model_.predict(X))

    def predict_proba(self, X: Any) -> Array:
        """Give the probability of each label.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Probabilities, in the order of `classes_`.
        """
        check_is_fitted(self)
        return np.asarray(self.model_.predict_proba(X))

    def predict_log_proba(self, X: Any) -> Array:
        """Give logarithms of `predict_proba`.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Logarithms.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


def _labels(classes: Any) -> Any:
    return PUBLIC_LABELS if classes is None else tuple(classes)


class GaussianNB(_Classifier):
    """Gaussians per class, by `sfumato.PrivateGaussianClassifier`.

    Parameters
    ----------
    epsilon : float, default=1.0
        The budget.
    bounds : tuple
        Public ``(lower, upper)``, numbers or one per column; required.
    priors, var_smoothing, random_state : object
        Without effect.
    accountant : BudgetAccountant, optional
        Who pays.
    delta : float, default=1e-6
        The delta of the promise.
    classes : sequence, optional
        The public label set.

    Attributes
    ----------
    classes_, class_count_, class_prior_ : ndarray
        Labels, noisy counts and shares of the classes.
    guarantee_ : Guarantee
        The privacy guarantee of the fit.

    Privacy
    -------
    Unit and relation : record; replace_one.
    Released : as `PrivateGaussianClassifier`; covariances too, so it is not naive.
    Sensitivity : as there.
    Guarantee : (epsilon, delta).
    Assumptions and numerics : bounds and label set are public. Proof:
        docs/guarantees/gaussian-classifier.md.
    """

    _without_effect = ("priors", "random_state")

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        bounds: Any = None,
        priors: Any = None,
        var_smoothing: float = 1e-9,
        random_state: Any = None,
        accountant: BudgetAccountant | None = None,
        delta: float = DELTA,
        classes: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.priors = priors
        self.var_smoothing = var_smoothing
        self.random_state = random_state
        self.accountant = accountant
        self.delta = delta
        self.classes = classes

    def fit(self, X: Any, y: Any) -> Self:
        """Fit on rows and labels.

        Parameters
        ----------
        X, y : array-like
            Rows and labels.

        Returns
        -------
        GaussianNB
            Itself.
        """
        bounds = self._known(self.bounds, "bounds", "bounds=(LOWER, UPPER)")
        model = PrivateGaussianClassifier(
            gaussians_per_class=1,
            epsilon=self.epsilon,
            delta=self.delta,
            bounds=box(bounds, labels=_labels(self.classes)),
            ledger=self._bill(),
        )
        self._fitted(model, X, y)
        self.class_count_ = model.counts_
        self.class_prior_ = model.counts_ / model.counts_.sum()
        return self


class LogisticRegression(_Classifier):
    """Weights of a softmax, by `sfumato.PrivateLinearClassifier`; ``delta=0`` keeps pure epsilon.

    Parameters
    ----------
    epsilon : float, default=1.0
        The budget.
    data_norm : float
        Public largest length of a row; required.
    tol : float, default=1e-4
        Without effect.
    C : float, default=1.0
        Inverse of the regularisation where epsilon is infinite; else without effect.
    fit_intercept : bool, default=True
        Whether there is a constant where epsilon is infinite; else without effect.
    max_iter, verbose, warm_start, n_jobs, random_state : object
        Without effect: settings follow from the number of rows, epsilon and delta.
    accountant : BudgetAccountant, optional
        Who pays.
    delta : float, default=1e-6
        The delta of the promise; 0 perturbs the objective, as diffprivlib does.
    classes : sequence, optional
        The public label set.

    Attributes
    ----------
    classes_, coef_, intercept_ : ndarray
        Labels, and weights of rows divided by `data_norm`.
    guarantee_ : Guarantee
        The privacy guarantee of the fit.

    Privacy
    -------
    Unit and relation : record; replace_one.
    Released : as `PrivateLinearClassifier`.
    Sensitivity : as there.
    Guarantee : (epsilon, delta).
    Assumptions and numerics : norm and label set are public. Proof:
        docs/guarantees/linear-classifier.md.
    """

    _without_effect = ("C", "fit_intercept", "warm_start", "random_state")

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        data_norm: float | None = None,
        tol: float = 1e-4,
        C: float = 1.0,
        fit_intercept: bool = True,
        max_iter: int = 100,
        verbose: int = 0,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        accountant: BudgetAccountant | None = None,
        delta: float = DELTA,
        classes: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.data_norm = data_norm
        self.tol = tol
        self.C = C
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.verbose = verbose
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.accountant = accountant
        self.delta = delta
        self.classes = classes

    def fit(self, X: Any, y: Any) -> Self:
        """Fit on rows and labels.

        Parameters
        ----------
        X, y : array-like
            Rows and labels.

        Returns
        -------
        LogisticRegression
            Itself.
        """
        norm = self._known(self.data_norm, "data_norm", "data_norm=LENGTH")
        settings = self._minimiser(norm) if math.isinf(self.epsilon) else {}
        model = PrivateLinearClassifier(
            **{"algorithm": "noisy-gd" if self.delta else "objective", **settings},
            epsilon=self.epsilon,
            delta=self.delta,
            bounds=Bounds(norm=norm, labels=_labels(self.classes)),
            ledger=self._bill(used=("C", "fit_intercept") if settings else ()),
        )
        self._fitted(model, X, y)
        self.coef_, self.intercept_ = model.coef_, model.intercept_
        return self

    def _minimiser(self, norm: float) -> dict[str, Any]:
        """Ask for scikit-learn's objective, ``C sum loss + ||w||²/2`` of rows as they are.

        Rows are divided by their largest length, and with a constant by √2 once more.
        """
        squared = norm**2 * (2 if self.fit_intercept else 1)
        return {
            "algorithm": "objective",
            "regularization": 1 / (self.C * squared),
            "fit_intercept": bool(self.fit_intercept),
        }


class RandomForestClassifier(_Classifier):
    """No forest, but curves per column and pairs of them: `sfumato.PrivateAdditiveClassifier`.

    Parameters
    ----------
    n_estimators : int, default=10
        Without effect.
    epsilon : float, default=1.0
        The budget.
    bounds : tuple
        Public ``(lower, upper)``, numbers or one per column; required.
    classes : sequence, optional
        The public label set.
    n_jobs, verbose : int
        Without effect.
    accountant : BudgetAccountant, optional
        Who pays.
    random_state, max_depth, warm_start, shuffle : object
        Without effect.
    delta : float, default=1e-6
        The delta of the promise.

    Attributes
    ----------
    classes_ : ndarray
        Labels.
    guarantee_ : Guarantee
        The privacy guarantee of the fit.

    Privacy
    -------
    Unit and relation : record; replace_one.
    Released : as `PrivateAdditiveClassifier`.
    Sensitivity : as there.
    Guarantee : (epsilon, delta).
    Assumptions and numerics : bounds and label set are public. Proof:
        docs/guarantees/additive.md.
    """

    _without_effect = ("warm_start", "random_state")

    def __init__(
        self,
        n_estimators: int = 10,
        *,
        epsilon: float = 1.0,
        bounds: Any = None,
        classes: Any = None,
        n_jobs: int | None = 1,
        verbose: int = 0,
        accountant: BudgetAccountant | None = None,
        random_state: Any = None,
        max_depth: int = 5,
        warm_start: bool = False,
        shuffle: bool = False,
        delta: float = DELTA,
    ) -> None:
        self.n_estimators = n_estimators
        self.epsilon = epsilon
        self.bounds = bounds
        self.classes = classes
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.accountant = accountant
        self.random_state = random_state
        self.max_depth = max_depth
        self.warm_start = warm_start
        self.shuffle = shuffle
        self.delta = delta

    def fit(self, X: Any, y: Any) -> Self:
        """Fit on rows and labels.

        Parameters
        ----------
        X, y : array-like
            Rows and labels.

        Returns
        -------
        RandomForestClassifier
            Itself.
        """
        bounds = self._known(self.bounds, "bounds", "bounds=(LOWER, UPPER)")
        model = PrivateAdditiveClassifier(
            epsilon=self.epsilon,
            delta=self.delta,
            bounds=box_of_columns(bounds, X, labels=_labels(self.classes)),
            ledger=self._bill(),
        )
        return self._fitted(model, X, y)
