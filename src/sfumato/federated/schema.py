"""What may be asked of a party: one closed schema, read before a class is built or a row is read.

A request is JSON and arrays. `REQUESTS` lists the fields of each phase, `PARTS` those of each map,
statistic, mechanism and reader that can travel: types, sizes, magnitudes, finite numbers alone.
A field that is missing or not listed, an array that no field names and a class that is not in
`PARTS` are refused. What fields must have in common stands next to them, and what the maps and the
statistic of a sum must have is `require_safe`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from operator import lt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.exceptions import FederationError, SfumatoError
from sfumato.federated.messages import Request
from sfumato.federated.secure import Agreement, digest_of
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.models.additive_rows import (
    AdditiveScores,
    HatRows,
    HatSums,
    PairRows,
    PublicColumns,
    ScoreAndTarget,
    ScoreBins,
    SideMeans,
    Sides,
)
from sfumato.models.base import Reader
from sfumato.models.linear import WithTarget
from sfumato.models.smoothing import Cells
from sfumato.privacy.events import GaussianEvent, RepeatedEvent
from sfumato.privacy.guarantee import Relation
from sfumato.sums.gradients import (
    MAX_WEIGHTS,
    GradientSum,
    ResidualSum,
    SoftmaxLoss,
    on_weight_grid,
)
from sfumato.sums.grid import MAX_ROWS, ROW_BITS, ScoreWeights, truncate_to_grid
from sfumato.sums.maps import (
    BesideTarget,
    Centred,
    Clipped,
    IntoUnitBall,
    IntoUnitCube,
    LinearRows,
    Projected,
)
from sfumato.sums.statistics import (
    ClassCounts,
    ClassMoments,
    CountTables,
    MeanAndSquares,
    Parts,
    PlaceTree,
    SecondMoment,
    Statistic,
)
from sfumato.synthetic.cells import CellLookup, CellPlaces, ColumnCells, TableCells
from sfumato.tables.bounds import WAYS, Bounds
from sfumato.tables.schema import TableBounds

MAX_NUMBERS = 2**26  # of an array or a sum
MAX_WIDTH = 2**20
MAX_LISTED = 2**14
MAX_MAGNITUDE = 1e150  # as for bounds: squares do not overflow
MAX_SCORE_WEIGHT = 1e9
ROUNDING = 1e-9
NONE = np.empty(0)

Arrays = Mapping[str, NDArray[Any]]


@dataclass
class _Brought:
    """What fields refer to: arrays of a request, and the table bounds that a party agreed to."""

    arrays: Arrays
    table: TableBounds | None
    used: set[str] = field(default_factory=set)


Kind = Callable[[Any, _Brought], Any]


# Kinds of fields: each returns a value of its type, or refuses ----------------------------------


def _between(least: float, most: float, *, whole: bool = False) -> Kind:
    types = (int,) if whole else (int, float)  # True is not a number here

    def read(value: Any, _: _Brought) -> Any:
        if type(value) not in types or not least <= value <= most:  # NaN is not
            kind = "a whole number" if whole else "a number"
            raise FederationError(f"must be {kind} from {least:.15g} to {most:.15g}.")
        return value if whole else float(value)

    return read


def _word(*words: Any) -> Kind:
    allowed = {str(each) if isinstance(each, str) else each: each for each in words}

    def read(value: Any, _: _Brought) -> Any:
        if type(value) not in (str, bool) or value not in allowed:
            raise FederationError(f"must be one of {sorted(map(str, allowed))}.")
        return allowed[value]

    return read


def _matching(pattern: str, words: str) -> Kind:
    def read(value: Any, _: _Brought) -> str:
        if type(value) is not str or not re.fullmatch(pattern, value, re.DOTALL):
            raise FederationError(f"must be {words}.")
        return value

    return read


def _scalar(value: Any, brought: _Brought) -> Any:
    if type(value) is bool:
        return value
    if type(value) is int:
        return _between(-(2**63), 2**63, whole=True)(value, brought)
    return (_REAL if type(value) is float else _TEXT)(value, brought)


def _maybe(kind: Kind) -> Kind:
    return lambda value, brought: None if value is None else kind(value, brought)


def _list(kind: Kind, most: int = MAX_LISTED) -> Kind:
    def read(value: Any, brought: _Brought) -> tuple[Any, ...]:
        if type(value) is not list or len(value) > most:
            raise FederationError(f"must be listed, at most {most}.")
        return tuple(kind(each, brought) for each in value)

    return read


def _by_name(kind: Kind) -> Kind:
    def read(value: Any, brought: _Brought) -> dict[str, Any]:
        if type(value) is not dict or len(value) > MAX_LISTED:
            raise FederationError(f"must be given by name, at most {MAX_LISTED}.")
        return {_TEXT(name, brought): kind(each, brought) for name, each in value.items()}

    return read


def _array(n_axes: int, most: float, dtype: Any = np.float64) -> Kind:
    def read(value: Any, brought: _Brought) -> NDArray[Any]:
        found = brought.arrays.get(value) if type(value) is str else None
        if type(found) is not np.ndarray or found.dtype != dtype or found.ndim != n_axes:
            raise FederationError(f"must name an array of {n_axes} axes and type {dtype.__name__}.")
        if not (found.size <= MAX_NUMBERS and (np.abs(found) <= most).all()):  # NaN is not
            raise FederationError(f"must hold at most {MAX_NUMBERS} numbers within {most:g}.")
        brought.used.add(value)
        return np.ascontiguousarray(found)

    return read


def _record(fields: Mapping[str, Kind]) -> Kind:
    def read(value: Any, brought: _Brought) -> dict[str, Any]:
        if type(value) is not dict or value.keys() != fields.keys():
            raise FederationError(f"must have the fields {sorted(fields)} and no others.")
        found = {}
        for name, kind in fields.items():
            try:
                found[name] = kind(value[name], brought)
            except SfumatoError as error:
                raise FederationError(f"'{name}' {error}") from None
        return found

    return read


def _part(*classes: type) -> Kind:
    by_name = {each.__name__: each for each in classes}

    def read(value: Any, brought: _Brought) -> Any:
        if type(value) is not dict or len(value) != 1 or (name := next(iter(value))) not in by_name:
            raise FederationError(f"must be one of {sorted(by_name)}.")
        entry = PARTS[by_name[name]]
        found = (entry.build or by_name[name])(**_record(entry.fields)(value[name], brought))
        why = entry.check(found)
        if why:
            raise FederationError(f"{name} is refused: {why}")
        return found

    return read


def _bounds(value: Any, brought: _Brought) -> Bounds | TableBounds:
    """Read bounds of rows; those of a table are the ones that were agreed on, named by a digest."""
    if type(value) is not dict or "TableBounds" not in value:
        return _part(Bounds)(value, brought)  # type: ignore[no-any-return]
    if brought.table is None:
        raise FederationError("must be those of rows: the party has no table.")
    if value != pack(brought.table, {}):
        raise FederationError("are not the ones agreed on.")
    return brought.table


# What can travel ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Entry:
    """Fields of a class, what they must have in common, and how it is built if not by its name."""

    fields: dict[str, Kind]
    check: Callable[[Any], str]
    build: Callable[..., Any] | None


def _entry(check: Any = lambda _: "", build: Any = None, /, **fields: Kind) -> _Entry:
    return _Entry(fields, check, build)


def _reader(**given: Any) -> Reader:
    classes = given.pop("classes")
    return Reader(**given, classes=None if classes is None else np.asarray(classes))


def _reads_by_bounds(reader: Reader) -> str:
    """Labels are read by the whole public label set, and a target by its range."""
    labels = getattr(getattr(reader.bounds, "target", reader.bounds), "labels", None)
    if reader.classes is not None:
        if labels is None or isinstance(labels, str):
            return "its bounds list no labels."
        if not np.array_equal(reader.classes, Bounds(labels=labels).clip_labels(())[1]):
            return "its classes are not the labels of its bounds."
    if reader.target is None:
        return ""
    if len(reader.target) != 4:
        return "its target needs four numbers."
    low, high, origin, unit = reader.target  # it comes within -1 and 1
    fits = low < high and max(abs(low - origin), abs(high - origin)) <= unit * (1 + ROUNDING)
    return "" if fits else "its target is not within its unit."


def _has_ranges(columns: PublicColumns) -> str:
    n = columns.width
    same = len(columns.lower) == len(columns.upper) == len(columns.categories) == n > 0
    fits = same and len(columns.units) in (0, n) and all(each != () for each in columns.categories)
    is_range = fits and all(columns.lower[i] < columns.upper[i] for i in columns.numeric)
    return "" if is_range else "its ranges are not valid."


def _has_box(cells: Cells) -> str:
    same = len(cells.lower) == len(cells.upper) == len(cells.shape) > 0
    return "" if same and all(map(lt, cells.lower, cells.upper)) else "its box is empty."


def _has_edges(cells: TableCells) -> str:
    """Among edges that do not ascend, where a value is found depends on the value before it."""
    ascend = all(e is None or (len(e) > 1 and list(e) == sorted(e)) for e in cells.edges)
    return "" if ascend and len(cells.columns) == len(cells.edges) > 0 else "its edges must ascend."


def _has_tables(lookup: CellLookup) -> str:
    fits = len(lookup.places) == len(lookup.tables) > 0 and all(lookup.tables)
    return "" if fits else "it needs one table for each place."


def _has_knots(hats: HatRows) -> str:
    knots = hats.knots
    fits = len(knots) == len(hats.columns.numeric) and knots.shape[1] >= 2
    is_fine = fits and (np.diff(knots, axis=1) > 0).all() and (knots >= 0).all()
    return "" if is_fine else "its knots must ascend from 0 to 1."


def _has_orders(rows: PairRows | Sides) -> str:
    """On this grid, products of hats and orders are exact and no row depends on others."""
    listed = rows.pairs if isinstance(rows, PairRows) else np.array(rows.columns, dtype=np.intp)
    fits = rows.orders.shape == (rows.hats.width,)
    fits = fits and np.array_equal(truncate_to_grid(rows.orders, ROW_BITS), rows.orders)
    fits = fits and (listed.ndim == 1 or listed.shape[1] == 2)
    inside = fits and ((listed >= 0) & (listed < rows.hats.columns.width)).all()
    return "" if inside else "its orders or pairs do not fit its columns."


def _has_weights(scores: AdditiveScores) -> str:
    fits = scores.coef.shape == (len(scores.intercept), scores.rows.width) and len(scores.coef)
    return "" if fits else "its weights do not fit its rows."


def _is_in_ball(row_map: Centred | Projected) -> str:
    if np.linalg.norm(row_map.mean) > 1 + ROUNDING:
        return "its mean is outside the unit ball."
    return _keeps_lengths(row_map.basis) if isinstance(row_map, Projected) else ""


def _keeps_lengths(matrix: NDArray[np.float64] | None) -> str:
    if matrix is None or _longest(matrix.tobytes(), matrix.shape) <= 1 + ROUNDING:
        return ""
    return "its matrix lengthens rows."


@lru_cache(maxsize=4)
def _longest(data: bytes, shape: tuple[int, ...]) -> float:
    """Return the largest singular value; a descent sends one projection with every gradient."""
    return float(np.linalg.norm(np.frombuffer(data).reshape(shape), ord=2)) if data else 0.0


def _has_parts(statistic: ClassMoments) -> str:
    if not (statistic.constant * 256).is_integer():
        return "its constant must be a multiple of 2**-8."
    parts, shape = statistic.parts, (statistic.n_classes, statistic.width)
    if parts is not None and (parts.means.shape != shape or parts.axes.shape[:2] != shape):
        return "its parts do not fit the classes."
    return "" if parts is None or parts.axes.shape[2] <= 8 else "it has too many parts."


def _has_columns(statistic: CountTables) -> str:
    inside = all(column < len(statistic.sizes) for table in statistic.tables for column in table)
    return "" if inside and statistic.tables else "its tables name no columns of it."


def _has_gradient(statistic: GradientSum | ResidualSum) -> str:
    """Weights must lie on the grid on which scores are exact; single rows round them themselves."""
    if np.linalg.norm(statistic.weights, axis=1).max(initial=0.0) > MAX_WEIGHTS:
        return "its weights are too long for exact scores."
    is_coarse = isinstance(statistic, GradientSum) and statistic.slope_bits < ROW_BITS
    weights = statistic.weights
    on_grid = ScoreWeights(weights).rounded if is_coarse else on_weight_grid(weights)
    return "" if np.array_equal(on_grid, weights) else "its weights do not lie on their grid."


_SIZE = _between(1, MAX_WIDTH, whole=True)
_PLACES = _list(_between(0, MAX_WIDTH, whole=True))
_SIZES = _list(_SIZE)
_FLAG = _word(True, False)
_TEXT = _matching("[^\ud800-\udfff]{0,1024}", "a text of at most 1024 characters")
_HEX_64 = _matching("[0-9a-f]{64}", "64 hexadecimal digits")
_HEX_128 = _matching("[0-9a-f]{128}", "128 hexadecimal digits")
_REAL = _between(-MAX_MAGNITUDE, MAX_MAGNITUDE)
_REALS = _list(_REAL)
_POSITIVE = _between(ROUNDING, 1 / ROUNDING)
_CLASSES = _between(2, MAX_WIDTH, whole=True)
_MULTIPLIER = _between(1e-9, 1e9)
_RADIUS = _between(1e-6, 2.0)
_RELATION = _word(*Relation)
_COUNT = _between(0, MAX_LISTED, whole=True)


def _corner(value: Any, brought: _Brought) -> Any:
    return (_REALS if type(value) is list else _REAL)(value, brought)


_GRADIENT = {"max_gradient_norm": _between(2.0**-20, 1.999), "weights": _array(2, MAX_WEIGHTS)}

PARTS: dict[type, _Entry] = {
    # Public facts, how records are read by them, and noise
    Bounds: _entry(
        norm=_maybe(_REAL),
        lower=_maybe(_corner),
        upper=_maybe(_corner),
        labels=_maybe(_list(_scalar)),
        person_rows=_maybe(_SIZE),
        per_person=_word(*WAYS),
    ),
    Reader: _entry(
        _reads_by_bounds,
        _reader,
        bounds=_bounds,
        scaled=_FLAG,
        as_cells=_FLAG,
        classes=_maybe(_list(_scalar)),
        target=_maybe(_list(_REAL, 4)),
    ),
    PublicColumns: _entry(
        _has_ranges,
        names=_list(_TEXT),
        lower=_REALS,
        upper=_REALS,
        categories=_list(_maybe(_list(_scalar))),
        units=_list(_TEXT),
    ),
    GaussianEvent: _entry(noise_multiplier=_MULTIPLIER),
    RepeatedEvent: _entry(event=_part(GaussianEvent), count=_between(1, 10**6, whole=True)),
    GaussianMechanism: _entry(sensitivity=_POSITIVE, noise_multiplier=_MULTIPLIER),
    # Maps that are told how rows lie
    Clipped: _entry(bounds=_bounds, width=_SIZE),
    IntoUnitBall: _entry(bounds=_part(Bounds), width=_SIZE),
    IntoUnitCube: _entry(bounds=_part(Bounds), width=_SIZE),
    WithTarget: _entry(into_ball=_part(IntoUnitBall)),
    Cells: _entry(_has_box, lower=_REALS, upper=_REALS, shape=_SIZES, may_be_missing=_FLAG),
    ColumnCells: _entry(
        lambda each: "" if each.lower < each.upper else "its range is empty.",
        name=_TEXT,
        n_categories=_between(0, MAX_WIDTH, whole=True),
        lower=_REAL,
        upper=_REAL,
        is_whole=_FLAG,
        edges=_maybe(_REALS),
        may_be_missing=_FLAG,
        is_fine=_FLAG,
    ),
    CellPlaces: _entry(columns=_list(_part(ColumnCells))),
    TableCells: _entry(_has_edges, columns=_list(_part(ColumnCells)), edges=_list(_maybe(_REALS))),
    CellLookup: _entry(
        _has_tables,
        places=_PLACES,
        tables=_list(_REALS),
        radius=_maybe(_between(ROUNDING, MAX_MAGNITUDE)),
    ),
    # Maps of rows in the unit ball, and of cells into it
    Centred: _entry(_is_in_ball, mean=_array(1, 1.1), radius=_RADIUS),
    Projected: _entry(_is_in_ball, mean=_array(1, 1.1), basis=_array(2, 1.1), radius=_RADIUS),
    LinearRows: _entry(
        lambda each: _keeps_lengths(each.projection),
        n_features=_SIZE,
        intercept=_FLAG,
        projection=_maybe(_array(2, 1.1)),
        unit_length=_FLAG,
        constant=_between(0.0, 2.0**10),
        radius=_maybe(_between(ROUNDING, MAX_MAGNITUDE)),
    ),
    HatRows: _entry(_has_knots, columns=_part(PublicColumns), knots=_array(2, 1.0)),
    PairRows: _entry(
        _has_orders,
        hats=_part(HatRows),
        orders=_array(1, 1.0),
        pairs=_array(2, MAX_WIDTH, np.int64),
    ),
    Sides: _entry(
        _has_orders, hats=_part(HatRows), orders=_array(1, 1.0), columns=_PLACES, has_target=_FLAG
    ),
    AdditiveScores: _entry(
        _has_weights,
        rows=_part(PairRows),
        coef=_array(2, MAX_SCORE_WEIGHT),
        intercept=_array(1, MAX_SCORE_WEIGHT),
    ),
    ScoreBins: _entry(scores=_part(AdditiveScores)),
    ScoreAndTarget: _entry(
        lambda each: "" if each.low + ROUNDING < each.high else "its target has no range.",
        scores=_part(AdditiveScores),
        middle=_between(-MAX_SCORE_WEIGHT, MAX_SCORE_WEIGHT),
        reach=_POSITIVE,
        low=_between(0.0, 1.0),
        high=_between(0.0, 1.0),
    ),
    BesideTarget: _entry(
        row_map=_part(HatRows, PairRows, PublicColumns, IntoUnitBall, LinearRows),
        has_target=_FLAG,
        centre=_REAL,
        scale=_between(ROUNDING, MAX_MAGNITUDE),
    ),
    # Statistics
    ClassCounts: _entry(n_classes=_SIZE),
    CountTables: _entry(_has_columns, sizes=_SIZES, tables=_list(_PLACES), n_classes=_SIZE),
    PlaceTree: _entry(columns=_PLACES),
    SideMeans: _entry(n_columns=_between(2, 2**10, whole=True)),
    HatSums: _entry(n_classes=_SIZE, width=_SIZE, has_target=_FLAG),
    MeanAndSquares: _entry(width=_SIZE),
    SecondMoment: _entry(width=_SIZE),
    Parts: _entry(means=_array(2, 2.0), axes=_array(3, 2.0)),
    ClassMoments: _entry(
        _has_parts,
        n_classes=_SIZE,
        width=_SIZE,
        constant=_between(2.0**-8, 1.0),
        parts=_maybe(_part(Parts)),
    ),
    SoftmaxLoss: _entry(n_classes=_CLASSES),
    GradientSum: _entry(
        _has_gradient,
        loss=_part(SoftmaxLoss),
        **_GRADIENT,
        slope_bits=_between(1, ROW_BITS, whole=True),
    ),
    ResidualSum: _entry(_has_gradient, **_GRADIENT, slope_bits=_between(1, ROW_BITS, whole=True)),
    # A secure sum
    Agreement: _entry(
        task=_TEXT,
        number=_between(0, 10**6, whole=True),
        parties=_by_name(_HEX_64),
        size=_between(1, MAX_NUMBERS, whole=True),
        largest=_between(0, 2**63, whole=True),
        statistic=_HEX_64,
        colluding=_COUNT,
        dropouts=_COUNT,
    ),
}
_INTO_BALL = (IntoUnitBall, HatRows, PairRows, WithTarget, ScoreAndTarget)  # whatever rows are
_INSIDE_BALL = (Centred, Projected, LinearRows)  # of rows that are in it
_NO_MAPS = (AdditiveScores, Reader)
MAPS = tuple(kind for kind in PARTS if "__call__" in vars(kind) and kind not in _NO_MAPS)
STATISTICS = tuple(kind for kind in PARTS if issubclass(kind, Statistic))

SUM: dict[str, Kind] = {
    "maps": _list(_part(*MAPS), 8),
    "statistic": _part(*STATISTICS),
    "mechanism": _part(GaussianMechanism),
    "relation": _RELATION,
    "max_rows": _between(1, MAX_ROWS, whole=True),
    "kept": _word("", "rows", "singles"),
    "reader": _part(Reader),
}
_BEGIN: dict[str, Kind] = {
    "events": _list(_part(GaussianEvent, RepeatedEvent), 2**10),
    "bounds": _bounds,
    "relation": _RELATION,
}
_SESSION = _matching("[0-9a-f]{16}", "16 hexadecimal digits")
_BOX = _matching("[0-9a-f]{296}", "296 hexadecimal digits")
_STEP: dict[str, Kind] = {"agreement": _part(Agreement), "session": _SESSION}
_ADVERT = _record({"cipher": _HEX_64, "mask": _HEX_64, "signature": _HEX_128})
REQUESTS: dict[str, Kind] = {
    name: _record(fields)
    for name, fields in {
        "sums.describe": {"relation": _RELATION, "trust": _word("noisy", "secure"), "table": _FLAG},
        "sums.check": _BEGIN,
        "sums.begin": _BEGIN,
        "sums.release": SUM,
        "sums.advertise": _STEP,
        "sums.share": {**_STEP, "adverts": _by_name(_ADVERT)},
        "sums.mask": {**_STEP, "boxes": _by_name(_BOX), "sum": _record(SUM)},
        "sums.confirm": {**_STEP, "included": _list(_TEXT)},
        "sums.reveal": {**_STEP, "signatures": _by_name(_HEX_128)},
    }.items()
}
_ONE_SUM = frozenset(REQUESTS) - {"sums.describe", "sums.check", "sums.begin"}


# To a party, and at one --------------------------------------------------------------------------


def pack(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """Return a value as JSON; its arrays are put aside, under the names that stand for them."""
    if type(value) is float and not math.isfinite(value):
        raise FederationError("A number that is not finite cannot be sent to parties.")
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, StrEnum):
        return str(value)
    if isinstance(value, np.generic):
        return pack(value.item(), arrays)
    if type(value) is np.ndarray:
        name = str(len(arrays))
        arrays[name] = value.astype(np.int64 if value.dtype.kind in "iu" else np.float64)
        return name
    if isinstance(value, Mapping):
        return {name: pack(each, arrays) for name, each in value.items()}
    if isinstance(value, Sequence):
        return [pack(each, arrays) for each in value]
    if isinstance(value, TableBounds):
        return {"TableBounds": digest_of(value.to_record())}  # a party has agreed to them before
    if isinstance(value, Reader) and isinstance(value.classes, np.ndarray):
        value = replace(value, classes=value.classes.tolist())
    name = type(value).__name__
    if type(value) not in PARTS:
        raise FederationError(f"{name} cannot be sent to parties.")
    return {name: {each: pack(getattr(value, each), arrays) for each in PARTS[type(value)].fields}}


@dataclass(frozen=True)
class Asked:
    """A request that was read.

    request: As it came.
    phase: Without the number of a sum.
    number: Of the sum that it is about; each phase and number is answered once.
    settings: By name, each of the type in `REQUESTS`.
    """

    request: Request
    phase: str
    number: int
    settings: dict[str, Any]


def read_request(request: Request, table: TableBounds | None) -> Asked:
    """Return what is asked for, or refuse it; nothing else has looked at the request before."""
    brought = _Brought(request.arrays, table)
    try:
        _TEXT(request.task, brought)
        phase, _, tail = _TEXT(request.phase, brought).rpartition(".")
        # [Y11] a number has one spelling, or a sum could be asked for twice
        if phase in _ONE_SUM and len(tail) <= 6 and tail.isdecimal() and tail == str(int(tail)):
            number = int(tail)
        elif request.phase in REQUESTS and request.phase not in _ONE_SUM:
            phase, number = request.phase, 0
        else:
            raise FederationError("its phase is not known here.")
        if type(brought.arrays) is not dict:
            raise FederationError("The arrays must be given by name.")
        settings = REQUESTS[phase](request.settings, brought)  # [Y13]
        if set(brought.arrays) != brought.used:
            raise FederationError("It brings arrays that no field refers to.")
    except SfumatoError as error:
        raise FederationError(f"The request is refused: {error}") from None
    return Asked(request, phase, number, settings)


def require_safe(
    maps: Sequence[Any], statistic: Any, *, relation: Relation, n_classes: int
) -> None:
    """Refuse sums whose terms could depend on other records, or that fail for some records only."""
    # How many first numbers of a mapped row lie in the unit ball: products with them are exact;
    # with others, a row would depend on its place.
    n_first, has_target, last = 0, False, None
    for each in maps:
        last = each.row_map if isinstance(each, BesideTarget) else each
        beside = isinstance(each, BesideTarget) and each.has_target
        if isinstance(last, _INSIDE_BALL) and (not n_first or has_target != beside):
            raise FederationError("Rows must be moved into the unit ball by their bounds first.")
        is_inside = isinstance(last, (*_INTO_BALL, *_INSIDE_BALL))
        is_inside |= isinstance(last, CellLookup) and last.radius is not None
        n_first = last.width if is_inside else 0
        has_target = beside
    if statistic.in_ball > n_first:
        raise FederationError("The rows of a sum must be mapped into the unit ball.")
    if isinstance(statistic, GradientSum | ResidualSum) and not isinstance(last, LinearRows):
        raise FederationError("The rows of a gradient must lie on the grid of linear rows.")
    is_split = isinstance(statistic, HatSums) and statistic.has_target  # below and above 0
    found = 2 if is_split else n_classes
    given = getattr(getattr(statistic, "loss", statistic), "n_classes", found)
    if isinstance(statistic, CountTables) and given == 1:
        given = found  # classes are not told apart
    if given != found:  # a sum that fails for a class tells of it
        raise FederationError(
            f"{type(statistic).__name__} has {given} classes; the records have {found}."
        )
    if statistic.size > MAX_NUMBERS or not math.isfinite(statistic.term_sensitivity(relation)):
        raise FederationError("The sum is too large.")
