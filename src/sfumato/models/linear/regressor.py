"""Private linear regression: from one noisy moment matrix, or by noisy gradients after it."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from sfumato.core.constraints import Form, known_bounds, numbers, one_of, real
from sfumato.exceptions import InvalidInputError, MissingBoundsError
from sfumato.ledger.receipt import Receipt
from sfumato.mechanisms.base import Repeated, require_epsilon
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.models.linear.fit import MAX_STEP, Descent, check_steps, descend
from sfumato.models.linear.target_moments import TargetMoments, WithTarget
from sfumato.models.private import PrivateEstimator
from sfumato.privacy.gaussian import mu_from_budget
from sfumato.privacy.guarantee import Guarantee, Unit
from sfumato.sums.gradients import ResidualSum
from sfumato.sums.maps import BesideTarget, IntoUnitBall
from sfumato.sums.persons import PerPersonClip
from sfumato.sums.records import Records
from sfumato.sums.statistics import SecondMoment, Statistic
from sfumato.tables.bounds import Bounds
from sfumato.tables.cells import as_numbers, checked_column
from sfumato.tables.schema import TableBounds

Array = NDArray[np.float64]

ALGORITHMS = ("noisy-gd", "moments")
FEWER_PASSES = "algorithm='moments' asks it once; a smaller 'n_steps' asks it less often."
# Chosen, with clip and steps, on held-out training rows of diamonds and doctor contacts.
MOMENT_SHARE = 0.3  # of mu², with "noisy-gd"
SCORE_NOISE = 0.4  # spreads of the target by which noise alone moves the score of a unit row


class PrivateLinearRegressor(RegressorMixin, PrivateEstimator):
    """``y(x) = coef.x + intercept``, by least squares or robustly.

    "moments" is ridge regression from ``sum [z; 1; t][z; 1; t]ᵀ + noise``. "noisy-gd" spends less
    on that matrix, whitens the rows by it and learns the weights of Huber's loss by noisy
    gradients, in spreads of the target; slope, level and residual spread come from the matrix.

    Parameters
    ----------
    target_bounds : (float, float)
        Public range of the target; required. Targets are clipped to it, and a record whose target
        is missing adds nothing.
    algorithm : {"noisy-gd", "moments"}, default="noisy-gd"
        Gradients after a matrix, or the matrix alone, which is quicker and was less accurate on
        both tables measured (`benchmarks/results/linear_regressor.json`).
    n_steps : int, default=60
        Gradients that "noisy-gd" releases.
    max_gradient_norm : float, default=1.0
        Its largest residual, in spreads of the target; larger ones count as this.
    epsilon, delta : float, default=1.0, 1e-6
        The budget. ``epsilon=inf`` gives no noise and no privacy ("moments": least squares).
    unit : {"record", "person"}, default="record"
        One whole row with its target is protected, or all rows of a person.
    relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Which data sets count as neighbours.
    bounds : Bounds or TableBounds
        Public bounds of the rows; required.
    ledger : DatasetBudget, optional
        The budget that pays; see `sfumato.Ledger`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_numbers,)
        Weight of each number of an encoded row, whose bounds are `row_bounds`: columns are scaled
        to their public ranges.
    intercept_ : float
        The constant.
    residual_std_ : float
        Standard deviation of the residuals, from the same release.
    guarantee_ : Guarantee
        The privacy guarantee of the fit.

    Privacy
    -------
    Unit and relation : record, target included; replace_one or add_or_remove_one.
    Released : one second moment with symmetric Gaussian noise; with "noisy-gd", then `n_steps`
        noisy gradients.
    Sensitivity : √2 (replace) or 1 (add or remove): rows ``[z; 1; t] / √3`` lie in the unit ball.
        Of a gradient ``2 max_gradient_norm`` or `max_gradient_norm`.
    Guarantee : mu-GDP by the Gaussian mechanism, composed, hence (epsilon, delta).
    Assumptions and numerics : bounds and target range are public; sums are exact, noise is
        float-safe. Proof: docs/guarantees/regression.md.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import Bounds, PrivateLinearRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(20000, 2))
    >>> model = PrivateLinearRegressor(target_bounds=(-3, 3), bounds=Bounds(lower=-1.0, upper=1.0))
    >>> bool(model.fit(X, X[:, 0] - X[:, 1]).score(X, X[:, 0] - X[:, 1]) > 0.9)
    True
    """

    guarantee_: Guarantee

    offered_units: ClassVar[tuple[Unit, ...]] = (Unit.RECORD, Unit.PERSON)
    joins_rows: ClassVar[bool] = True
    stored_form: ClassVar[Form] = {
        "bounds": known_bounds,
        "algorithm": one_of(*ALGORITHMS),
        "coef_": numbers("d"),
        "intercept_": real(),
        "residual_std_": real(least=0.0),
    }

    def __init__(
        self,
        *,
        target_bounds: tuple[float, float] | None = None,
        algorithm: str = "noisy-gd",
        n_steps: int = 60,
        max_gradient_norm: float = 1.0,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        unit: str = "record",
        relation: str = "replace_one",
        bounds: Bounds | TableBounds | None = None,
        ledger: Any = None,
    ) -> None:
        self.target_bounds = target_bounds
        self.algorithm = algorithm
        self.n_steps = n_steps
        self.max_gradient_norm = max_gradient_norm
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.relation = relation
        self.bounds = bounds
        self.ledger = ledger

    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Self:
        """Learn a private line.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
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
        bounds = self._validate_privacy_params()
        self._check_settings()
        low, high = self._target_range()
        (records,) = self._read(self._rows_with_target, X, y, groups)
        middle, half = (low + high) / 2, (high - low) / 2
        width = records.width - 1
        into_ball = IntoUnitBall(bounds, width)
        moment, gradients = self._mechanisms(records, into_ball.width)
        steps = [] if gradients is None else [Repeated(gradients, int(self.n_steps))]
        if gradients is not None:
            self._warn_of_passes(records, int(self.n_steps), FEWER_PASSES)
        receipt = self._charge(moment, *steps)  # charge, then draw
        together = records.mapped(WithTarget(into_ball))  # [G1] unit ball
        statistic = SecondMoment(together.width)
        sums = 3 * together.release(statistic, moment, receipt)  # [G3] the first release
        found = TargetMoments.of(sums, 3 * math.sqrt(records.variance_of(moment)))
        if gradients is None:
            coef = found.ridge()
            level, spread = found.line(coef)
        else:
            line = self._descended(records, into_ball, found, gradients, receipt)
            coef, level = found.corrected(*line)
            spread = found.line(coef)[1]
        centre, radius = bounds.ball(width)
        self.coef_ = coef * (half / radius)
        self.intercept_ = float(middle + half * level - self.coef_ @ centre)
        self.residual_std_ = half * spread
        self.guarantee_ = self._guarantee(receipt, "range of the target")
        return self

    def _rows_with_target(self, X: Any, y: Any) -> tuple[Array, None]:
        """Return rows and, beside them, the target in its public range, from -1 to 1."""
        low, high = self._target_range()
        middle, half = (low + high) / 2, (high - low) / 2
        rows = self._check_rows(X)
        targets = as_numbers(checked_column(self, y, len(rows)))
        scaled = (np.clip(targets, low, high) - middle) / half
        scaled[~np.isfinite(targets)] = np.nan
        return np.column_stack([rows, scaled]), None

    def _check_settings(self) -> None:
        if self.algorithm not in ALGORITHMS:
            allowed = ", ".join(map(repr, ALGORITHMS))
            raise InvalidInputError(f"'algorithm' must be {allowed}. Got {self.algorithm!r}.")
        check_steps(self.n_steps, self.max_gradient_norm)

    def _gradient(self, weights: Array) -> ResidualSum:
        longest = float(self.max_gradient_norm)
        return ResidualSum(longest, weights, PerPersonClip.usual(self.person_unit, longest))

    def _mechanisms(
        self, records: Records, width: int
    ) -> tuple[GaussianMechanism, GaussianMechanism | None]:
        """Divide the budget between the moment and the gradients, if there are any."""
        mu = mu_from_budget(require_epsilon(self.epsilon), self.delta)

        def gaussian(statistic: Statistic, share: float) -> GaussianMechanism:  # [G2] sensitivities
            moved = records.sensitivity(statistic)
            mechanism = GaussianMechanism.from_mu(sensitivity=moved, mu=mu * math.sqrt(share))
            return mechanism.for_size(statistic.size)

        if self.algorithm == "moments":
            return gaussian(SecondMoment(width + 2), 1.0), None
        share = (1 - MOMENT_SHARE) / int(self.n_steps)
        gradient = self._gradient(np.zeros((1, width + 1)))
        return gaussian(SecondMoment(width + 2), MOMENT_SHARE), gaussian(gradient, share)

    def _descended(
        self,
        records: Records,
        into_ball: IntoUnitBall,
        found: TargetMoments,
        gradients: GaussianMechanism,
        receipt: Receipt,
    ) -> tuple[Array, float]:
        """Learn weights of z and a level, in units of t, along noisy gradients of whitened rows."""
        white, steepest = found.whitened()
        balls = records.mapped(BesideTarget(into_ball, True, found.target, found.spread))
        learned = balls.mapped(BesideTarget(white, True)).cache()

        def noisy_gradient(weights: Array) -> Array:
            return learned.release(self._gradient(weights), gradients, receipt)  # [G4] a gradient

        descent = Descent.by_noise(
            int(self.n_steps),
            math.sqrt(records.variance_of(gradients)) / found.n_rows,
            score_noise=SCORE_NOISE,
            largest=min(MAX_STEP / self.max_gradient_norm, 1 / steepest),
        )
        weights = descend(noisy_gradient, (1, white.width), found.n_rows, descent)
        level = found.target + found.spread * float(weights[0, -1]) * white.height
        return found.spread * (white.weights_before @ weights[0, :-1]), level

    def _target_range(self) -> tuple[float, float]:
        given = self.target_bounds
        if given is None and isinstance(self.bounds, TableBounds) and self.bounds.target:
            given = (self.bounds.target.lower, self.bounds.target.upper)  # type: ignore[assignment]
        if given is None or None in given:
            raise MissingBoundsError(
                "PrivateLinearRegressor needs 'target_bounds', the public range of the target; it "
                "is never learned from data."
            )
        low, high = (float(end) for end in given)
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise InvalidInputError("'target_bounds' must be two finite numbers, the lower first.")
        return low, high

    def predict(self, X: ArrayLike) -> Array:
        """Return the expected target of rows, inside its public range.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predictions.
        """
        check_is_fitted(self)
        rows = self.row_bounds.clip(self._check_rows(X, reset=False))
        return np.asarray(np.clip(rows @ self.coef_ + self.intercept_, *self._target_range()))

    def predict_interval(self, X: ArrayLike, coverage: float = 0.9) -> Array:
        """Return intervals that hold about a share `coverage` of targets, by the residual spread.

        They are as wide for all rows, and right where residuals are about normal.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
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
        half = float(norm.ppf((1 + coverage) / 2)) * self.residual_std_
        ends = self.predict(X)[:, None] + np.array([[-half, half]])
        return np.asarray(np.clip(ends, *self._target_range()))

    def _check_stored(self, sizes: dict[str, int]) -> None:  # noqa: ARG002
        self._target_range()
