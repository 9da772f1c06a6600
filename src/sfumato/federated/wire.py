"""Statistics, maps and mechanisms as JSON and arrays, and back: a closed list, no code travels.

What comes from a coordinator is checked before it touches a row: a map whose rows could leave the
unit ball, or whose products could round, would break the sensitivity on which the noise rests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.bounds import Bounds
from sfumato.exceptions import FederationError, SfumatoError
from sfumato.fabrication.public_rules import PublicScale, ScaledRows
from sfumato.guarantee import Relation
from sfumato.linear.noisy_gradient import GradientSum, on_weight_grid
from sfumato.linear.rows import LinearRows
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.objectives.losses import HuberLoss, SoftmaxLoss
from sfumato.sums.grid import ROW_BITS
from sfumato.sums.maps import Centred, Clipped, Encoded, IntoUnitBall, Projected
from sfumato.sums.singles import ScoreWeights
from sfumato.sums.statistics import ClassCounts, ClassMoments, MeanAndSquares, Parts, SecondMoment
from sfumato.tables.encoder import TableEncoder
from sfumato.tables.schema import TableBounds

__all__ = ["packed", "require_safe", "unpacked"]

Arrays = dict[str, NDArray[Any]]
KINDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        Bounds,
        Centred,
        ClassCounts,
        ClassMoments,
        Clipped,
        Encoded,
        GaussianMechanism,
        GradientSum,
        HuberLoss,
        IntoUnitBall,
        LinearRows,
        MeanAndSquares,
        Parts,
        Projected,
        PublicScale,
        ScaledRows,
        SecondMoment,
        SoftmaxLoss,
    )
}
INTO_BALL = (IntoUnitBall, Centred, Projected, LinearRows)  # whatever rows they are given
STATISTICS = (ClassCounts, ClassMoments, GradientSum, MeanAndSquares, SecondMoment)
HAIR = 1e-9
_DEEPEST = 12


def packed(value: Any, arrays: Arrays) -> Any:
    """Give a value as JSON; its arrays are put aside under the names that stand in the JSON.

    Parameters
    ----------
    value : object
        A statistic, a map, a mechanism, or a list of them.
    arrays : dict
        Where arrays are put.
    """
    if value is None or isinstance(value, bool | str) or type(value) is int:
        return str(value) if isinstance(value, StrEnum) else value
    if isinstance(value, float | np.floating):
        return {"float": float(value).hex()}
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, np.ndarray):
        name = f"array-{len(arrays)}"
        arrays[name] = value
        return {"array": name}
    if isinstance(value, list | tuple | range):
        return {"list": [packed(each, arrays) for each in value]}
    if isinstance(value, TableBounds):
        return {"table": value.to_record()}
    if isinstance(value, TableEncoder):
        return {"encoder": [packed(value.bounds, arrays), value.scaled]}
    if KINDS.get(type(value).__name__) is type(value) and is_dataclass(value):
        given = {each.name: getattr(value, each.name) for each in fields(value) if each.init}
        return {type(value).__name__: {name: packed(each, arrays) for name, each in given.items()}}
    raise FederationError(f"{type(value).__name__} cannot be sent to parties.")


def unpacked(record: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """Build what `packed` gave, or refuse it.

    Parameters
    ----------
    record : object
        The JSON.
    arrays : mapping
        The arrays that it names.
    """
    try:
        return _unpacked(record, arrays, 0)
    except SfumatoError as error:
        raise FederationError(f"What was sent cannot be used: {error}") from None
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        raise FederationError("What was sent cannot be read.") from None


def _unpacked(record: Any, arrays: Mapping[str, NDArray[Any]], depth: int) -> Any:
    if depth > _DEEPEST:
        raise FederationError("What was sent is nested too deeply.")
    if record is None or isinstance(record, bool | str | int):
        return record
    ((kind, content),) = record.items()
    if kind == "float":
        return float.fromhex(content)
    if kind == "array":
        return _checked(arrays[content])
    if kind == "list":
        return tuple(_unpacked(each, arrays, depth + 1) for each in content)
    if kind == "table":
        return TableBounds.from_record(content)
    if kind == "encoder":
        bounds, scaled = content
        return TableEncoder(_unpacked(bounds, arrays, depth + 1), scaled=bool(scaled))
    given = {name: _unpacked(each, arrays, depth + 1) for name, each in content.items()}
    return KINDS[kind](**given)


def _checked(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
        raise FederationError("an array holds what is no finite number.")
    return array


def require_safe(
    maps: Iterable[Any], statistic: Any, *, bounds: Bounds | None, relation: Relation
) -> None:
    """Refuse maps and statistics for which the stated sensitivity would not hold.

    Parameters
    ----------
    maps : iterable of RowMap
        Maps of rows, in their order.
    statistic : Statistic
        What is added up of the mapped rows.
    bounds : Bounds or None
        The bounds on which the party agreed: the maps must be made from them.
    relation : Relation
        The neighbours for which sensitivities are asked.
    """
    listed = list(maps)
    if not isinstance(statistic, STATISTICS):
        raise FederationError(f"{type(statistic).__name__} is not added up for others.")
    needs_ball = not isinstance(statistic, ClassCounts)
    if needs_ball and not (listed and isinstance(listed[-1], INTO_BALL)):
        raise FederationError("The rows of a sum must be mapped into the unit ball.")
    for place, each in enumerate(listed):
        if isinstance(each, Centred | Projected | LinearRows) and not any(
            isinstance(before, IntoUnitBall) for before in listed[:place]
        ):
            raise FederationError("Rows must be moved into the unit ball by their bounds first.")
        for check, why in CHECKS.get(type(each), ()):
            if not check(each):
                raise FederationError(f"{type(each).__name__} is refused: {why}")
    if isinstance(statistic, GradientSum):
        _check_gradient(statistic)
    if isinstance(statistic, ClassMoments) and not _is_weight(statistic.constant):
        raise FederationError("The constant of class moments is a multiple of 2**-8 up to 1.")
    if not math.isfinite(statistic.term_sensitivity(relation)):
        raise FederationError("The statistic has no finite sensitivity.")
    if bounds is not None and any(_other_bounds(each, bounds) for each in listed):
        raise FederationError("The maps are made from other bounds than were agreed on.")


def _is_weight(constant: float) -> bool:
    return 0 < constant <= 1 and (constant * 256).is_integer()


def _other_bounds(row_map: Any, agreed: Bounds) -> bool:
    given = getattr(row_map, "bounds", None)
    if isinstance(row_map, ScaledRows):
        given = row_map.scale.bounds
    if isinstance(row_map, Encoded):
        given = row_map.encoder.bounds
    if given is None or isinstance(row_map, IntoUnitBall):  # of encoded rows: other numbers
        return False
    return bool(given != agreed)


def _check_gradient(statistic: GradientSum) -> None:
    weights = np.asarray(statistic.weights)
    is_coarse = statistic.slope_bits < ROW_BITS  # rows in single precision round weights themselves
    on_grid = ScoreWeights(weights).rounded if is_coarse else on_weight_grid(weights)
    if weights.ndim != 2 or not np.array_equal(on_grid, weights):
        raise FederationError("The weights of a gradient do not lie on their grid.")
    if not 0 < statistic.max_gradient_norm < 2 or statistic.joined is not None:
        raise FederationError("The slopes of a gradient are bounded by a length below 2.")


def _inside(point: NDArray[np.float64]) -> bool:
    return bool(np.linalg.norm(point) <= 1 + HAIR)


def _keeps_lengths(matrix: NDArray[np.float64] | None) -> bool:
    return matrix is None or bool(matrix.ndim == 2 and np.linalg.norm(matrix, ord=2) <= 1 + HAIR)


CHECKS: dict[type, tuple[tuple[Callable[[Any], bool], str], ...]] = {
    Centred: (
        (lambda each: _inside(each.mean), "its mean lies outside of the unit ball."),
        (lambda each: 1e-6 < each.radius <= 2, "its radius must lie between 1e-6 and 2."),
    ),
    Projected: (
        (lambda each: _inside(each.mean), "its mean lies outside of the unit ball."),
        (lambda each: _keeps_lengths(each.basis), "its basis lengthens rows."),
        (lambda each: 1e-6 < each.radius <= 2, "its radius must lie between 1e-6 and 2."),
    ),
    LinearRows: (
        (lambda each: _keeps_lengths(each.projection), "its projection lengthens rows."),
        (lambda each: 0 <= each.constant <= 2**10, "its constant must lie between 0 and 1024."),
    ),
}
