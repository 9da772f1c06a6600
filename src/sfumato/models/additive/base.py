"""What additive models share: bounds of a table, cells, knots by a public rule, explanations."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from sfumato.core.constraints import Form, numbers, refuse
from sfumato.exceptions import InvalidInputError, MissingBoundsError
from sfumato.models.additive.columns import PublicColumns
from sfumato.models.additive.explanation import Explanation, explained, explained_pairs
from sfumato.models.additive.fit import AdditiveScores
from sfumato.models.additive.hats import HatRows
from sfumato.models.additive.pairs import MAX_PAIRS, PairRows
from sfumato.models.additive.plan import KnotRule, PairRule
from sfumato.models.private import PrivateEstimator, checked_rows
from sfumato.privacy.gaussian import mu_from_budget
from sfumato.privacy.guarantee import Relation, Unit
from sfumato.tables import TableBounds
from sfumato.tables.bounds import Bounds
from sfumato.tables.cells import is_table

Array = NDArray[np.float64]

KNOTS = ("private", "public")
KNOT_SHARE = 0.05  # of mu²
PRIVATE_LEVELS, PUBLIC_LEVELS = 3, 2  # nine knots at quantiles, five at public places
# A cut is off by some records divided by its epsilon: private knots need so many, times the
# sensitivity, or public ones are as good. Chosen on made-up tables and on small tables of
# scikit-learn (wine, digits), none of which is reported.
MIN_RECORDS = 16
ORDER_SHARE, CROSSED_SHARE = 0.02, 0.1  # of the Gaussian part of mu², to choose pairs
RECORDS_PER_COLUMN = 200  # times mu, from which on pairs are looked at
SCORED = 4096  # rows that are scored together
FEWER_PASSES = "A smaller 'n_steps' asks it less often."

STORED_SCORES: Form = {
    "knots_": numbers("q", "k", least=0.0, most=1.0),
    "coef_": numbers("s", "w"),
    "intercept_": numbers("s"),
    "noise_factor_": numbers("w", "a"),
    "hat_means_": numbers("w"),
    "hat_covariance_": numbers("w", "w"),
    "orders_": numbers("w", least=-1.0, most=1.0),
    "pairs_": numbers("p", 2, least=0.0),
    "pair_coef_": numbers("s", "p"),
    "pair_noise_": numbers("p", "a"),
    "pair_means_": numbers("p"),
    "pair_deviations_": numbers("p", least=0.0),
    "counts_": numbers("c"),
}


class AdditiveModel(PrivateEstimator):
    """Base of additive models: ``score(x) = intercept + sum_j f_j(x_j)``."""

    knots: str | None
    n_knots: int | None
    interactions: bool | None
    expected_rows: int | None
    knots_: Array
    orders_: Array
    pairs_: Array
    pair_coef_: Array
    pair_noise_: Array
    pair_means_: Array
    pair_deviations_: Array
    coef_: Array
    intercept_: Array
    noise_factor_: Array
    hat_means_: Array
    hat_covariance_: Array
    counts_: Array

    offered_units: ClassVar[tuple[Unit, ...]] = (Unit.RECORD, Unit.PERSON)
    joins_rows: ClassVar[bool] = True
    scales_columns: ClassVar[bool] = False  # hats have knots in the units of their column
    knot_share: ClassVar[float] = KNOT_SHARE

    # Public facts ---------------------------------------------------------------------------

    def _public_columns(self) -> PublicColumns:
        """Names, ranges and categories of the columns; known once features were checked."""
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            names = [f"x{i}" for i in range(self.n_features_in_)]
        assert self.bounds is not None  # noqa: S101 - checked by fit
        return PublicColumns.of(self.bounds, tuple(map(str, names)))

    def _levels(self) -> tuple[int, int]:
        """How often a range is halved, by quantiles and by public places."""
        if self.n_knots is None:
            return PRIVATE_LEVELS, PUBLIC_LEVELS
        n_parts = int(self.n_knots) - 1
        if n_parts < 2 or n_parts & (n_parts - 1) or n_parts > 64:
            raise InvalidInputError(
                f"'n_knots' must be None, 3, 5, 9, 17, 33 or 65. Got {self.n_knots!r} instead."
            )
        return (n_parts.bit_length() - 1,) * 2

    def _knot_rule(self, public_rows: int | None, n_numeric: int) -> KnotRule:
        """Return where knots lie: by choice, or by the number of rows, public or released."""
        if self.knots not in (*KNOTS, None):
            allowed = ", ".join(map(repr, KNOTS))
            raise InvalidInputError(f"'knots' must be {allowed} or None. Got {self.knots!r}.")
        levels = self._levels()
        if self.knots == "public" or not n_numeric:
            return KnotRule(0.0, *levels)
        if self.knots == "private" or math.isinf(self.epsilon):
            return KnotRule(self.knot_share, *levels)
        mu = mu_from_budget(self.epsilon, self.delta) * math.sqrt(self.knot_share)
        each = 2 * mu / math.sqrt(n_numeric * levels[0])
        moved = 2 if Relation(self.relation) is Relation.REPLACE_ONE else 1
        if self.person_unit is not None and not self.person_unit.averages:
            moved *= self.person_unit.rows
        enough = moved * MIN_RECORDS / each
        n_rows = self.expected_rows if public_rows is None else public_rows
        if n_rows is None:  # decided once the number of rows is released
            return KnotRule(self.knot_share, *levels, enough_rows=enough)
        return KnotRule(self.knot_share if n_rows >= enough else 0.0, *levels)

    def _pair_rule(self, public_rows: int | None, n_columns: int) -> PairRule:
        """Return whether pairs are looked at: by choice, or by the number of rows."""
        if self.interactions not in (True, False, None):
            raise InvalidInputError(
                f"'interactions' must be True, False or None. Got {self.interactions!r}."
            )
        most = min(MAX_PAIRS, n_columns * (n_columns - 1) // 2)
        if self.interactions is False or not most:
            return PairRule()
        if self.interactions or math.isinf(self.epsilon):
            return PairRule(ORDER_SHARE, CROSSED_SHARE, most)
        mu = mu_from_budget(self.epsilon, self.delta)
        moved = 2 if Relation(self.relation) is Relation.REPLACE_ONE else 1
        enough = moved * RECORDS_PER_COLUMN * n_columns / mu
        n_rows = self.expected_rows if public_rows is None else public_rows
        if n_rows is None:
            return PairRule(ORDER_SHARE, CROSSED_SHARE, most, enough)
        return PairRule(ORDER_SHARE, CROSSED_SHARE, most) if n_rows >= enough else PairRule()

    # Records --------------------------------------------------------------------------------

    def _check_bounds(self) -> Bounds:
        """Check the promise, before any row is looked at; return the bounds of the labels."""
        if not isinstance(self.bounds, TableBounds):
            bounds = self._validate_privacy_params()
            if bounds.lower is None:
                raise MissingBoundsError(
                    "An additive model needs the public range of each column: give "
                    "Bounds(lower=[...], upper=[...]) or the bounds of a table."
                )
            return bounds
        self._check_request()
        self.bounds.require_confirmed()
        found = None if self.bounds.target is None else self.bounds.target.labels
        return Bounds(norm=1.0, labels=found)

    def _cells(self, X: ArrayLike, *, reset: bool) -> Array:
        """Return each cell as a number by itself; missing is NaN."""
        if not isinstance(self.bounds, TableBounds):
            return self._check_rows(X, reset=reset)
        if is_table(X):
            cells = self.bounds.cells(X)
            if reset:
                self.n_features_in_ = cells.shape[1]
                names = [each.name for each in self.bounds.features]
                self.feature_names_in_ = np.array(names, dtype=object)
        else:
            n_features = len(self.bounds.features) if reset else None
            is_secret = reset and self._n_is_secret
            with warnings.catch_warnings():  # arrays of `table_rows` have no names, on purpose
                warnings.filterwarnings("ignore", "X does not have valid feature names")
                cells = checked_rows(
                    self, X, reset=reset, n_features=n_features, may_be_empty=is_secret
                )
        if reset:
            self._check_number(len(cells))
        return cells

    def table_rows(self, table: Any) -> Array:
        """Return the records of a table as `fit` takes them in an array: one number per cell."""
        if not isinstance(self.bounds, TableBounds):
            return super().table_rows(table)
        return self.bounds.cells(table)

    @property
    def array_bounds(self) -> Bounds:
        """Public bounds of the arrays that `fit` takes: those given, or of a table's cells."""
        if not isinstance(self.bounds, TableBounds):
            return super().array_bounds
        columns = PublicColumns.of(self.bounds, ())
        return Bounds(lower=columns.lower, upper=columns.upper, labels=self.row_bounds.labels)

    # The model ------------------------------------------------------------------------------

    def _keep(self, scores: AdditiveScores) -> None:
        width = scores.rows.hats.width
        self.knots_, self.orders_ = scores.rows.hats.knots, scores.rows.orders
        self.pairs_ = scores.rows.pairs.astype(np.float64)
        self.coef_, self.pair_coef_ = scores.coef[:, :width], scores.coef[:, width:]
        self.intercept_ = scores.intercept
        self.noise_factor_, self.pair_noise_ = scores.factor[:width], scores.factor[width:]
        self.hat_means_, self.pair_means_ = scores.means[:width], scores.means[width:]
        self.hat_covariance_ = scores.covariance[:width, :width]
        self.pair_deviations_ = np.sqrt(np.maximum(np.diag(scores.covariance)[width:], 0.0))
        self.counts_ = scores.counts

    def _scale(self, factor: float) -> None:
        """Multiply all scores, and what is known of their noise."""
        for name in ("coef_", "pair_coef_", "intercept_", "noise_factor_", "pair_noise_"):
            setattr(self, name, getattr(self, name) * factor)

    def _hats(self) -> HatRows:
        return HatRows(self._public_columns(), self.knots_)

    def _rows(self) -> PairRows:
        return PairRows(self._hats(), self.orders_, self.pairs_.astype(np.intp))

    def _additive_scores(self, X: ArrayLike) -> Array:
        check_is_fitted(self)
        cells = self._cells(X, reset=False)
        rows = self._rows()
        scores = np.empty((len(cells), len(self.coef_)))
        for start in range(0, len(cells), SCORED):
            part = slice(start, start + SCORED)
            raw = rows.hats.raw(cells[part])
            scores[part] = raw @ self.coef_.T + rows.products(raw) @ self.pair_coef_.T
        return scores + self.intercept_

    @property
    def _score_names(self) -> tuple[str, ...]:
        """What each score is about."""
        return ("the target",)

    @property
    def _doubt(self) -> float:
        """Relative deviation of a noisy factor of all curves."""
        return 0.0

    def explain(self, coverage: float = 0.95) -> Explanation:
        """Return the curve of each column with a band for the noise, the most important first.

        Only released numbers are read, so this costs nothing.

        Parameters
        ----------
        coverage : float, default=0.95
            Chance with which the band of a column covers the whole of its noiseless curve. Sampling
            error is not covered.

        Returns
        -------
        Explanation
            Curves, bands and importances; `print` it, `plot_explanation` it, or take `to_dict`.
        """
        check_is_fitted(self)
        if not 0 < coverage < 1:
            raise InvalidInputError(f"'coverage' must lie between 0 and 1. Got {coverage}.")
        hats = self._hats()
        curves = explained(
            hats.columns,
            hats.slices,
            self.knots_,
            self.coef_,
            self.noise_factor_,
            self.hat_means_,
            scores=self._score_names,
            coverage=coverage,
            doubt=self._doubt,
        )
        pairs = explained_pairs(
            hats.columns.names,
            self.pairs_.astype(np.intp),
            self.pair_coef_,
            self.pair_noise_,
            self.pair_means_,
            self.pair_deviations_,
            coverage=coverage,
            doubt=self._doubt,
        )
        return replace(curves, pairs=pairs)

    def _check_stored_scores(self) -> None:
        width = self._public_columns().width(self.knots_.shape[1])
        if len(self.knots_) != len(self._public_columns().numeric) or self.coef_.shape[1] != width:
            raise refuse("knots_", "knots for each column of numbers, and as many weights")
        if not (np.diff(self.knots_, axis=1) > 0).all():
            raise refuse("knots_", "ascending")
        if (self.pairs_ != np.floor(self.pairs_)).any() or (
            self.pairs_ >= self.n_features_in_
        ).any():
            raise refuse("pairs_", "places of columns")

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:  # noqa: ARG002
        """Return the names of the hats, in the order of `coef_`: column and knot, or category.

        Parameters
        ----------
        input_features : ignored
            For scikit-learn.

        Returns
        -------
        ndarray of str
            Names.
        """
        check_is_fitted(self)
        columns, knots = self._public_columns(), iter(self.knots_)
        names: list[str] = []
        for name, low, high, categories in zip(
            columns.names, columns.lower, columns.upper, columns.categories, strict=True
        ):
            if categories is None:
                names += [f"{name}@{low + place * (high - low):.6g}" for place in next(knots)]
            else:
                names += [f"{name}={category}" for category in categories]
        return np.array(names, dtype=object)
