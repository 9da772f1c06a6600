"""A private classifier: Gaussians of the classes, in private principal components."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from sfumato.exceptions import InvalidInputError
from sfumato.guarantee import Unit
from sfumato.moments.gaussians import CentredGaussians, ClassGaussians, stored_gaussians
from sfumato.moments.record_engine import GaussiansPlan, check_parts, release_gaussians
from sfumato.private import PrivateEstimator
from sfumato.storage.forms import Form, integers, known_bounds, labels, numbers, real
from sfumato.sums import Records
from sfumato.tables.bounds import Bounds
from sfumato.tables.cells import check_n_components
from sfumato.tables.schema import TableBounds

__all__ = ["PrivateGaussianClassifier"]

Array = NDArray[np.float64]
BLOCK = 4096  # rows that are scored together


class PrivateGaussianClassifier(ClassifierMixin, PrivateEstimator):
    """``argmax_c  n_c N(u; mean_c, covariance_c)``, ``u = Uᵀ(x - centre)/radius``, clipped.

    All of it comes from one to four noisy sums; see `sfumato.moments.record_engine`.

    Parameters
    ----------
    n_components : int or None, default=40
        Private principal components to classify in, capped at the number of features; None
        uses the features as they are and spends their share of the budget on the classes.
    gaussians_per_class : {1, 2, 4}, optional
        Gaussians that make up a class; by default as many as epsilon, the number of rows (where
        it is public), of labels and of components allow. Several help where a class has several
        forms, as in images; 1 is the better choice for tables that are mostly categories.
    single_release : bool, default=False
        Take one noisy sum, and so read the rows once: for rows by the million. With fewer, several
        sums are more accurate: later ones are centred and clipped by what earlier ones showed.
    epsilon, delta : float, default=1.0, 1e-6
        The budget of the whole fit. ``epsilon=inf`` adds no noise and gives no privacy.
    unit : {"record", "person"}, default="record"
        One whole row with its label is protected, or all rows of a person.
    relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Which data sets count as neighbours.
    bounds : Bounds
        Public bounds of the rows and the label set; required.
    ledger : DatasetBudget, optional
        The budget that pays; see `sfumato.Ledger`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The public label set, sorted.
    components_ : ndarray of shape (n_components, n_features)
        Private principal directions (the identity without them).
    centre_ : ndarray of shape (n_features,)
        Private mean of the rows.
    radius_ : float
        Length at which centred rows are clipped along the components.
    counts_, means_, covariances_ : ndarray
        The Gaussians in the components, rows centred and divided by the radius.
    gaussian_classes_ : ndarray of shape (n_gaussians,)
        Position in `classes_` of the class of each Gaussian.
    guarantee_ : Guarantee
        The privacy guarantee of the fit.

    Privacy
    -------
    Unit and relation : record, label included, or person; replace_one or add_or_remove_one.
    Released : the sum of rows and squared lengths; the second moment of centred rows; the class
        moments in its top eigenvectors (twice where a class has several Gaussians), each with
        Gaussian noise. With `single_release`, the class moments of all features alone.
    Sensitivity : 2, ``√2``, ``1.25·√2`` (replace), or ``√3``, 1, 1.25 (add or remove).
    Guarantee : the ``mu²`` of the releases add up, calibrated to (epsilon, delta).
    Assumptions and numerics : bounds and label set are public; sums are exact, noise is
        float-safe. Proof: docs/guarantees/gaussian-classifier.md.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sfumato import Bounds, PrivateGaussianClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> bounds = Bounds(norm=80.0, labels=range(10))
    >>> model = PrivateGaussianClassifier(epsilon=8.0, delta=1e-5, n_components=20, bounds=bounds)
    >>> bool(model.fit(X, y).score(X, y) > 0.8)
    True
    """

    offered_units: ClassVar[tuple[Unit, ...]] = (Unit.RECORD, Unit.PERSON)
    stored_form: ClassVar[Form] = {
        "bounds": known_bounds,
        "classes_": labels("c"),
        "components_": numbers("k", "d"),
        "centre_": numbers("d"),
        "radius_": real(above=0.0),
        **{f"{name}_": check for name, check in stored_gaussians().items()},
        "gaussian_classes_": integers("g", below="c", all_of_them=True),
    }

    def __init__(
        self,
        n_components: int | None = 40,
        *,
        gaussians_per_class: int | None = None,
        single_release: bool = False,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        unit: str = "record",
        relation: str = "replace_one",
        bounds: Bounds | TableBounds | None = None,
        ledger: Any = None,
    ) -> None:
        self.n_components = n_components
        self.gaussians_per_class = gaussians_per_class
        self.single_release = single_release
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.relation = relation
        self.bounds = bounds
        self.ledger = ledger

    def fit(
        self, X: ArrayLike | Records, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Self:
        """Learn components and class Gaussians from a few noisy sums.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or Records
            Rows; records bring their labels along.
        y : array-like of shape (n_samples,)
            Labels.
        groups : array-like of shape (n_samples,), optional
            IDs of persons, for unit "person"; rows without one are dropped.

        Returns
        -------
        Self
            The fitted estimator.
        """
        bounds = self._check_promise()
        records, self.classes_ = self._labelled_unit_records(X, y, bounds, groups)
        plan = self._plan(records)  # [G1] the budget divided
        receipt = self._prepay(*plan.mechanisms())  # [G2] charge all, then draw
        released = release_gaussians(records, plan, receipt)  # [G3] the releases
        released = released.in_units_of(bounds)

        self.components_ = released.basis.T  # [G4] post-processing: no rows
        self.centre_, self.radius_ = released.centre, released.radius
        self.counts_ = released.gaussians.counts
        self.means_ = released.gaussians.means
        self.covariances_ = released.gaussians.covariances
        self.gaussian_classes_ = released.classes
        self.guarantee_ = self._guarantee(receipt)
        return self

    def _plan(self, records: Records) -> GaussiansPlan:
        check_parts(self.gaussians_per_class)
        if self.single_release and self.gaussians_per_class not in (None, 1):
            raise InvalidInputError(
                "'single_release' gives one Gaussian per class; several of them "
                f"(gaussians_per_class={self.gaussians_per_class}) need a further release."
            )
        kept = records.width if self.n_components is None else self.n_components
        return GaussiansPlan.of(
            records,
            epsilon=self.epsilon,
            delta=self.delta,
            n_classes=len(self.classes_),
            n_components=check_n_components(kept, records.width),
            gaussians_per_class=self.gaussians_per_class,
            single=self.single_release,
        )

    def decision_function(self, X: ArrayLike) -> Array:
        """Log of count times density for each class; for two classes, their difference.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Scores; the second shape for more than two classes.
        """
        scores = self._joint_log_likelihood(X)
        return np.asarray(scores[:, 1] - scores[:, 0]) if scores.shape[1] == 2 else scores

    def _joint_log_likelihood(self, X: ArrayLike) -> Array:
        check_is_fitted(self)
        rows = self._check_rows(X, reset=False)
        blocks = [self._scores(rows[i : i + BLOCK]) for i in range(0, len(rows), BLOCK)]
        return np.concatenate(blocks)

    def _scores(self, rows: Array) -> Array:
        """Log of the sum of count times density over the Gaussians of each class."""
        released = CentredGaussians(
            self.centre_,
            self.components_.T,
            self.radius_,
            ClassGaussians(self.counts_, self.means_, self.covariances_),
            self.gaussian_classes_,
        )
        coordinates = released.to_coordinates(self.row_bounds.clip(rows))
        parts = released.gaussians.log_densities(coordinates) + np.log(self.counts_)
        return np.column_stack(
            [
                logsumexp(parts[:, self.gaussian_classes_ == code], axis=1)
                for code in range(len(self.classes_))
            ]
        )

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Give the most probable label of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
        """
        scores = self._joint_log_likelihood(X)
        return np.asarray(self.classes_[scores.argmax(axis=1)])

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Give the log-probability of each label.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Logarithms.
        """
        scores = self._joint_log_likelihood(X)
        return np.asarray(scores - logsumexp(scores, axis=1, keepdims=True))

    def predict_proba(self, X: ArrayLike) -> Array:
        """Give the probability of each label.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities.
        """
        return np.asarray(np.exp(self.predict_log_proba(X)))
