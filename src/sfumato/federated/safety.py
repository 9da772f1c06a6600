"""What a party adds up for others: maps and statistics for which the stated sensitivity holds.

A map whose rows could leave the unit ball, or whose products could round, would break the
sensitivity on which the noise rests; a statistic that fails for some records only would tell of
them by failing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.additive.calibration import ScoreAndTarget
from sfumato.additive.columns import PublicColumns
from sfumato.additive.fit import AdditiveScores, First
from sfumato.additive.hats import HatRows
from sfumato.additive.knots import PlaceTree
from sfumato.additive.pairs import HatSums, PairRows, SideMeans
from sfumato.exceptions import FederationError
from sfumato.guarantee import Relation
from sfumato.linear.target_moments import WithTarget
from sfumato.sums.counts import CountTables
from sfumato.sums.gradients import LARGEST_WEIGHTS, GradientSum, ResidualSum, on_weight_grid
from sfumato.sums.grid import ROW_BITS, cut
from sfumato.sums.maps import Beside, Centred, Encoded, IntoUnitBall, LinearRows, Projected
from sfumato.sums.singles import ScoreWeights
from sfumato.sums.statistics import ClassCounts, ClassMoments, MeanAndSquares, SecondMoment
from sfumato.tables.bounds import Bounds

__all__ = ["require_safe"]

# Maps into the unit ball whatever rows they are given, and those that need rows of it.
INTO_BALL = (IntoUnitBall, HatRows, PairRows, WithTarget, ScoreAndTarget)
INSIDE_BALL = (Centred, Projected, LinearRows)
COUNTS = (ClassCounts, CountTables, PlaceTree, SideMeans)  # whatever rows they are given
OF_BALL = (ClassMoments, GradientSum, MeanAndSquares, SecondMoment)
STATISTICS = (*COUNTS, *OF_BALL, HatSums, ResidualSum)
ROUNDING = 1e-9
LARGEST_WEIGHT = 1e9


def require_safe(
    maps: Iterable[Any],
    statistic: Any,
    *,
    bounds: Bounds | None,
    relation: Relation,
    n_classes: int | None = None,
) -> None:
    """Refuse maps and statistics for which the stated sensitivity would not hold.

    maps: Maps of rows, in their order.
    statistic (Statistic): What is added up of the mapped rows.
    bounds: The bounds on which the party agreed: the maps must be made from them.
    relation: The neighbours for which sensitivities are asked.
    n_classes: Classes of the records, where they are known.
    """
    listed = list(maps)
    if not isinstance(statistic, STATISTICS):
        raise FederationError(f"{type(statistic).__name__} is not added up for others.")
    for each in (*listed, statistic):
        _check_fields(each)
    in_ball, has_target = _ball_after(listed)
    if isinstance(statistic, OF_BALL) and (in_ball is None or has_target):
        raise FederationError("The rows of a sum must be mapped into the unit ball.")
    if isinstance(statistic, ResidualSum) and (
        in_ball != statistic.weights.shape[-1] or not has_target
    ):
        raise FederationError(
            "The rows of residuals must be in the unit ball, with a target appended."
        )
    if isinstance(statistic, HatSums):
        _check_hats(statistic, listed)
    if isinstance(statistic, GradientSum | ResidualSum):
        _check_gradient(statistic, listed)
    _check_classes(statistic, n_classes)
    if isinstance(statistic, ClassMoments) and not _is_weight(statistic.constant):
        raise FederationError("The constant of class moments is a multiple of 2**-8 up to 1.")
    if not math.isfinite(statistic.term_sensitivity(relation)):
        raise FederationError("The statistic has no finite sensitivity.")
    if bounds is not None and any(_other_bounds(each, bounds) for each in listed):
        raise FederationError("The maps are made from other bounds than were agreed on.")


def _ball_after(maps: list[Any]) -> tuple[int | None, bool]:
    """Tell how many first numbers of a mapped row lie in the unit ball, and if a target follows."""
    in_ball: int | None = None
    has_target = False
    for each in maps:
        inner = each.row_map if isinstance(each, Beside) else each
        beside = isinstance(each, Beside) and each.has_target
        if isinstance(inner, INSIDE_BALL):
            if in_ball is None or has_target != beside:
                raise FederationError(
                    "Rows must be moved into the unit ball by their bounds first."
                )
            in_ball = inner.width
        elif isinstance(inner, First):
            if in_ball is None or inner.width > in_ball:
                raise FederationError("More numbers of a row are taken than lie in the unit ball.")
            in_ball, beside = inner.width, False
        else:
            in_ball = inner.width if isinstance(inner, INTO_BALL) else None
        has_target = beside
    return in_ball, has_target


def _check_fields(value: Any) -> None:
    """Check a map or statistic, and what stands in it."""
    for check, why in CHECKS.get(type(value), ()):
        if not check(value):
            raise FederationError(f"{type(value).__name__} is refused: {why}")
    if is_dataclass(value):
        for each in fields(value):
            _check_fields(getattr(value, each.name))


def _check_hats(statistic: HatSums, maps: list[Any]) -> None:
    last = maps[-1] if maps else None
    hats = last.row_map if isinstance(last, Beside) else last
    has_target = isinstance(last, Beside) and last.has_target
    fits = isinstance(hats, HatRows) and hats.width == statistic.width
    if not fits or has_target != statistic.has_target:
        raise FederationError("Sums of hats are made of hats.")


def _check_classes(statistic: Any, n_classes: int | None) -> None:
    """Refuse other classes than the records have: a sum that fails for one of them tells of it."""
    found = getattr(statistic, "n_classes", None)
    if isinstance(statistic, GradientSum):
        found = statistic.loss.n_classes
        if statistic.class_weights is not None and len(statistic.class_weights) != found:
            raise FederationError("There must be a weight for each class.")
    if isinstance(statistic, ClassMoments) and statistic.parts is not None:
        parts, shape = statistic.parts, (statistic.n_classes, statistic.width)
        if parts.means.shape != shape or parts.axes.shape[:2] != shape:
            raise FederationError("The parts of classes do not fit the classes.")
    if isinstance(statistic, HatSums) and statistic.has_target:
        return  # two classes, below and above 0
    if found is not None and n_classes is not None and found != n_classes:
        raise FederationError(
            f"{type(statistic).__name__} has {found} classes; the records have {n_classes}."
        )


def _is_weight(constant: float) -> bool:
    return 0 < constant <= 1 and (constant * 256).is_integer()


def _other_bounds(row_map: Any, agreed: Bounds) -> bool:
    given = getattr(row_map, "bounds", None)
    if isinstance(row_map, Encoded):
        given = row_map.encoder.bounds
    if given is None or isinstance(row_map, IntoUnitBall):  # of encoded rows: other numbers
        return False
    return bool(given != agreed)


def _check_gradient(statistic: GradientSum | ResidualSum, maps: list[Any]) -> None:
    weights = np.asarray(statistic.weights)
    if weights.ndim != 2 or np.linalg.norm(weights, axis=1).max(initial=0.0) > LARGEST_WEIGHTS:
        raise FederationError("The weights of a gradient are longer than scores are exact for.")
    slope_bits = getattr(statistic, "slope_bits", ROW_BITS)
    if not 1 <= slope_bits <= ROW_BITS:
        raise FederationError("The slopes of a gradient do not lie on their grid.")
    # Rows in single precision round weights themselves.
    on_grid = ScoreWeights(weights).rounded if slope_bits < ROW_BITS else on_weight_grid(weights)
    if not np.array_equal(on_grid, weights):
        raise FederationError("The weights of a gradient do not lie on their grid.")
    if not 0 < statistic.max_gradient_norm < 2 or statistic.joined is not None:
        raise FederationError("The slopes of a gradient are bounded by a length below 2.")
    last = maps[-1].row_map if isinstance(maps[-1], Beside) else maps[-1]
    if not isinstance(last, LinearRows):  # on a finer grid, products would not be exact
        raise FederationError("The rows of a gradient must lie on the grid of linear rows.")


def _inside(point: NDArray[np.float64]) -> bool:
    return bool(np.linalg.norm(point) <= 1 + ROUNDING)


def _keeps_lengths(matrix: NDArray[np.float64] | None) -> bool:
    if matrix is None:
        return True
    fits = matrix.ndim == 2
    return fits and _longest(matrix.astype(np.float64).tobytes(), matrix.shape) <= 1 + ROUNDING


@lru_cache(maxsize=4)
def _longest(data: bytes, shape: tuple[int, ...]) -> float:
    """Largest singular value; a descent sends the same projection with every gradient."""
    return float(np.linalg.norm(np.frombuffer(data).reshape(shape), ord=2))


def _has_ranges(columns: PublicColumns) -> bool:
    same = len(columns.lower) == len(columns.upper) == len(columns.categories) == len(columns)
    return same and all(
        math.isfinite(columns.lower[i]) and columns.lower[i] < columns.upper[i] < math.inf
        for i in columns.numeric
    )


def _has_knots(hats: HatRows) -> bool:
    knots = np.asarray(hats.knots)
    fits = knots.ndim == 2 and len(knots) == len(hats.columns.numeric)
    if not fits or knots.shape[1] < 2:
        return False
    return bool((np.diff(knots, axis=1) > 0).all() and ((knots >= 0) & (knots <= 1)).all())


def _has_orders(rows: PairRows) -> bool:
    orders, pairs = np.asarray(rows.orders), np.asarray(rows.pairs)
    on_grid = orders.shape == (rows.hats.width,) and np.array_equal(cut(orders, ROW_BITS), orders)
    listed = pairs.ndim == 2 and pairs.shape[1] == 2 and pairs.dtype.kind == "i"
    if not (on_grid and listed and (np.abs(orders) <= 1).all()):
        return False
    return bool(((pairs >= 0) & (pairs < len(rows.hats.columns))).all())


def _has_weights(scores: AdditiveScores) -> bool:
    coef, level = np.asarray(scores.coef), np.asarray(scores.intercept)
    fits = coef.shape == (len(level), scores.rows.width) and level.ndim == 1
    return bool(fits and max(np.abs(coef).max(), np.abs(level).max()) <= LARGEST_WEIGHT)


Check = tuple[Callable[[Any], bool], str]
CHECKS: dict[type, tuple[Check, ...]] = {
    Centred: (
        (lambda each: _inside(each.mean), "its mean is outside the unit ball."),
        (lambda each: 1e-6 < each.radius <= 2, "its radius must lie between 1e-6 and 2."),
    ),
    Projected: (
        (lambda each: _inside(each.mean), "its mean is outside the unit ball."),
        (lambda each: _keeps_lengths(each.basis), "its basis lengthens rows."),
        (lambda each: 1e-6 < each.radius <= 2, "its radius must lie between 1e-6 and 2."),
    ),
    LinearRows: (
        (lambda each: _keeps_lengths(each.projection), "its projection lengthens rows."),
        (lambda each: 0 <= each.constant <= 2**10, "its constant must lie between 0 and 1024."),
        (
            lambda each: each.radius is None or 0 < each.radius < math.inf,
            "its radius must be positive.",
        ),
    ),
    PublicColumns: ((_has_ranges, "its ranges are not valid."),),
    HatRows: ((_has_knots, "its knots must ascend from 0 to 1."),),
    PairRows: ((_has_orders, "its orders or pairs are none of its columns."),),
    AdditiveScores: ((_has_weights, "its weights do not fit its rows."),),
    Beside: (
        (lambda each: math.isfinite(each.centre), "its centre is not a number."),
        (lambda each: 1e-9 < each.scale < math.inf, "its scale must be positive."),
    ),
    ScoreAndTarget: (
        (lambda each: abs(each.middle) <= LARGEST_WEIGHT, "its middle lies too far away."),
        (lambda each: 1e-9 < each.reach < math.inf, "its reach must be positive."),
        (lambda each: each.low < each.high, "its target has no range."),
    ),
}
