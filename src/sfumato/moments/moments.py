"""Private counts, means and covariances of all classes from one joint release."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike
from sklearn.utils import Tags

from sfumato.guarantee import Unit
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.moments.gaussians import gaussians_from_moments
from sfumato.private import PrivateEstimator
from sfumato.storage.forms import Form, known_bounds, labels, numbers
from sfumato.sums import ClassMoments, Records
from sfumato.tables.bounds import Bounds
from sfumato.tables.schema import TableBounds

__all__ = ["PrivateMoments"]

# Weight w of the constant. The noise of means is least at w = 1 and hardly more here (0.9 %), that
# of second moments falls with 1 + w² (by 12 %).
CONSTANT = 7 / 8


class PrivateMoments(PrivateEstimator):
    """``S_c = sum_{y=c} [x; w][x; w]ᵀ + noise`` for all classes at the price of one.

    Parameters
    ----------
    epsilon, delta : float, default=1.0, 1e-6
        The budget. ``epsilon=inf`` gives the exact moments and no privacy.
    unit : {"record", "person"}, default="record"
        One whole row with its label is protected, or all rows of a person.
    relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Which data sets count as neighbours.
    bounds : Bounds
        Public bounds of the rows, with the label set if labels are given; required.
    ledger : DatasetBudget, optional
        The budget that pays; see `sfumato.Ledger`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The public label set, sorted; a single 0 where no labels were given.
    counts_ : ndarray of shape (n_classes,)
        Noisy numbers of rows, at least 1; where the number of all rows is public they add up to it.
    means_ : ndarray of shape (n_classes, n_features)
        Noisy means, inside the ball of the bounds.
    covariances_ : ndarray of shape (n_classes, n_features, n_features)
        Noisy covariances, shrunk and made positive definite by a public rule
        (`sfumato.moments.gaussians`).
    guarantee_ : Guarantee
        The privacy guarantee of the fit.

    Privacy
    -------
    Unit and relation : record, label included, or person; replace_one or add_or_remove_one.
    Released : the joint moments of all classes, with symmetric Gaussian noise.
    Sensitivity : ``√2 (1 + w²)`` (replace, a change of label included) or ``1 + w²`` (add or
        remove), w = 7/8: 2.50 or 1.77.
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

    offered_units: ClassVar[tuple[Unit, ...]] = (Unit.RECORD, Unit.PERSON)
    scales_columns: ClassVar[bool] = False  # what is released is in the units of the rows
    stored_form: ClassVar[Form] = {
        "bounds": known_bounds,
        "classes_": labels("c"),
        "counts_": numbers("c"),
        "means_": numbers("c", "d"),
        "covariances_": numbers("c", "d", "d"),
    }

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        unit: str = "record",
        relation: str = "replace_one",
        bounds: Bounds | TableBounds | None = None,
        ledger: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.relation = relation
        self.bounds = bounds
        self.ledger = ledger

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = True
        return tags

    def fit(
        self, X: ArrayLike | Records, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Self:
        """Learn the moments of the classes in `y`, or of all rows as one class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or Records
            Rows; records bring their labels along.
        y : array-like of shape (n_samples,), optional
            Labels.
        groups : array-like of shape (n_samples,), optional
            IDs of persons, for unit "person"; rows without one are dropped.

        Returns
        -------
        Self
            The fitted estimator.
        """
        bounds = self._check_promise()
        records, self.classes_ = self._unit_records(
            X, y, bounds, groups
        )  # [M1] rows in the unit ball
        statistic = ClassMoments(len(self.classes_), records.width, CONSTANT)
        mechanism = GaussianMechanism.calibrate(  # [M2] sensitivity of all classes jointly
            sensitivity=records.sensitivity(statistic), epsilon=self.epsilon, delta=self.delta
        ).for_size(statistic.size)
        receipt = self._prepay(mechanism)  # [M3] charge, then draw
        noisy = statistic.unweighted(records.release(statistic, mechanism, receipt))

        gaussians = gaussians_from_moments(  # [M4] no rows
            noisy, records.variance_of(mechanism) ** 0.5, n_rows=records.public_rows
        )
        centre, radius = bounds.ball(records.width)
        self.counts_ = gaussians.counts
        self.means_ = gaussians.means * radius + centre
        self.covariances_ = gaussians.covariances * radius**2
        self.guarantee_ = self._guarantee(receipt)
        return self
