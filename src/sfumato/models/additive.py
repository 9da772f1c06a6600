"""Additive models of tables: one private curve per column, and what the curves explain.

A fit releases knots, a second moment of the rows of `sfumato.models.additive_rows`, and gradients
along which weights of whitened rows descend. The result is written as weights of the rows
themselves, so that predictions are exactly additive. A last small release compares scores with
labels or targets.
"""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import KW_ONLY, asdict, dataclass, replace
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
from scipy.stats import norm
from sklearn.utils.validation import check_is_fitted

from sfumato.core.constraints import Form, numbers, one_of, or_none, real, refuse, whole
from sfumato.exceptions import InvalidInputError
from sfumato.models.additive_rows import (
    BIN_MIDDLES,
    SHARED_CODES,
    SHORTER_BITS,
    WHITE_BITS,
    AdditiveScores,
    Array,
    CellCodes,
    HatRows,
    HatSums,
    PairRows,
    PublicColumns,
    ScoreAndTarget,
    ScoreBins,
    SideMeans,
    Sides,
    WhiteRows,
    clear_pairs,
    column_orders,
    knots_at,
    probability_line,
    public_knots,
    target_line,
    whole_knots,
)
from sfumato.models.base import PrivateClassifier, PrivateEstimator, PrivateRegressor, target_range
from sfumato.models.budget import Budget, Release
from sfumato.models.linear import RADIUS, choose_steps, whitened_rows
from sfumato.privacy.gaussian import mu_from_budget
from sfumato.privacy.guarantee import Relation
from sfumato.sums.gradients import (
    AVERAGED,
    MAX_STEP,
    MOMENTUM,
    Descent,
    GradientSum,
    ResidualSum,
    SoftmaxLoss,
    coarse_bits,
    step_size,
)
from sfumato.sums.grid import SINGLE_BITS, ScoreWeights
from sfumato.sums.maps import BesideTarget
from sfumato.sums.persons import PerPersonClip, PersonUnit
from sfumato.sums.records import Records
from sfumato.sums.statistics import ClassCounts, CountTables, PlaceCounts, SecondMoment, Statistic
from sfumato.tables.bounds import Bounds
from sfumato.tables.schema import TableBounds

RARE = 0.18  # share of all labels but the first, about which a fit should not warn
KNOT_SHARE = 0.05  # of mu²
ORDER_SHARE, CROSSED_SHARE, COUNT_SHARE = 0.02, 0.1, 5e-3  # of its Gaussian part
PRIVATE_LEVELS, PUBLIC_LEVELS = 3, 2  # nine knots at quantiles, five at public places
# A cut is off by some records divided by its epsilon: private knots need this many, times the
# sensitivity, or public ones are as good. Chosen on made-up tables and on small tables of
# scikit-learn (wine, digits), none of which is reported.
MIN_RECORDS = 16
PER_COLUMN = 200  # records, divided by mu, from which on pairs are looked at
MAX_PAIRED, MAX_PAIRS = 16, 8  # columns whose pairs are looked at, and pairs that are kept
CLEAR = 3.5  # deviations beyond which a pair is kept: noise alone rarely gets there
MIN_SPREAD = 2.0**-12  # of the public range of the target
DEFAULT_SQUARE = 0.75  # of a row of hats: from 1/2, between all knots, to 1
DEFAULT_PRODUCT = 1 / 9  # square of a product of two even places
MAX_LISTED = 10  # pairs in a printed explanation; all of them are in `pairs`

# Deviations of the scores within which they are not clipped, and the least that is believed.
REACH, MIN_DEVIATION = 3.5, 2.0**-8
# Targets farther from the released median than this are clipped where the noise of their mean,
# which grows with the range, would be more than a share of their spread.
MIN_SPREADS, LEVEL_NOISE = 8.0, 0.05
# Shares of a regressor where records are many, and where they are few and the last look decides:
# of mu², the middle and spread of the target where knots are public; of its Gaussian part, the
# moment and the last look. Chosen on held-out rows of the diamonds.
TARGET_SHARES, MOMENT_SHARES, LOOK_SHARES = (0.01, 0.03), (0.3, 0.15), (0.05, 0.6)
MANY, FEW = 4000.0, 800.0  # records, or persons with one vote each, times mu


