"""Statistics, maps and mechanisms as JSON and arrays, and back: a closed list, no code travels.

What was unpacked is checked before it touches a row: see `sfumato.federated.safety`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from sfumato.additive.calibration import ScoreAndTarget, ScorePlaces
from sfumato.additive.columns import PublicColumns
from sfumato.additive.fit import AdditiveScores, First, Places
from sfumato.additive.hats import HatRows
from sfumato.additive.knots import PlaceTree
from sfumato.additive.pairs import HatSums, PairRows, SideMeans, Sides
from sfumato.additive.probabilities import ScoreBins
from sfumato.engines.reading import BatchReader
from sfumato.exceptions import FederationError, SfumatoError
from sfumato.fabrication.label_tree import Coarse
from sfumato.fabrication.table_cells import ColumnCells, TableCells
from sfumato.federated.messages import model_from, model_in
from sfumato.functions.grid_density import Cells
from sfumato.linear.target_moments import WithTarget
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.objectives.losses import HuberLoss, SoftmaxLoss
from sfumato.private import PrivateEstimator
from sfumato.sums.counts import CountTables
from sfumato.sums.gradients import GradientSum, ResidualSum
from sfumato.sums.maps import (
    Beside,
    Centred,
    Clipped,
    Encoded,
    IntoUnitBall,
    IntoUnitCube,
    LinearRows,
    Projected,
)
from sfumato.sums.statistics import ClassCounts, ClassMoments, MeanAndSquares, Parts, SecondMoment
from sfumato.tables.bounds import Bounds
from sfumato.tables.encoder import TableEncoder
from sfumato.tables.schema import TableBounds

__all__ = ["packed", "unpacked"]

Arrays = dict[str, NDArray[Any]]
KINDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        AdditiveScores,
        Beside,
        Bounds,
        Cells,
        Centred,
        ClassCounts,
        ClassMoments,
        Clipped,
        Coarse,
        ColumnCells,
        CountTables,
        Encoded,
        First,
        GaussianMechanism,
        GradientSum,
        HatRows,
        HatSums,
        HuberLoss,
        IntoUnitBall,
        LinearRows,
        MeanAndSquares,
        PairRows,
        Parts,
        PlaceTree,
        Places,
        Projected,
        PublicColumns,
        IntoUnitCube,
        ResidualSum,
        ScoreAndTarget,
        ScoreBins,
        ScorePlaces,
        SecondMoment,
        SideMeans,
        Sides,
        SoftmaxLoss,
        TableCells,
        WithTarget,
    )
}
# Methods by which estimators make rows of tables and arrays, each record by itself.
READERS = (
    "_cells_with_target",
    "_labelled_cells",
    "_labelled_places",
    "_labelled_rows",
    "_rows_and_codes",
    "_rows_with_target",
)
_DEEPEST = 12


def packed(value: Any, arrays: Arrays) -> Any:
    """Give a value as JSON; its arrays are put aside under the names that stand in the JSON.

    value: A statistic, a map, a mechanism, or a list of them.
    arrays: Where arrays are put.
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
    if isinstance(value, BatchReader):
        return {"reader": [packed(model_in(value.estimator), arrays), value.method]}
    if KINDS.get(type(value).__name__) is type(value) and is_dataclass(value):
        given = {each.name: getattr(value, each.name) for each in fields(value) if each.init}
        return {type(value).__name__: {name: packed(each, arrays) for name, each in given.items()}}
    raise FederationError(f"{type(value).__name__} cannot be sent to parties.")


def unpacked(record: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """Build what `packed` gave, or refuse it.

    record: The JSON.
    arrays: The arrays that it names.
    """
    try:
        return _unpacked(record, arrays, 0)
    except SfumatoError as error:
        raise FederationError(f"The message cannot be used: {error}") from None
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        raise FederationError("The message cannot be read.") from None


def _unpacked(record: Any, arrays: Mapping[str, NDArray[Any]], depth: int) -> Any:
    if depth > _DEEPEST:
        raise FederationError("The message is nested too deeply.")
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
    if kind == "reader":
        return _reader(_unpacked(content[0], arrays, depth + 1), str(content[1]))
    given = {name: _unpacked(each, arrays, depth + 1) for name, each in content.items()}
    return KINDS[kind](**given)


def _reader(data: NDArray[Any], method: str) -> BatchReader:
    """Give a private estimator, by its parameters alone, and how it reads."""
    found = model_from(data)
    if not isinstance(found, PrivateEstimator) or method not in READERS:
        raise FederationError("no private estimator reads like this.")
    return BatchReader(clone(found), method, None, None)


def _checked(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
        raise FederationError("an array contains something that is not a finite number.")
    return array
