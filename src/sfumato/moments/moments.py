"""Private counts, means and covariances of all classes from one joint release."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags

from sfumato.bounds import Bounds
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.moments.gaussians import gaussians_from_moments
from sfumato.moments.sensitivity import class_moments_sensitivity
from sfumato.moments.statistics import UnitRows, class_moments
from sfumato.private import PrivateEstimator

__all__ = ["PrivateMoments"]


class PrivateMoments(PrivateEstimator):
    """``S_c = sum_{y=c} [x; 1][x; 1]ᵀ + noise`` for all classes at the price of one.

    Parameters
    ----------
    epsilon, delta : float, default=1.0, 1e-6
        The budget. ``epsilon=inf`` gives the exact moments and no privacy.
    unit : {"record"}, default="record"
        One whole row with its label is protected.
    relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        The neighbours.
    mode : {"strict"}, default="strict"
        No printed algorithm differs here.
    bounds : Bounds
        Public bounds of the rows, with the label set if labels are given; required.
    ledger : DatasetBudget, optional
        Who pays; see `sfumato.Ledger`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The public label set, sorted; a single 0 where no labels were given.
    counts_ : ndarray of shape (n_classes,)
        Noisy numbers of rows, at least 1.
    means_ : ndarray of shape (n_classes, n_features)
        Noisy means, inside the ball of the bounds.
    covariances_ : ndarray of shape (n_classes, n_features, n_features)
        Noisy covariances, shrunk and made positive definite by a public rule
        (`sfumato.moments.gaussians`).
    guarantee_ : Guarantee
        What is promised.

    Privacy
    -------
    Unit and relation : record, label included; replace_one or add_or_remove_one.
    Released : the joint moments of all classes, with symmetric Gaussian noise.
    Sensitivity : ``2√2`` (replace, a change of label included) or 2 (add or remove).
    Guarantee : mu-GDP by the Gaussian mechanism, hence (epsilon, delta).
    Assumptions and numerics : bounds and label set are public; sums are exact, noise is
        float-safe. Proof: docs/guarantees/moments.md.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import Bounds, PrivateMoments
    >>> X = np.random.default_rng(0).normal(0.3, 0.1, size=(5000, 2))
    >>> moments = PrivateMoments(epsilon=1.0, bounds=Bounds(lower=0.0, upper=1.0)).fit(X)
    >>> moments.means_.round(1)
    array([[0.3, 0.3]])
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        unit: str = "record",
        relation: str = "replace_one",
        mode: str = "strict",
        bounds: Bounds | None = None,
        ledger: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.relation = relation
        self.mode = mode
        self.bounds = bounds
        self.ledger = ledger

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = True
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn the moments of the classes in `y`, or of all rows as one class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,), optional
            Labels.

        Returns
        -------
        Self
            The fitted estimator.
        """
        bounds = self._check_promise()
        rows = self._check_rows(X)
        if y is None:
            codes, self.classes_ = np.zeros(len(rows), dtype=np.intp), np.zeros(1, dtype=int)
        else:
            codes, self.classes_ = self._check_labels(rows, y, bounds)
        self._warn_if_weak(len(rows))

        units = UnitRows.for_sums(bounds, rows.shape, self.relation)  # [M1] rows in the unit ball
        mechanism = GaussianMechanism.calibrate(  # [M2] sensitivity of all classes jointly
            sensitivity=class_moments_sensitivity(self.relation),
            epsilon=self.epsilon,
            delta=self.delta,
        ).for_size(len(self.classes_) * (rows.shape[1] + 1) ** 2)
        receipt = self._prepay(mechanism)  # [M3] charge, then draw
        noisy = mechanism.release_symmetric(
            class_moments(units, rows, codes, len(self.classes_)), ledger=receipt
        )

        gaussians = gaussians_from_moments(noisy, mechanism.variance() ** 0.5)  # [M4] no rows
        centre, radius = bounds.ball(rows.shape[1])
        self.counts_ = gaussians.counts
        self.means_ = gaussians.means * radius + centre
        self.covariances_ = gaussians.covariances * radius**2
        self.guarantee_ = self._guarantee(receipt)
        return self