# Explanations -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ColumnCurve:
    """The curve of one column.

    Parameters
    ----------
    name : str
        Name of the column.
    values : tuple
        Knots in the units of the column (of dates, days), or its categories.
    curve : ndarray of shape (n_scores, n_values)
        What the column adds to each score there; 0 on average over the records. Linear between
        knots.
    band : ndarray of shape (n_scores, n_values)
        Half width of the band that covers the fit without noise, at all values together.
    missing, missing_band : ndarray of shape (n_scores,)
        What a missing cell adds, and its band.
    importance : float
        Root mean square of the curve over the records.
    is_number : bool
        Whether values are knots.
    """

    name: str
    values: tuple[Any, ...]
    curve: Array
    band: Array
    missing: Array
    missing_band: Array
    importance: float
    is_number: bool


@dataclass(frozen=True)
class PairTerm:
    """What two columns add together, beyond their curves: ``weight * s_a * s_b``, less its mean.

    Each column has a number s from -1 to 1: the place of a number among its knots, the order of a
    category. So a positive weight raises the score where both are high or both are low.

    Parameters
    ----------
    names : tuple of str
        The two columns.
    weight : ndarray of shape (n_scores,)
        What is added where both are at the same end, and taken where they are at opposite ends.
    band : ndarray of shape (n_scores,)
        Half width of the band that covers the weight without noise, for all pairs together.
    mean : float
        Released mean of the product, over the records.
    importance : float
        Root mean square of what the pair adds, over the records.
    """

    names: tuple[str, str]
    weight: Array
    band: Array
    mean: float
    importance: float

    @property
    def is_seen(self) -> bool:
        """Whether some weight lies beyond its band: more than noise alone would make of it."""
        return bool(np.any(np.abs(self.weight) > self.band))


