"""The private additive regressor."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm
from sklearn.base import RegressorMixin

from sfumato.core.constraints import Form, known_bounds, numbers, real
from sfumato.exceptions import InvalidInputError, MissingBoundsError
from sfumato.models.additive.base import FEWER_PASSES, STORED_SCORES, AdditiveModel
from sfumato.models.additive.calibration import release_calibration
from sfumato.models.additive.fit import fit_scores
from sfumato.models.additive.plan import AdditivePlan, Shares
from sfumato.models.additive.predictions import check_steps
from sfumato.privacy.gaussian import mu_from_budget
from sfumato.privacy.guarantee import Guarantee
from sfumato.sums.gradients import ResidualSum
from sfumato.sums.persons import PerPersonClip
from sfumato.sums.records import Records
from sfumato.sums.statistics import SecondMoment
from sfumato.tables import TableBounds
from sfumato.tables.bounds import Bounds
from sfumato.tables.cells import as_numbers, checked_column, is_out_of_core

Array = NDArray[np.float64]

COUNT_SHARE = 1e-3  # of the Gaussian part of mu²
# Of mu²: the middle and spread of the target where knots are public, and the spread of the scores;
# of its Gaussian part: the moment and the last look. Where records are many, and where they are few
# and the last look decides; chosen on held-out training rows of the diamonds.
TARGET_SHARE, SCORE_SHARE, MOMENT_SHARE, CALIBRATION_SHARE = (
    (0.01, 0.03),
    (0.01, 0.05),
    (0.3, 0.15),
    (0.05, 0.6),
)
MANY, FEW = 4000.0, 800.0  # records, or persons with one vote each, times mu
SCORE_NOISE = 0.4  # spreads of the target by which noise alone moves the score of a unit row


class PrivateAdditiveRegressor(RegressorMixin, AdditiveModel):
    """``y(x) = b + sum_j f_j(x_j)``: one private curve per column.

    Curves are those of `PrivateAdditiveClassifier`. They are learned by Huber's loss around the
    released median of the target, in units of its released spread; a last small release of
    predictions beside targets brings back the mean of a skewed target and gives the spread of the
    residuals.

    Parameters
    ----------
    target_bounds : (float, float), optional
        Public range of the target; required unless the bounds of a table name it. Targets are
        clipped to it; a record whose target is missing adds nothing.
    n_knots : int, optional
        Knots per column of numbers, its two public ends included: 3, 5, 9, 17, 33 or 65. By
        default 9 where they are private and 5 where they are public.
    knots : {"private", "public"} or None, default=None
        See `PrivateAdditiveClassifier`.
    interactions : bool, optional
        Whether pairs of columns add something together: one weight for the product of their
        places. None: where the number of rows, public, expected or released, is large enough for
        the number of pairs; at most 16 columns are paired, those in which classes differ most.
    n_steps : int, default=240
        Noisy gradients.
    max_gradient_norm : float, default=0.25
        Largest residual, in spreads of the target; larger ones count as this.
    expected_rows : int, optional
        A public number of rows, for the rule on knots. Without it a secret number is released
        first, with a thousandth of the budget.
    epsilon, delta : float, default=1.0, 1e-6
        The budget of the whole fit. ``epsilon=inf`` gives no noise and no privacy.
    unit : {"record", "person"}, default="record"
        One whole row with its target is protected, or all rows of a person.
    relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Which data sets count as neighbours.
    bounds : Bounds or TableBounds
        Public range or categories of each column; required.
    ledger : DatasetBudget, optional
        The budget that pays; see `sfumato.Ledger`.

    Attributes
    ----------
    knots_ : ndarray of shape (n_numeric_columns, n_knots)
        Knots as places in the public ranges, from 0 to 1.
    coef_ : ndarray of shape (1, n_hats)
        Value of each curve at each knot or category, in units of the target.
    intercept_ : ndarray of shape (1,)
        The constant.
    residual_std_ : float
        Released standard deviation of the residuals.
    reach_ : ndarray of shape (2,)
        Range of predictions, around the released spread of the scores.
    slope_doubt_ : float
        Relative deviation of all curves by the noise of the last release.
    counts_ : ndarray of shape (1,)
        Number of records: public, or by the released moment.
    noise_factor_, hat_means_, hat_covariance_ : ndarray
        See `PrivateAdditiveClassifier`.
    pairs_, pair_coef_ : ndarray of shape (n_pairs, 2), (n_scores, n_pairs)
        Places of the columns of each pair, and the weight of their product.
    orders_ : ndarray of shape (n_hats,)
        The place of each knot or category, from -1 to 1, of which products are made.
    pair_means_, pair_deviations_, pair_noise_ : ndarray
        Released means and deviations of the products, and the factor of the noise of their weights.
    feature_names_in_ : ndarray of str
        Names of the columns, public, where a table was given.
    guarantee_ : Guarantee
        The privacy guarantee of the fit.

    Privacy
    -------
    Unit and relation : record, target included; replace_one or add_or_remove_one.
    Released : cuts of each column of numbers and of the target, the number of rows and sums of hats
        where they are needed, the second moment of hats and products, the spread of the scores,
        `n_steps` gradients, second moments of score and target.
    Sensitivity : a record is counted once per column; moments move by √2 (replace) or 1 (add or
        remove), a gradient by ``2 max_gradient_norm`` or `max_gradient_norm`.
    Guarantee : cuts have bounded range, all else is Gaussian; composed by loss distributions.
    Assumptions and numerics : bounds and target range are public, and where the number of rows is
        secret, that there are at most 2**26 of them. Sums are exact, noise is float-safe. Proofs:
        docs/guarantees/additive.md and knots.md.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import Bounds, PrivateAdditiveRegressor
    >>> X = np.random.default_rng(0).uniform(size=(20000, 2))
    >>> y = np.sin(6 * X[:, 0])
    >>> model = PrivateAdditiveRegressor(target_bounds=(-1.5, 1.5), delta=1e-5,
    ...                                  bounds=Bounds(lower=0.0, upper=1.0)).fit(X, y)
    >>> bool(model.score(X, y) > 0.8)
    True
    """

    guarantee_: Guarantee
    residual_std_: float
    reach_: Array
    slope_doubt_: float

    stored_form: ClassVar[Form] = {
        "bounds": known_bounds,
        **STORED_SCORES,
        "residual_std_": real(least=0.0),
        "reach_": numbers(2),
        "slope_doubt_": real(least=0.0, most=1.0),
    }

    def __init__(
        self,
        *,
        target_bounds: tuple[float, float] | None = None,
        n_knots: int | None = None,
        knots: str | None = None,
        interactions: bool | None = None,
        n_steps: int = 240,
        max_gradient_norm: float = 0.25,
        expected_rows: int | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        unit: str = "record",
        relation: str = "replace_one",
        bounds: Bounds | Any = None,
        ledger: Any = None,
    ) -> None:
        self.target_bounds = target_bounds
        self.n_knots = n_knots
        self.knots = knots
        self.interactions = interactions
        self.n_steps = n_steps
        self.max_gradient_norm = max_gradient_norm
        self.expected_rows = expected_rows
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.relation = relation
        self.bounds = bounds
        self.ledger = ledger

    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Self:
        """Learn private curves.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or table
            Rows.
        y : array-like of shape (n_samples,)
            Targets.
        groups : array-like of shape (n_samples,), optional
            IDs of persons, for unit "person"; rows without one are dropped.

        Returns
        -------
        Self
            The fitted estimator.
        """
        records, plan = self.plan(X, y, groups)
        low, high = self._target_range()
        longest = float(self.max_gradient_norm)

        def gradient(weights: Array, _: Array) -> ResidualSum:
            return ResidualSum(longest, weights, PerPersonClip.usual(records.person, longest))

        self._warn_of_passes(records, int(self.n_steps), FEWER_PASSES)
        receipt = self._charge(*plan.mechanisms())  # everything charged, then drawn
        scores = fit_scores(
            records, plan, gradient, receipt, n_scores=1, score_noise=SCORE_NOISE, curvature=1.0
        )
        line = release_calibration(records, scores, plan, receipt)
        self._keep(scores)  # no row is read from here on
        scale = line.slope * (high - low)
        self._scale(scale)
        self.intercept_ = self.intercept_ + low + line.intercept * (high - low)
        self.residual_std_ = line.spread * (high - low)
        self.slope_doubt_ = line.doubt
        self.reach_ = np.array([line.least, line.most]) * (high - low) + low
        self.guarantee_ = self._guarantee(receipt, "range of the target")
        return self

    def plan(
        self, X: ArrayLike, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> tuple[Records, AdditivePlan]:
        """Check everything that a fit would refuse, and divide its budget; nothing is charged.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or table
            As for `fit`.
        y : array-like of shape (n_samples,)
            As for `fit`.
        groups : array-like of shape (n_samples,), optional
            As for `fit`.

        Returns
        -------
        tuple of Records and AdditivePlan
            The records, and the releases of a fit.
        """
        self._check_bounds()
        check_steps(self.n_steps, self.max_gradient_norm)
        self._target_range()
        if isinstance(X, Records) and not is_out_of_core(X):
            raise InvalidInputError(
                f"{type(self).__name__} takes arrays and tables: records have no targets."
            )
        (records,) = self._read(self._cells_with_target, X, y, groups)
        columns, longest = self._public_columns(), float(self.max_gradient_norm)
        rule = self._knot_rule(records.public_rows, len(columns.numeric))
        pairs = self._pair_rule(records.public_rows, len(columns))
        width = columns.width(2**rule.max_levels + 1) + pairs.most + 1
        return records, AdditivePlan.of(
            records,
            columns,
            ResidualSum(
                longest, np.zeros((1, width)), PerPersonClip.usual(records.person, longest)
            ),
            self._shares(
                records.public_rows or self.expected_rows,
                rule.share,
                COUNT_SHARE if rule.enough_rows or pairs.enough_rows else 0.0,
            ),
            cut=(*(columns.numeric if rule.share else ()), len(columns)),
            knots=rule,
            pairs=pairs,
            n_classes=1,
            n_steps=int(self.n_steps),
            last_look=SecondMoment(3),
            epsilon=float(self.epsilon),
            delta=float(self.delta),
        )

    def _cells_with_target(self, X: Any, y: Any) -> tuple[Array, None]:
        """Return cells and, beside them, the place of the target in its public range."""
        low, high = self._target_range()
        cells = self._cells(X, reset=True)
        targets = as_numbers(checked_column(self, y, len(cells)))
        places = np.where(np.isfinite(targets), np.clip(targets, low, high), np.nan)
        return np.column_stack([cells, (places - low) / (high - low)]), None

    def _shares(self, n_rows: int | None, knots: float, count: float) -> Shares:
        """Divide the budget by the public or expected number of records; many where it is none."""
        signal = MANY
        if n_rows is not None and math.isfinite(self.epsilon):
            signal = n_rows * mu_from_budget(self.epsilon, self.delta)
        few = math.log(MANY / min(max(signal, FEW), MANY)) / math.log(MANY / FEW)

        def between(shares: tuple[float, float]) -> float:
            return float(shares[0] ** (1 - few) * shares[1] ** few)

        return Shares(
            knots or between(TARGET_SHARE),
            between(MOMENT_SHARE),
            count,
            between(CALIBRATION_SHARE),
            between(SCORE_SHARE),
        )

    def _target_range(self) -> tuple[float, float]:
        given = self.target_bounds
        if given is None and isinstance(self.bounds, TableBounds):
            given = self.bounds.target_range
        if given is None:
            raise MissingBoundsError(
                f"{type(self).__name__} needs 'target_bounds', the public range of the target; it "
                "is never learned from data."
            )
        low, high = (float(end) for end in given if end is not None)
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise InvalidInputError("'target_bounds' must be two finite numbers, the lower first.")
        return low, high

    def predict(self, X: ArrayLike) -> Array:
        """Return the expected target of rows, inside its public range.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or table
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predictions.
        """
        return np.asarray(np.clip(self._additive_scores(X)[:, 0], *self.reach_))

    def predict_interval(self, X: ArrayLike, coverage: float = 0.9) -> Array:
        """Return intervals that hold about a share `coverage` of targets, by the residual spread.

        They are as wide for all rows, and right where residuals are about normal.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or table
            Rows.
        coverage : float, default=0.9
            The share.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Ends of the intervals, inside the public range.
        """
        if not 0 < coverage < 1:
            raise InvalidInputError(f"'coverage' must lie between 0 and 1. Got {coverage}.")
        middle = self.predict(X)[:, None]
        half = float(norm.ppf((1 + coverage) / 2)) * self.residual_std_
        ends = middle + np.array([[-half, half]])
        return np.asarray(np.clip(ends, *self._target_range()))

    @property
    def _doubt(self) -> float:
        return self.slope_doubt_

    def _check_stored(self, sizes: dict[str, int]) -> None:  # noqa: ARG002
        self._check_stored_scores()
        self._target_range()
