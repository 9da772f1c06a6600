"""A private classifier: one Gaussian a class, in private principal components."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from sfumato.accounting.gaussian import mu_from_budget
from sfumato.bounds import Bounds
from sfumato.exceptions import InvalidInputError
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.moments.gaussians import ClassGaussians, gaussians_from_moments
from sfumato.moments.pca import check_n_components, top_eigenvectors
from sfumato.moments.sensitivity import class_moments_sensitivity, second_moment_sensitivity
from sfumato.moments.statistics import UnitRows, class_moments, second_moment
from sfumato.private import PrivateEstimator

__all__ = ["PrivateGaussianClassifier"]

Array = NDArray[np.float64]


class PrivateGaussianClassifier(ClassifierMixin, PrivateEstimator):
    """``argmax_c  n_c N(Uᵀx; mean_c, covariance_c)``, all of it from two noisy moments.

    Parameters
    ----------
    n_components : int or None, default=40
        Private principal components to classify in, capped at the number of features; None
        uses the features as they are and spends the whole budget on the class moments.
    pca_share : float, default=0.3
        Share of ``mu²`` that goes to the components; not used without them.
    epsilon, delta : float, default=1.0, 1e-6
        The budget of the whole fit. ``epsilon=inf`` gives quadratic discriminant analysis and
        no privacy.
    unit : {"record"}, default="record"
        One whole row with its label is protected.
    relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        The neighbours.
    mode : {"strict"}, default="strict"
        No printed algorithm differs here.
    bounds : Bounds
        Public bounds of the rows and the label set; required.
    ledger : DatasetBudget, optional
        Who pays; see `sfumato.Ledger`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The public label set, sorted.
    components_ : ndarray of shape (n_components, n_features)
        Private principal directions (the identity without them).
    counts_, means_, covariances_ : ndarray
        The class Gaussians in the components, rows scaled into the unit ball.
    guarantee_ : Guarantee
        What is promised.

    Privacy
    -------
    Unit and relation : record, label included; replace_one or add_or_remove_one.
    Released : the second moment of all rows, then the class moments in its top eigenvectors,
        each with symmetric Gaussian noise.
    Sensitivity : ``√2`` and ``2√2`` (replace), 1 and 2 (add or remove).
    Guarantee : ``mu² = mu_pca² + mu_moments²``, calibrated to (epsilon, delta).
    Assumptions and numerics : bounds and label set are public; sums are exact, noise is
        float-safe. Proof: docs/guarantees/gaussian-classifier.md.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sfumato import Bounds, PrivateGaussianClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> bounds = Bounds(norm=80.0, labels=range(10))
    >>> model = PrivateGaussianClassifier(epsilon=8.0, delta=1e-5, n_components=20, bounds=bounds)
    >>> bool(model.fit(X, y).score(X, y) > 0.6)
    True
    """

    def __init__(
        self,
        n_components: int | None = 40,
        *,
        pca_share: float = 0.3,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        unit: str = "record",
        relation: str = "replace_one",
        mode: str = "strict",
        bounds: Bounds | None = None,
        ledger: Any = None,
    ) -> None:
        self.n_components = n_components
        self.pca_share = pca_share
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.relation = relation
        self.mode = mode
        self.bounds = bounds
        self.ledger = ledger

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn components and class Gaussians from two noisy moments."""
        bounds = self._check_promise()
        rows = self._check_rows(X)
        codes, self.classes_ = self._check_labels(rows, y, bounds)
        if len(self.classes_) < 2:
            raise InvalidInputError(
                "The label set holds one class; a classifier needs at least two."
            )
        self._warn_if_weak(len(rows))

        units = UnitRows.for_sums(bounds, rows.shape, self.relation)  # [G1] rows in the unit ball
        components, moments = self._mechanisms(rows.shape[1])  # [G2] the budget divided
        receipt = self._prepay(*filter(None, (components, moments)))  # [G3] charge both, then draw
        basis = self._basis(components, units, rows, receipt)  # [G4] first release
        noisy = moments.release_symmetric(  # [G5] second release
            class_moments(units, rows, codes, len(self.classes_), basis), ledger=receipt
        )

        gaussians = gaussians_from_moments(noisy, moments.variance() ** 0.5)  # [G6] no rows
        self.components_ = np.eye(rows.shape[1]) if basis is None else basis.T
        self.counts_ = gaussians.counts
        self.means_, self.covariances_ = gaussians.means, gaussians.covariances
        self.guarantee_ = self._guarantee(receipt)
        return self

    def _mechanisms(self, n_features: int) -> tuple[GaussianMechanism | None, GaussianMechanism]:
        """Divide ``mu²`` between the two releases."""
        if not 0 < self.pca_share < 1:
            raise InvalidInputError(f"'pca_share' must lie in (0, 1). Got {self.pca_share}.")
        mu = mu_from_budget(self.epsilon, self.delta)
        share = 0.0 if self._components_kept(n_features) is None else self.pca_share
        moments = GaussianMechanism.from_mu(
            sensitivity=class_moments_sensitivity(self.relation), mu=mu * math.sqrt(1 - share)
        )
        if not share:
            return None, moments
        components = GaussianMechanism.from_mu(
            sensitivity=second_moment_sensitivity(self.relation), mu=mu * math.sqrt(share)
        )
        return components, moments

    def _components_kept(self, n_features: int) -> int | None:
        """Give the number of components, or None where all features are kept anyway."""
        if self.n_components is None:
            return None
        kept = check_n_components(self.n_components, n_features)
        return None if kept == n_features else kept

    def _basis(
        self, mechanism: GaussianMechanism | None, units: UnitRows, rows: Array, receipt: Any
    ) -> Array | None:
        kept = self._components_kept(rows.shape[1])
        if mechanism is None or kept is None:
            return None
        noisy = mechanism.release_symmetric(second_moment(units, rows), ledger=receipt)
        return top_eigenvectors(noisy, kept)[1]

    def decision_function(self, X: ArrayLike) -> Array:
        """Log of count times density for each class; for two classes, their difference."""
        scores = self._joint_log_likelihood(X)
        return np.asarray(scores[:, 1] - scores[:, 0]) if scores.shape[1] == 2 else scores

    def _joint_log_likelihood(self, X: ArrayLike) -> Array:
        check_is_fitted(self)
        rows = self._check_rows(X, reset=False)
        assert self.bounds is not None  # noqa: S101 - checked by fit
        units = UnitRows(self.bounds, rows.shape[1], bits=40)
        gaussians = ClassGaussians(self.counts_, self.means_, self.covariances_)
        scores = [
            gaussians.log_densities(block) for _, block in units.blocks(rows, self.components_.T)
        ]
        return np.asarray(np.concatenate(scores) + np.log(self.counts_))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Give the most probable label of each row."""
        scores = self._joint_log_likelihood(X)
        return np.asarray(self.classes_[scores.argmax(axis=1)])

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Give the log-probability of each label."""
        scores = self._joint_log_likelihood(X)
        return np.asarray(scores - logsumexp(scores, axis=1, keepdims=True))

    def predict_proba(self, X: ArrayLike) -> Array:
        """Give the probability of each label."""
        return np.asarray(np.exp(self.predict_log_proba(X)))