@dataclass(frozen=True)
class Explanation:
    """The curves of all columns, the most important first, and what pairs of columns add.

    Parameters
    ----------
    curves : tuple of ColumnCurve
        One per column.
    scores : tuple of str
        What each score is: a class, or the target.
    coverage : float
        Chance with which the band of a column covers its noiseless curve, at least.
    pairs : tuple of PairTerm
        What pairs of columns add, the most important first; empty for a purely additive model.
    """

    curves: tuple[ColumnCurve, ...]
    scores: tuple[str, ...]
    coverage: float
    pairs: tuple[PairTerm, ...] = ()

    note = (
        "The bands show the effect of the noise on the gradients: they cover the curves that the "
        "same training from the same knots would find without it. They do not include sampling "
        "error, that is, how much other records of the same kind would change the curves."
    )

    def __getitem__(self, name: str) -> ColumnCurve:
        return {each.name: each for each in self.curves}[name]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON.

        Returns
        -------
        dict
            Curves, scores, coverage and what bands mean.
        """
        pairs = [{"is_seen": each.is_seen, **asdict(each)} for each in self.pairs]
        found = {**asdict(self), "pairs": pairs, "note": self.note}
        plain = lambda x: x.tolist() if isinstance(x, np.ndarray) else x.isoformat()  # noqa: E731
        return dict(json.loads(json.dumps(found, default=plain)))

    def summary(self) -> list[tuple[str, float, float, float, float]]:
        """Return one line per column and per pair beyond noise, the most important first.

        Returns
        -------
        list of tuple
            Name, importance, least and most that it adds to any score, widest half band.
        """
        lines = []
        for each in self.curves:
            low, high = float(each.curve.min()), float(each.curve.max())
            lines.append((each.name, each.importance, low, high, float(each.band.max())))
        for pair in self.pairs[:MAX_LISTED]:
            if pair.is_seen:
                ends = np.outer(pair.weight, (1 - pair.mean, -1 - pair.mean))
                low, high, name = float(ends.min()), float(ends.max()), " × ".join(pair.names)
                lines.append((name, pair.importance, low, high, float(pair.band.max())))
        return sorted(lines, key=lambda line: -line[1])

    def __str__(self) -> str:
        lines = self.summary()
        width = max(len(line[0]) for line in lines)
        text = f"{'column':{width}}  importance   from   to   band (half width)\n"
        for name, importance, low, high, band in lines:
            text += f"{name:{width}}  {importance:10.3g}  {low:.3g}  {high:.3g}  {band:.3g}\n"
        return text + self.note


# Models -----------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class AdditiveModel(PrivateEstimator):
    """Base of additive models: ``score(x) = intercept + sum_j f_j(x_j)``."""

    _: KW_ONLY
    n_knots: int | None = None
    knots: str | None = None
    interactions: bool | None = None
    n_steps: int | None = None
    max_gradient_norm: float = 0.1

    reads_cells: ClassVar[bool] = True  # hats have knots in the units of their column
    groups_rows: ClassVar[bool] = True
    answers_alone: ClassVar[bool] = True
    score_noise: ClassVar[float]  # by which noise alone moves the score of a unit row
    parameters: ClassVar[Form] = {
        "n_knots": one_of(None, 3, 5, 9, 17, 33, 65),
        "knots": one_of(None, "private", "public"),
        "interactions": one_of(None, True, False),
        "n_steps": or_none(whole(least=1)),
        "max_gradient_norm": real(above=0.0, below=2.0),
    }
    learned: ClassVar[Form] = {
        "knots_": numbers("q", "k", least=0.0, most=1.0),
        "coef_": numbers("s", "w"),
        "intercept_": numbers("s"),
        "noise_factor_": numbers("w", "a"),
        "hat_means_": numbers("w"),
        "orders_": numbers("w", least=-1.0, most=1.0),
        "pairs_": numbers("p", 2, least=0.0),
        "pair_coef_": numbers("s", "p"),
        "pair_noise_": numbers("p", "a"),
        "pair_means_": numbers("p"),
        "pair_deviations_": numbers("p", least=0.0),
        "counts_": numbers("c"),
    }

    @property
    def array_bounds(self) -> Bounds:
        """Public bounds of the arrays that `fit` takes: those given, or of a table's cells."""
        if not isinstance(self.bounds, TableBounds):
            return super().array_bounds
        columns = PublicColumns.of(self.bounds, ())
        return Bounds(lower=columns.lower, upper=columns.upper, labels=self.row_bounds.labels)

    @property
    def _columns(self) -> PublicColumns:
        """Names, ranges and categories of the columns; known once features were checked."""
        names = getattr(self, "feature_names_in_", [f"x{i}" for i in range(self.n_features_in_)])
        return PublicColumns.of(self.bounds, tuple(map(str, names)))  # type: ignore[arg-type]

    @property
    def _pair_rows(self) -> PairRows:
        hats = HatRows(self._columns, self.knots_)
        return PairRows(hats, self.orders_, self.pairs_.astype(np.intp))

    def _worth(self, cells: Records, n_cuts: int, n_columns: int) -> list[float | None]:
        """Return from how many rows on quantiles and pairs are used; None: they are not released.

        By choice, or where they would be more than noise; a secret number of rows is released.
        """
        mu, n_rows = mu_from_budget(self.epsilon, self.delta), cells.public_rows
        moved = 2 if Relation(self.relation) is Relation.REPLACE_ONE else 1
        rows = cells.person.rows if cells.person and not cells.person.averages else 1
        each = 2 * (mu * math.sqrt(KNOT_SHARE)) / math.sqrt(max(1, n_cuts))  # epsilon of a cut
        private = None if self.knots is None else self.knots == "private"
        found: list[float | None] = []
        for choice, least in (
            (private if n_cuts else False, moved * rows * MIN_RECORDS / each),
            (self.interactions if n_columns > 1 else False, moved * PER_COLUMN * n_columns / mu),
        ):
            if choice is None and n_rows is None:
                found.append(least)
            else:
                is_used = n_rows >= least if choice is None else choice  # type: ignore[operator]
                found.append(0.0 if is_used else None)
        return found

    def _learn(
        self,
        cells: Records,
        budget: Budget,
        shares: tuple[float, float, float],
        last: Statistic,
    ) -> tuple[AdditiveScores, Release, Records, tuple[float, ...]]:
        """Declare all releases, and draw all but the last; what is learned is noted.

        Also return the records for a last look, median and spread of a target, and of its scores
        mean, variance and the part of it that noise has.

        shares: For the cuts of a target alone, the moment, the last look.
        """
        columns, has_target = self._columns, not self.has_labels
        n_columns, n_classes = columns.width, 1 if has_target else len(self.classes_)
        n_scores = n_classes if n_classes > 2 else 1
        levels, public_levels = PRIVATE_LEVELS, PUBLIC_LEVELS
        if self.n_knots is not None:
            levels = public_levels = (self.n_knots - 1).bit_length() - 1
        cut_from, paired_from = self._worth(cells, len(columns.numeric) * levels, n_columns)
        max_levels = max(0 if cut_from is None else levels, 0 if cut_from == 0 else public_levels)
        widest = HatRows(columns, public_knots(columns, max_levels)).width
        n_pairs = 0 if paired_from is None else min(MAX_PAIRS, math.comb(n_columns, 2))

        counts = cuts = spread = orders = crossed = None  # in the order of the draws
        if not has_target or cut_from or paired_from:
            counts = budget.gaussian(ClassCounts(n_classes), COUNT_SHARE)
        cut = () if cut_from is None else columns.numeric
        if cut:
            cuts = budget.quantiles(PlaceCounts(cut), levels, KNOT_SHARE)
        if has_target:
            spread = budget.quantiles(PlaceCounts((n_columns,)), PRIVATE_LEVELS, shares[0])
        if n_pairs:
            sums: Statistic = HatSums(max(2, n_classes), widest, has_target)
            orders = budget.gaussian(sums, ORDER_SHARE)
            n_paired = min(MAX_PAIRED, n_columns)
            tables = tuple(combinations(range(n_paired), 2))
            sums = CountTables((2,) * n_paired, tables, n_classes)
            crossed = budget.gaussian(SideMeans(n_paired) if has_target else sums, CROSSED_SHARE)
        moment = budget.gaussian(SecondMoment(widest + n_pairs), shares[1])
        start = np.zeros((n_scores, widest + n_pairs + 1))
        first = self._gradient(start, cells.person)
        rest = 1 - shares[1] - (COUNT_SHARE if counts else 0.0) - shares[2]
        rest -= ORDER_SHARE + CROSSED_SHARE if n_pairs else 0.0
        n_steps = choose_steps(self, cells.public_rows, start.shape[1])
        gradient = budget.gaussian(first, rest, count=n_steps)
        look = budget.gaussian(last, shares[2])
        budget.charge()  # everything charged, then drawn

        sizes = None if counts is None else np.maximum(budget.draw(counts), 1.0)  # [A3] sizes
        n_rows = math.inf if sizes is None else float(sizes.sum())
        self.knots_, centre, scale = public_knots(columns, public_levels), 0.0, 1.0
        read = cells.mapped(BesideTarget(columns, has_target))
        if cuts is not None:  # [A1] knots
            knots = whole_knots(columns, knots_at(budget.draw(cuts, read)))
            self.knots_ = knots if n_rows >= (cut_from or 0.0) else self.knots_
        if spread is not None:  # median and spread of a target
            (target,) = knots_at(budget.draw(spread, read))
            centre = float(target[len(target) // 2])
            scale = max(float(target[-2] - target[1]) / 2, MIN_SPREAD)
        hats, coded = HatRows(columns, self.knots_), None
        self.orders_, self.pairs_ = np.zeros(hats.width), np.empty((0, 2))
        if cells.person is None and cells.has_exact_sums:
            shared = int(min((cells.public_rows or n_rows) / 4, SHARED_CODES))  # fewer than rows
            coded = CellCodes(self._pair_rows, shared, has_target, centre, scale)
            encoded = cells.mapped(coded).cache()  # from here on a pass reads codes
        else:  # rows as they are, for lengths of persons, and for parties that are told each map
            encoded = cells.mapped(BesideTarget(hats, has_target, centre, scale))
        if orders is not None and crossed is not None:
            sums = HatSums(max(2, n_classes), hats.width, has_target)
            height = 1 / n_columns**0.5 if coded is None else coded.units[0]
            drawn = budget.draw(orders, encoded, sums)  # [A8] hats of each class
            places, strengths = column_orders(hats, drawn / height, budget.noise(orders) / height)
            strongest = np.sort(np.argsort(-strengths, kind="stable")[:MAX_PAIRED]).tolist()
            sides = encoded.mapped(Sides(hats, places, tuple(strongest), has_target))
            drawn, noise = budget.draw(crossed, sides), budget.noise(crossed)  # [A9] sides of pairs
            if n_rows >= (paired_from or 0.0):
                clear = clear_pairs(crossed.statistic, drawn, noise)
                best = np.argsort(-clear, kind="stable")[:MAX_PAIRS]
                listed = list(combinations(strongest, 2))
                kept = [listed[k] for k in sorted(best) if clear[k] > CLEAR]
                self.orders_, self.pairs_ = places, np.array(kept, float).reshape(-1, 2)
        rows = self._pair_rows
        if coded is not None:
            coded = replace(coded, rows=rows)
        units = rows.units if coded is None else coded.units
        seen = cells.mapped(rows) if coded is None else encoded.mapped(coded)

        second = budget.draw(moment, seen, SecondMoment(rows.width))  # [A2] moment
        if sizes is None or has_target:
            # The hats of height 1 of a row add up to the number of columns, so their moments add up
            # to its square for each record (less, where cells are missing).
            whole = float(second[: hats.width, : hats.width].sum())
            whole = max(whole / (n_columns * units[0]) ** 2, 1.0)
            sizes = np.full(n_classes, (cells.public_rows or whole) / n_classes)
        self.counts_, n_rows = sizes, max(1.0, float(cells.public_rows or sizes.sum()))
        square = (1 - rows.share) * DEFAULT_SQUARE + rows.share * DEFAULT_PRODUCT
        white, spectrum = whitened_rows(second, budget.noise(moment), n_rows, square)
        if coded is not None:
            bits = min(SINGLE_BITS + SHORTER_BITS, WHITE_BITS - first.slope_bits)
            whitened = WhiteRows(coded, white, bits)
            learned, back = seen.mapped(whitened).cache(), whitened.projection
            seen = learned
        else:
            encoded = cells.mapped(BesideTarget(rows, has_target, centre, scale))
            encoded = encoded.mapped(BesideTarget(white, has_target))
            learned, seen = encoded.cache(in_singles=not has_target), cells
            back = white.weights_before * units[:, None]

        noise, clip = budget.noise(gradient) / n_rows, first.max_gradient_norm
        curvature = 1.0 if has_target else first.loss.max_curvature
        largest = min(MAX_STEP / clip, 1 / (curvature * (float(spectrum.max()) + white.height**2)))
        step = step_size(noise, n_steps, self.score_noise, largest)
        descent = Descent((n_scores, white.width), n_rows, n_steps, step)
        for _ in range(n_steps):
            statistic = self._gradient(descent.weights, cells.person)
            descent.follow(budget.draw(gradient, learned, statistic))  # [A4] a noisy gradient
        weights = descent.average  # [A5] no row

        # Weights of whitened rows as weights of hats and products. Where the loss is flat, noise of
        # a step moves all later weights; a convex loss only damps it.
        each, after, m = np.arange(n_steps), int(n_steps * (1 - AVERAGED)), MOMENTUM
        since = np.maximum(each, after)
        decay = (m ** (since - each + 1) - m ** (n_steps - each + 1)) / (1 - m)
        moved = float(np.linalg.norm((n_steps - since - decay) / (1 - m)))
        doubt = noise * (step * moved / (n_steps - after))  # of a weight
        factor = back * doubt
        # The hats of a column add up to 1, so moments with all of them are means.
        second = second / (np.outer(units, units) * n_rows)
        means = second[:, : hats.width].sum(axis=1) / n_columns
        for part in hats.slices:
            share = np.maximum(means[part], 0.0)
            means[part] = share / max(float(share.sum()), 1e-12)
        self.noise_factor_ = factor  # divided by `_keep`
        self.hat_means_, self.pair_means_ = np.split(means, [hats.width])
        squares = np.diag(second)[hats.width :] - self.pair_means_**2
        self.pair_deviations_ = np.sqrt(np.maximum(squares, 0.0))
        scores = AdditiveScores(rows, weights[:, :-1] @ back.T, weights[:, -1] * white.height)
        noisy = (doubt / RADIUS / 2) ** 2  # variance of usual scores; the loss damps half of it
        mean = float(scores.coef[0] @ means)
        variance = float(weights[0, :-1] ** 2 @ spectrum) - mean**2
        mean += float(scores.intercept[0])
        return scores, look, seen, (centre, scale, mean, variance, noisy)

    def _keep(self, scores: AdditiveScores, factor: float, shift: float) -> None:
        """Note the scores, multiplied and shifted by the last look."""
        width = scores.rows.hats.width
        self.coef_, self.pair_coef_ = np.split(scores.coef * factor, [width], axis=1)
        self.intercept_ = scores.intercept * factor + shift
        self.noise_factor_, self.pair_noise_ = np.split(self.noise_factor_ * factor, [width])

    def _scores(self, rows: Array) -> Array:
        weights = np.hstack([self.coef_, self.pair_coef_])
        return AdditiveScores(self._pair_rows, weights, self.intercept_)(rows)

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
            Curves, bands and importances; `print` it, or take `to_dict`.
        """
        check_is_fitted(self)
        if not 0 < coverage < 1:
            raise InvalidInputError(f"'coverage' must lie between 0 and 1. Got {coverage}.")
        rows, doubt = self._pair_rows, getattr(self, "slope_doubt_", 0.0)
        columns, knots = rows.hats.columns, iter(self.knots_)
        curves, pairs = [], []
        for i, part in enumerate(rows.hats.slices):
            values, is_number = columns.categories[i] or (), columns.categories[i] is None
            values = columns.values(i, next(knots)) if is_number else values
            share, noise = self.hat_means_[part], self.noise_factor_[part]
            level = self.coef_[:, part] @ share
            curve = self.coef_[:, part] - level[:, None]
            spread = np.sqrt(np.sum((noise - share @ noise) ** 2, axis=1))
            # Bonferroni over the knots: between them curve and band are linear.
            times = float(norm.ppf(1 - (1 - coverage) / (2 * max(1, len(values)))))
            band = times * np.sqrt(spread**2 + (doubt * curve) ** 2)
            missing = times * np.sqrt(np.sum((share @ noise) ** 2) + (doubt * level) ** 2)
            size, name = math.sqrt(float(np.mean(curve**2 @ share))), columns.names[i]
            curves.append(ColumnCurve(name, values, curve, band, -level, missing, size, is_number))
        times = float(norm.ppf(1 - (1 - coverage) / (2 * max(1, len(rows.pairs)))))
        for i, (a, b) in enumerate(rows.pairs.tolist()):
            weight, names = self.pair_coef_[:, i], (columns.names[a], columns.names[b])
            band = times * np.sqrt(np.sum(self.pair_noise_[i] ** 2) + (doubt * weight) ** 2)
            size = math.sqrt(float(np.mean(weight**2))) * float(self.pair_deviations_[i])
            pairs.append(PairTerm(names, weight, band, float(self.pair_means_[i]), size))
        about = ["the target"]
        if self.has_labels:  # two classes share the score of the second
            about = [f"the score of {each!r}" for each in self.classes_.tolist()][
                -len(self.coef_) :
            ]
        curves.sort(key=lambda each: -each.importance)
        pairs.sort(key=lambda each: -each.importance)
        return Explanation(tuple(curves), tuple(about), coverage, tuple(pairs))

    def _check_stored(self, sizes: dict[str, int]) -> None:
        super()._check_stored(sizes)
        fits = sizes["q"] == len(self._columns.numeric)
        if not fits or sizes["w"] != HatRows(self._columns, self.knots_).width:
            raise refuse("knots_", "knots for each column of numbers, and as many weights")
        if not (np.diff(self.knots_, axis=1) > 0).all():
            raise refuse("knots_", "ascending")
        if (self.pairs_ != np.floor(self.pairs_)).any() or (self.pairs_ >= sizes["d"]).any():
            raise refuse("pairs_", "places of columns")


def is_first_alone(counts: Array, noise: float, n_rows: int | None = None) -> bool:
    """Return whether released counts of labels show hardly one but the first.

    It is said where the others, with their noise, are below a share of RARE, and without it below
    half of that: where there are too few records to tell, it is not said. It is said, too, where
    none shows at all, unless their public number is so small that noise may hide it.
    """
    others, total = float(counts[1:].sum()), float(n_rows or counts.sum())
    hidden = 2.4 * noise * math.sqrt(len(counts))
    deviation = noise * math.hypot(1 - RARE, RARE) * math.sqrt(len(counts) - 1)
    if counts.sum() < hidden and (n_rows is None or n_rows > 2.1 * hidden):
        return True
    return others + 2.4 * deviation < RARE * total and others < RARE / 2 * total


@dataclass(eq=False, repr=False)
class PrivateAdditiveClassifier(AdditiveModel, PrivateClassifier):
    """``score_c(x) = b_c + sum_j f_cj(x_j)``: one private curve per column and class.

    The curve of a column of numbers is piecewise linear between knots, placed at privately
    released quantiles; that of a column of categories has one value per category, and a missing
    cell has a value of its own. All classes are learned jointly by softmax; two classes share one
    score.

    Parameters
    ----------
    n_knots : int, optional
        Knots per column of numbers with its public ends: 3, 5, 9 (if private), 17, 33 or 65.
    knots : {"private", "public"} or None, default=None
        At released quantiles, or at public places, which cost nothing (even ones, or their squares
        where no number is negative). None: public where there are too few rows for quantiles.
    interactions : bool, optional
        Whether pairs of columns add something together: one weight for the product of their
        places, for at most 8 pairs. None: where there are enough rows for their number.
    n_steps : int or None, default=None
        Number of noisy gradients. None: 240; 120 if μ times the records per hat is at least 50.
    max_gradient_norm : float, default=0.1
        Largest length of a row's gradient; longer ones are shortened.
    $shared

    Attributes
    ----------
    $classes
    knots_ : ndarray of shape (n_numeric_columns, n_knots)
        Knots as places in the public ranges, from 0 to 1.
    coef_ : ndarray of shape (1 or n_classes, n_hats)
        Value of each curve at each knot or category, column by column.
    intercept_ : ndarray of shape (1 or n_classes,)
        The constant.
    counts_ : ndarray of shape (n_classes,)
        Released class sizes.
    noise_factor_, hat_means_ : ndarray
        B, where ``B Bᵀ`` bounds the covariance of the noise in a row of `coef_`; released means of
        the hats.
    orders_, pairs_, pair_coef_ : ndarray
        The place of each knot or category, from -1 to 1; places of the columns of each pair, and
        the weight of the product of theirs.
    pair_means_, pair_deviations_, pair_noise_ : ndarray
        Released means and deviations of the products, and the factor of the noise of their weights.
    score_factor_ : float
        By what the scores of the descent were multiplied, so that their softmax is a probability.
    feature_names_in_ : ndarray of str
        Names of the columns, public, where a table was given.
    $guarantee

    Privacy
    -------
    Unit and relation : record, label included, or person; replace_one or add_or_remove_one.
    Released : cuts of each column of numbers, class sizes, sums of the hats of each class where
        they are needed, the second moment of the hats and products, `n_steps` gradients, and
        counts of scores by label.
    Sensitivity : a record is counted once per column; hats have length 1 at most, so the second
        moment moves by √2 (replace) or 1 (add or remove), a gradient by ``2 max_gradient_norm``
        or `max_gradient_norm`.
    Guarantee : cuts have bounded range, all else is Gaussian; composed by loss distributions.
    Assumptions and numerics : bounds and label set are public, and where the number of rows is
        secret, that there are at most 2**26 of them. Sums are exact, noise is float-safe. Proofs:
        docs/guarantees/additive.md and knots.md.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sfumato import Bounds, PrivateAdditiveClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> bounds = Bounds(lower=0.0, upper=X.max(axis=0) * 1.1, labels=[0, 1])
    >>> model = PrivateAdditiveClassifier(epsilon=2.0, delta=1e-5, bounds=bounds)
    >>> bool(model.fit(X, y).score(X, y) > 0.8)
    True
    """

    score_noise: ClassVar[float] = 1.6  # as for the linear classifier
    learned: ClassVar[Form] = {
        **PrivateClassifier.learned,
        **AdditiveModel.learned,
        "score_factor_": real(least=0.0),
    }

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        cells, budget = self._begin(X, y, groups)
        n_classes, n_bins = len(self.classes_), len(BIN_MIDDLES)
        bins = CountTables((n_bins, n_classes), ((0, 1),), n_classes)
        if n_classes == 2:
            bins = CountTables((n_bins,), ((0,),), 2)
        scores, look, seen, *_ = self._learn(cells, budget, (0.0, 0.3, 0.02), bins)
        drawn = budget.draw(look, seen.mapped(ScoreBins(scores)))  # [A10] scores by label
        (table,), noise = bins.split(drawn), budget.noise(look)  # no row from here on
        if is_first_alone(self.counts_, budget.noise(budget.releases[0]), cells.public_rows):
            warnings.warn(
                "By the released counts, hardly any record has a label of the public set "
                "other than the first. Records whose label is not in the set are not used. Check "
                "that the bounds spell and type the labels as the table does.",
                stacklevel=3,
            )
        if n_classes == 2:
            wrong, right = table.T
            self.score_factor_, shift = probability_line(right, wrong, math.sqrt(2) * noise, 1.0)
        else:
            right = np.einsum("bcc->b", table)
            wrong = table.sum(axis=(1, 2)) - right
            self.score_factor_, shift = probability_line(right, wrong, noise * n_classes, 0.0)
        self._keep(scores, self.score_factor_, shift)
        self.guarantee_ = budget.guarantee()
        return self

    def _gradient(self, weights: Array, person: PersonUnit | None) -> GradientSum:
        loss = SoftmaxLoss(len(self.classes_))
        clip = min(self.max_gradient_norm, loss.slope_bound)
        joined = PerPersonClip.default(person, clip)
        return GradientSum(
            loss, clip, ScoreWeights(weights).rounded, joined, coarse_bits(loss, clip)
        )


@dataclass(eq=False, repr=False)
class PrivateAdditiveRegressor(AdditiveModel, PrivateRegressor):
    """``y(x) = b + sum_j f_j(x_j)``: one private curve per column.

    Curves are those of `PrivateAdditiveClassifier`. They are learned by Huber's loss around the
    released median of the target, in units of its released spread; a last small release of
    predictions and targets brings back the mean of a skewed target.

    Parameters
    ----------
    target_bounds : (float, float), optional
        Public range of the target; required unless the bounds of a table name it. Targets are
        clipped to it; a record whose target is missing adds nothing.
    n_knots, knots, interactions, n_steps
        See `PrivateAdditiveClassifier`.
    max_gradient_norm : float, default=0.25
        Largest residual, in spreads of the target; larger ones count as this.
    $shared

    Attributes
    ----------
    knots_, coef_, intercept_ : ndarray
        As for `PrivateAdditiveClassifier`, in units of the target; one score. So are
        `noise_factor_`, `hat_means_`, and what is said there about pairs.
    reach_ : ndarray of shape (2,)
        Range of predictions.
    slope_doubt_ : float
        Relative deviation of all curves by the noise of the last release.
    counts_ : ndarray of shape (1,)
        Number of records: public, or by the released moment.
    feature_names_in_ : ndarray of str
        Names of the columns, public, where a table was given.
    $guarantee

    Privacy
    -------
    Unit and relation : record, target included, or person; replace_one or add_or_remove_one.
    Released : cuts of each column of numbers and of the target, the number of rows and sums of hats
        where they are needed, the second moment of hats and products,
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

    _: KW_ONLY
    target_bounds: tuple[float, float] | None = None
    max_gradient_norm: float = 0.25

    score_noise: ClassVar[float] = 0.4  # spreads of the target
    learned: ClassVar[Form] = {
        **AdditiveModel.learned,
        "reach_": numbers(2),
        "slope_doubt_": real(least=0.0, most=1.0),
    }

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        low, high = target_range(self)
        cells, budget = self._begin(X, y, groups, target=(low, high, low, high - low))
        n_rows, signal = cells.public_rows, FEW**0.25 * MANY**0.75
        if n_rows is not None and math.isfinite(self.epsilon):
            signal = n_rows * mu_from_budget(self.epsilon, self.delta)
        few = math.log(MANY / min(max(signal, FEW), MANY)) / math.log(MANY / FEW)
        ends = TARGET_SHARES, MOMENT_SHARES, LOOK_SHARES
        shares: Any = tuple(a ** (1 - few) * b**few for a, b in ends)
        scores, look, _, about = self._learn(cells, budget, shares, SecondMoment(3))
        centre, scale, middle, variance, noisy = about
        reach = REACH * math.sqrt(max(variance, MIN_DEVIATION**2))
        noise = 3 * budget.noise(look)
        relative = noise / max(float(self.counts_.sum()), 1.0)
        far = max(MIN_SPREADS, LEVEL_NOISE / relative if relative else math.inf) * scale
        least, most = max(centre - far, 0.0), min(centre + far, 1.0)
        beside = cells.mapped(ScoreAndTarget(scores, middle, reach, least, most))
        moments = 3 * budget.draw(look, beside)  # [A7] scores with targets; no row from here on
        centre, unit = (least + most) / 2, (most - least) / 2
        learned = reach * scale / unit
        level, slope, self.slope_doubt_ = target_line(moments, noise, learned, noisy / reach**2)
        start, width = centre + unit * (level - slope / reach * middle), high - low
        self._keep(scores, unit * (slope / reach) * width, low + start * width)
        ends_of_line = centre + unit * np.array([level - slope, level + slope])
        self.reach_ = np.clip(ends_of_line, 0.0, 1.0) * width + low
        self.guarantee_ = budget.guarantee("range of the target")
        return self

    def _gradient(self, weights: Array, person: PersonUnit | None) -> ResidualSum:
        clip = float(self.max_gradient_norm)
        if person is not None:
            return ResidualSum(clip, weights, PerPersonClip.default(person, clip))
        bits = coarse_bits(SoftmaxLoss(2), clip)
        return ResidualSum(clip, ScoreWeights(weights).rounded, slope_bits=bits)

    def predict(self, X: Any) -> Array:
        return np.asarray(np.clip(self._all_scores(X)[:, 0], *self.reach_))
