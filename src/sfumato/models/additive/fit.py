"""Additive scores from records: knots, a second moment, and a descent on whitened hats.

The hats of a row are whitened by their released second moment, divided by their typical length and
scaled back to length 1 where they are longer. The descent learns weights of these rows. Its result
is written as weights of the hats themselves, so that predictions are exactly additive.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from sfumato.core.arrays import Array as AnyArray
from sfumato.ledger.receipt import Receipt
from sfumato.models.additive.columns import PublicColumns
from sfumato.models.additive.hats import HatRows
from sfumato.models.additive.knots import public_knots, release_knots
from sfumato.models.additive.pairs import (
    MAX_PAIRED,
    HatSums,
    PairRows,
    SideMeans,
    Sides,
    clear_means,
    clear_odds,
    column_orders,
    kept_pairs,
    pair_tables,
)
from sfumato.models.additive.plan import AdditivePlan
from sfumato.models.linear import AVERAGED, MAX_STEP, MOMENTUM, descend, step_size, whitened_rows
from sfumato.sums.grid import FINE_BITS, truncate_to_grid
from sfumato.sums.maps import BesideTarget, LinearRows, exact_product
from sfumato.sums.records import Records
from sfumato.sums.statistics import ClassCounts, SecondMoment, Statistic

Array = NDArray[np.float64]

MIN_SPREAD = 2.0**-12  # of the public range of the target


@dataclass(frozen=True, eq=False)
class Places:
    """``cells -> places``: the map before knots are known."""

    columns: PublicColumns

    @property
    def width(self) -> int:
        """Numbers of a row."""
        return len(self.columns)

    def __call__(self, rows: AnyArray) -> AnyArray:
        """Map cells, whatever stands beside them."""
        return self.columns.places(rows[:, : self.width])


@dataclass(frozen=True)
class AdditiveScores:
    """What a fit released, as weights of hats; everything in it is public.

    rows: The encoding with its knots and pairs.
    coef (n_scores, width): Weight of each hat of height 1, and of each product of a pair.
    intercept (n_scores,): Weight of the constant.
    factor (width, width): The noise of `coef` has covariance ``factor factorᵀ`` at most.
    means (width,): Released mean of each hat of height 1 and of each product.
    covariance (width, width): Released covariance of the same.
    counts (n_classes,): Released, or public, numbers of records.
    centre, scale: Released median and spread of the target, as places in its public range; scores
        are in these units.
    """

    rows: PairRows
    coef: Array
    intercept: Array
    factor: Array = field(repr=False)
    means: Array = field(repr=False)
    covariance: Array = field(repr=False)
    counts: Array = field(repr=False)
    centre: float = 0.0
    scale: float = 1.0

    def __call__(self, cells: AnyArray) -> Array:
        """Return the scores of rows of cells, shape (n, n_scores)."""
        raw = self.rows.hats.raw(cells)
        together = np.hstack([raw, truncate_to_grid(self.rows.products(raw), FINE_BITS)])
        longest = math.sqrt(len(self.rows.hats.columns) + len(self.rows.pairs))
        return exact_product(together, self.coef, longest) + self.intercept


def fit_scores(
    records: Records,
    plan: AdditivePlan,
    gradient: Callable[[Array, Array], Statistic],
    receipt: Receipt,
    *,
    n_scores: int,
    score_noise: float,
    curvature: float,
) -> AdditiveScores:
    """Learn private additive scores."""
    has_target = records.width > len(plan.columns)
    counted = _counted(records, plan, receipt)
    knots, centre, scale = _knots(records, plan, counted, receipt)
    hats = HatRows(plan.columns, knots)
    encoded = records.mapped(BesideTarget(hats, has_target, centre, scale))
    rows = _paired(encoded, hats, plan, counted, receipt)
    encoded = records.mapped(BesideTarget(rows, has_target, centre, scale))
    moment = encoded.mapped(LeadingColumns(rows.width)).release(  # [A2] second moment of the rows
        SecondMoment(rows.width), plan.moment, receipt
    )
    counts = _counts(records, plan, rows, moment, counted)
    noise = math.sqrt(records.variance_of(plan.moment))
    n_rows = max(1.0, float(counts.sum()))
    white, steepest = whitened_rows(moment, noise, n_rows, rows.default_square)
    learned = encoded.mapped(BesideTarget(white, has_target)).cache()

    def noisy_gradient(weights: Array) -> Array:
        statistic = gradient(weights, counts)
        return learned.release(statistic, plan.gradients, receipt)  # [A4] a noisy gradient

    deviation = math.sqrt(records.variance_of(plan.gradients))
    largest = min(MAX_STEP / plan.max_gradient_norm, 1 / (curvature * steepest))
    step = step_size(deviation / n_rows, plan.n_steps, score_noise, largest)
    shape = n_scores, white.width
    weights = descend(noisy_gradient, shape, n_rows, plan.n_steps, step)  # [A5] no row
    scores = _as_scores(rows, weights, white, moment, counts, deviation, (plan.n_steps, step))
    return replace(scores, centre=centre, scale=scale)


def _paired(
    encoded: Records, hats: HatRows, plan: AdditivePlan, counted: Array | None, receipt: Receipt
) -> PairRows:
    """Choose pairs of columns by released counts; none where rows are few for that."""
    none = PairRows(hats, np.zeros(hats.width), np.empty((0, 2), dtype=np.intp))
    if plan.orders is None or plan.crossed is None:
        return none
    has_target = encoded.width > hats.width
    sums = encoded.release(  # [A8] hats of each class
        HatSums(max(2, plan.n_classes), hats.width, has_target), plan.orders, receipt
    )
    noise = math.sqrt(encoded.variance_of(plan.orders)) / hats.height
    orders, strengths = column_orders(hats, sums / hats.height, noise)
    columns = tuple(np.sort(np.argsort(-strengths, kind="stable")[:MAX_PAIRED]).tolist())
    statistic = pair_tables(len(plan.columns), plan.n_classes)
    sides = encoded.mapped(Sides(hats, orders, columns, has_target))
    counts = sides.release(statistic, plan.crossed, receipt)  # [A9] sides of pairs, by class
    if counted is not None and float(counted.sum()) < plan.pairs.enough_rows:
        return none
    deviation = math.sqrt(encoded.variance_of(plan.crossed))
    if isinstance(statistic, SideMeans):
        clear = clear_means(counts, deviation)
    else:
        clear = clear_odds(statistic.split(counts), deviation)
    return PairRows(hats, orders, kept_pairs(columns, clear))


def _counted(records: Records, plan: AdditivePlan, receipt: Receipt) -> Array | None:
    """Sizes of classes, or the number of records, where they are released."""
    if plan.counter is None:
        return None
    noisy = records.release(ClassCounts(plan.n_classes), plan.counter, receipt)  # [A3] sizes
    return np.maximum(noisy, 1.0)


def _knots(
    records: Records, plan: AdditivePlan, counted: Array | None, receipt: Receipt
) -> tuple[Array, float, float]:
    """Knots of the columns, and median and spread of the target where there is one."""
    columns = plan.columns
    n_rows = math.inf if counted is None else float(counted.sum())
    knots = public_knots(columns, plan.knots.public_levels)
    centre, scale = 0.0, 1.0
    if plan.quantiles is not None:
        has_target = records.width > len(columns)
        places = records.mapped(BesideTarget(Places(columns), has_target))
        released = release_knots(  # [A1] knots
            places, plan.cut, plan.quantiles, plan.knots.n_levels, receipt
        )
        if len(columns) in plan.cut:
            centre, scale = _centre_and_spread(released[-1])
            released = released[:-1]
        if plan.knots.is_private(n_rows) and len(released):
            knots = released
    return knots, centre, scale


def _centre_and_spread(cuts: Array) -> tuple[float, float]:
    """Median, and half the distance of the outermost released quantiles."""
    middle = len(cuts) // 2
    outer = max(1, middle // 4)
    spread = (cuts[-1 - outer] - cuts[outer]) / 2
    return float(cuts[middle]), max(float(spread), MIN_SPREAD)


def _counts(
    records: Records, plan: AdditivePlan, rows: PairRows, moment: Array, counted: Array | None
) -> Array:
    """Sizes of classes: released, equal parts of a public number, or read off the moment.

    The hats of height 1 of a row add up to the number of columns, so their moments add up to its
    square for each record (less, where cells are missing). For a number of records alone this is
    the better figure.
    """
    if counted is not None and plan.n_classes > 1:
        return counted
    width = rows.hats.width
    whole = float(moment[:width, :width].sum()) / (len(plan.columns) * rows.units[0]) ** 2
    n_rows = records.public_rows or max(whole, 1.0)
    return np.full(plan.n_classes, n_rows / plan.n_classes)


@dataclass(frozen=True)
class LeadingColumns:
    """The first numbers of a row."""

    width: int

    def __call__(self, rows: AnyArray) -> AnyArray:
        return rows[:, : self.width]


# After the releases ---------------------------------------------------------------------------


def _as_scores(
    rows: PairRows,
    weights: Array,
    white: LinearRows,
    moment: Array,
    counts: Array,
    deviation: float,
    descent: tuple[int, float],
) -> AdditiveScores:
    """Write weights of whitened rows as weights of hats."""
    back = white.weights_before * rows.units[:, None]
    n_rows = max(1.0, float(counts.sum()))
    spread = deviation / n_rows * _averaged_noise(*descent)
    means, covariance = _mean_and_covariance(rows, moment, n_rows)
    return AdditiveScores(
        rows,
        weights[:, :-1] @ back.T,
        weights[:, -1] * white.height,
        back * spread,
        means,
        covariance,
        counts,
    )


def _averaged_noise(n_steps: int, learning_rate: float) -> float:
    """Deviation of the averaged weights where each mean gradient has noise of deviation 1.

    For a flat loss the noise adds up undamped; a convex loss only damps it, so this is the most.
    """
    first = int(n_steps * (1 - AVERAGED))
    total = 0.0
    for step in range(n_steps):  # weights after step t move by this much for noise in step `step`
        later = np.arange(max(step, first), n_steps)
        moved = (1 - MOMENTUM ** (later - step + 1)) / (1 - MOMENTUM)
        total += (moved.sum() / (n_steps - first)) ** 2
    return learning_rate * math.sqrt(total)


def _mean_and_covariance(rows: PairRows, moment: Array, n_rows: float) -> tuple[Array, Array]:
    """Means and covariances of hats of height 1 and products by the released second moment.

    The hats of a column add up to 1, so a row of the moment, added up over the hats of a column, is
    a mean; averaged over all columns.
    """
    second = moment / (np.outer(rows.units, rows.units) * n_rows)
    means = second[:, : rows.hats.width].sum(axis=1) / len(rows.hats.columns)
    for part in rows.hats.slices:
        share = np.maximum(means[part], 0.0)
        means[part] = share / max(float(share.sum()), 1e-12)
    return means, second - np.outer(means, means)
