"""Bad cells, records and labels: a public default, silently, in every estimator.

An error, a warning or a changed answer for the other rows would tell that such a record is there.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from sklearn.base import clone

import sfumato as sf
from sfumato.audit.testing.taint import fit
from sfumato.exceptions import InvalidInputError
from sfumato.mechanisms.base import Released, taped
from sfumato.models.base import PrivateEstimator
from sfumato.tables.cells import as_number, as_rows
from tests.test_common import CASES, INSTANCES


class Strange:
    """An object none of whose conversions and comparisons works."""

    def __float__(self) -> float:
        raise RuntimeError("no number")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not comparable")

    def __hash__(self) -> int:
        return 1

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("no array")


class Exhausting:
    def __float__(self) -> float:
        return float(self)


ODD_CELLS: list[Any] = [
    pd.NA,
    pd.NaT,
    None,
    10**400,
    -(10**400),
    Fraction(10**400, 3),
    "text",
    "",
    b"\xff",
    Decimal("sNaN"),
    Decimal("NaN"),
    1 + 2j,
    np.complex128(1 + 2j),
    datetime.date(2020, 1, 1),
    np.datetime64("2020-01-01"),
    np.timedelta64(1, "s"),
    np.datetime64("2020-01-01", "ns"),
    np.timedelta64(1, "ns"),
    pd.Timestamp("2020-01-01"),
    [1.0, 2.0],
    {},
    np.ones(2),
    Strange(),
    Exhausting(),
    float("nan"),
    float("inf"),
]
ODD_RECORDS: list[Any] = [[], [0.1], [0.1] * 99, None, 0.5, "text", {}, Strange(), np.ones((2, 2))]
ODD_LABELS: list[Any] = [
    None,
    np.nan,
    np.inf,
    77,
    "text",
    b"\xff",
    [0, 1],
    {},
    Strange(),
    pd.NA,
    1j,
]


# Cells --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", ODD_CELLS, ids=lambda cell: repr(cell)[:20])
def test_a_cell_that_is_no_number_is_missing(cell: Any) -> None:
    assert not np.isfinite(as_number(cell))


NUMBERS = st.floats(allow_nan=False, width=64) | st.integers(-(2**70), 2**70) | st.booleans()
RECORDS = st.lists(st.lists(NUMBERS, min_size=3, max_size=3), min_size=2, max_size=5)


@given(records=RECORDS, odd=st.sampled_from(ODD_CELLS), place=st.integers(0, 2))
def test_an_odd_cell_touches_no_other_whatever_type_the_container_takes(
    records: list[list[Any]], odd: Any, place: int
) -> None:
    expected = as_rows(records)
    expected[0, place] = as_number(odd)
    spoilt = [list(record) for record in records]
    spoilt[0][place] = odd
    containers = [spoilt, [tuple(record) for record in spoilt], pd.DataFrame(spoilt)]
    if not isinstance(odd, list | np.ndarray | Strange):
        as_objects = np.empty((len(spoilt), 3), dtype=object)
        as_objects[:] = spoilt
        containers.append(as_objects)
    for container in containers:
        np.testing.assert_array_equal(as_rows(container), expected)


@pytest.mark.parametrize("odd", ["text", 1j, None], ids=repr)
def test_an_array_that_one_cell_has_turned_into_another_type_keeps_its_numbers(odd: Any) -> None:
    plain = [[0.1, 2.0], [3.0, 1 / 3]]
    spoilt = np.array([*plain, [odd, 1.0]])
    assert spoilt.dtype.kind in "UcO"
    np.testing.assert_array_equal(as_rows(spoilt)[:2], plain)


@pytest.mark.parametrize("odd", ODD_RECORDS, ids=lambda odd: type(odd).__name__)
@pytest.mark.parametrize("declared", [None, 2])
def test_an_odd_record_is_missing_altogether(odd: Any, declared: int | None) -> None:
    rows = as_rows([[1, 2], odd, [3, 4]], declared)
    np.testing.assert_array_equal(rows, [[1, 2], [np.nan, np.nan], [3, 4]])


# Fits ---------------------------------------------------------------------------------------------

FITTED = [
    pytest.param(case, id=f"{name}-{i}")
    for name, cases in CASES.items()
    for i, case in enumerate(cases)
]
Container = Callable[[list[list[Any]]], Any]


def as_objects(rows: list[list[Any]]) -> np.ndarray:
    """An array of objects, filled cell by cell, as NumPy itself would try to unpack some."""
    cells = np.empty((len(rows), len(rows[0])), dtype=object)
    for place, row in enumerate(rows):
        for column, cell in enumerate(row):
            cells[place, column] = cell
    return cells


def has_no_width(case: Any) -> bool:
    bounds = case.estimator.bounds
    return isinstance(bounds, sf.Bounds) and bounds.n_features is None


def with_width(case: Any) -> Any:
    """Declare how many features there are, by bounds that cut nothing off."""
    estimator, bounds = clone(case.estimator), case.estimator.bounds
    if not has_no_width(case):
        return estimator
    low, high = (
        (-bounds.norm, bounds.norm) if bounds.lower is None else (bounds.lower, bounds.upper)
    )
    width = case.X.shape[1]
    return estimator.set_params(bounds=replace(bounds, lower=[low] * width, upper=[high] * width))


CONTAINERS: list[Container] = [list, as_objects, pd.DataFrame]


def statistics(estimator: Any, X: Any, y: Any) -> list[Released]:
    with taped() as tape:
        fit(clone(estimator), X, y)
    return tape.releases


def same_statistics(first: list[Released], second: list[Released]) -> bool:
    if len(first) != len(second):
        return False
    return all(_same(a.statistic, b.statistic) for a, b in zip(first[:1], second[:1], strict=True))


def has_label_set(case: Any) -> bool:
    return (
        case.y is not None
        and case.estimator.array_bounds.labels is not None
        and not isinstance(case.estimator, sf.PrivateKernelRegressor)
    )


def _same(a: Any, b: Any) -> bool:
    if a.dtype != object:
        return bool(a.tobytes() == b.tobytes())
    a, b = a.item(), b.item()  # an objective: its rows tell all
    return np.asarray(a.rows[:]).tobytes() == np.asarray(b.rows[:]).tobytes()


@pytest.mark.filterwarnings("ignore:delta=")
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.filterwarnings("ignore::sfumato.exceptions.RefutedGuaranteeWarning")
@pytest.mark.filterwarnings("ignore:By the released counts")
@pytest.mark.parametrize("case", FITTED)
def test_odd_cells_are_missing_cells_for_every_estimator(case: Any) -> None:
    n = len(ODD_CELLS) + 12
    X, y = case.X[:n].copy(), None if case.y is None else case.y[:n]
    rows = X.tolist()
    for place, cell in enumerate(ODD_CELLS):
        rows[place][1], X[place, 1] = cell, as_number(cell)
    estimator = with_width(case)
    expected = statistics(estimator, X, y)
    # Readers of tables by names take no other: see `tests/tables`.
    has_names = case.estimator.array_bounds is not case.estimator.bounds
    containers = CONTAINERS[:2] if has_names else CONTAINERS
    for container in containers:
        assert same_statistics(statistics(estimator, container(rows), y), expected)


@pytest.mark.filterwarnings("ignore:delta=")
@pytest.mark.filterwarnings("ignore::sfumato.exceptions.RefutedGuaranteeWarning")
@pytest.mark.filterwarnings("ignore:By the released counts")
@pytest.mark.parametrize("case", FITTED)
def test_odd_records_are_missing_records_for_every_estimator(case: Any) -> None:
    n = len(ODD_RECORDS) + 12
    X, y = case.X[:n].copy(), None if case.y is None else case.y[:n]
    rows: list[Any] = X.tolist()
    for place, record in enumerate(ODD_RECORDS):
        rows[place], X[place] = record, np.nan
    estimator = with_width(case)
    assert same_statistics(statistics(estimator, rows, y), statistics(estimator, X, y))


@pytest.mark.filterwarnings("ignore:delta=")
@pytest.mark.filterwarnings("ignore::sfumato.exceptions.RefutedGuaranteeWarning")
@pytest.mark.parametrize("case", [c for c in FITTED if has_no_width(c.values[0])])
def test_no_record_of_a_list_tells_the_width_of_the_others(case: Any) -> None:
    """Neither most of the records nor the first may, so that such lists are always refused."""
    X, y = case.X[:12].tolist(), None if case.y is None else case.y[:12]
    ragged = [[0.1], *X[1:6], *([0.1] for _ in range(6))]
    for rows in (X, ragged, [None, *X[1:]], tuple(X), as_objects([[row] for row in X])[:, 0]):
        with taped() as tape, pytest.raises(InvalidInputError, match="does not fix the number"):
            fit(clone(case.estimator), rows, y)
        assert not tape.releases


@pytest.mark.filterwarnings("ignore:delta=")
@pytest.mark.filterwarnings("ignore::sfumato.exceptions.RefutedGuaranteeWarning")
@pytest.mark.filterwarnings("ignore:By the released counts")
@pytest.mark.parametrize("case", [c for c in FITTED if has_label_set(c.values[0])])
def test_a_record_without_a_label_adds_nothing_in_any_estimator(case: Any) -> None:
    estimator, n_odd = case.estimator, len(ODD_LABELS)
    X, y = case.X[: n_odd + 12], case.y[: n_odd + 12]
    other = X.copy()
    if not isinstance(estimator, sf.EntryHullClassifier):  # whose rows are released, one by one
        other[:n_odd] = X[12 : n_odd + 12]
    expected = statistics(
        estimator, other, as_objects([[None]] * n_odd + [[a] for a in y[n_odd:]])[:, 0]
    )
    labels = [*ODD_LABELS, *y[n_odd:].tolist()]
    objects = as_objects([[label] for label in labels])[:, 0]
    for column in (labels, tuple(labels), objects):
        assert same_statistics(statistics(estimator, X, column), expected)


def test_labels_are_the_same_in_every_type_of_batch() -> None:
    bounds = sf.Bounds(norm=1.0, labels=[2**53, 2**53 + 2, 7])
    values = [2**53, 2**53 + 1, 2**53 + 2, 7, 8]
    expected = bounds.clip_labels(values)[0]
    np.testing.assert_array_equal(expected, [1, 1, 2, 0, 0])
    for column in (np.array(values), np.array(values, float), np.array([*values, None])[:-1]):
        np.testing.assert_array_equal(bounds.clip_labels(column)[0], expected)


def test_odd_targets_are_the_middle_of_their_range() -> None:
    (case,) = CASES["PrivateKernelRegressor"]
    n = len(ODD_CELLS) + 12
    y = case.y[:n].astype(float)
    targets = y.tolist()
    for place, cell in enumerate(ODD_CELLS):
        targets[place], y[place] = cell, 0.5
    expected = statistics(case.estimator, case.X[:n], y)
    assert same_statistics(statistics(case.estimator, case.X[:n], targets), expected)


# Answers ------------------------------------------------------------------------------------------

METHODS = [
    "predict",
    "predict_proba",
    "decision_function",
    "transform",
    "score_samples",
    "density",
    "class_densities",
    "distances",
    "matching_score",
    "terms",
]
ODD_NUMBERS = [np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-320]
ODD_ROWS = [*ODD_NUMBERS, "text", None, 10**400, Strange()]
READS_CELLS = (
    PrivateEstimator,
    sf.PrivateImageClassifier,
    sf.PrivateSearchCV,
    sf.TableEncoder,
    sf.HOGFeatures,
    sf.RandomPatchFeatures,
    sf.RandomProcessFeatures,
    sf.ScatteringFeatures,
)


def answers(model: Any, method: str, X: Any) -> np.ndarray:
    found = getattr(model, method)(X)
    if isinstance(found, dict):
        found = np.stack([np.asarray(each, dtype=float) for each in found.values()], axis=-1)
    return np.asarray(found)


def small_data() -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).uniform(-1, 1, size=(40, 4))
    return X, (X[:, 0] > 0).astype(int)


def check_answers(model: Any, X: np.ndarray, odd_rows: list[Any], tolerance: float = 0.0) -> None:
    """An odd row is answered with numbers, without a word, and changes no other answer."""
    others = np.arange(len(X)) != 3
    for method in METHODS:
        if not hasattr(model, method):
            continue
        plain = answers(model, method, X)
        for odd in odd_rows:
            spoilt = as_objects(X.tolist())
            spoilt[3, 0] = odd
            found = answers(
                model, method, spoilt.astype(float) if isinstance(odd, float) else spoilt
            )
            assert found.shape == plain.shape
            if plain.dtype.kind != "f":
                np.testing.assert_array_equal(found[others], plain[others])
                continue
            np.testing.assert_allclose(found[others], plain[others], rtol=0, atol=tolerance)
            hands_on = method == "score_samples" or isinstance(model, sf.TableEncoder)
            assert hands_on or np.isfinite(found).all(), f"{method} of {odd!r}"


@pytest.mark.filterwarnings("ignore:delta=")
@pytest.mark.parametrize("name", [n for n, e in INSTANCES.items() if isinstance(e, READS_CELLS)])
def test_answers_to_odd_rows_are_silent_and_touch_no_other_row(name: str) -> None:
    X, y = small_data()
    check_answers(clone(INSTANCES[name]).fit(X, y), X[:12], ODD_ROWS)


@pytest.mark.parametrize(
    "name",  # an encoder hands missing numbers on, as missing
    [n for n, e in INSTANCES.items() if not isinstance(e, (*READS_CELLS, sf.TableEncoder))],
)
def test_without_privacy_huge_and_tiny_numbers_are_answered_and_others_refused(name: str) -> None:
    X, y = small_data()
    model = clone(INSTANCES[name]).fit(X, y)
    # Rows that go to one branch are multiplied together; their number changes the last bits.
    check_answers(model, X[:12], [1e308, -1e308, 1e-320], tolerance=1e-12)
    spoilt = X[:12].copy()
    for odd in (np.nan, np.inf):
        spoilt[3, 0] = odd
        for method in METHODS:
            if hasattr(model, method):
                with pytest.raises(ValueError, match=r"NaN|infinity"):
                    getattr(model, method)(spoilt)
