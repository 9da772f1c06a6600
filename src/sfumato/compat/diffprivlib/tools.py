"""Counts, means and variances of one column under pure epsilon, with diffprivlib's signatures.

Records are rows, and their number is public (one is replaced), but for histograms and
`count_nonzero`, where one is added or removed, as in diffprivlib.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting.receipt import prepay
from sfumato.compat.diffprivlib.accountant import Bill, BudgetAccountant
from sfumato.exceptions import InvalidInputError, MissingBoundsError, UnsupportedModeError
from sfumato.guarantee import Relation, Unit
from sfumato.mechanisms.laplace import LaplaceMechanism
from sfumato.sums.counts import CountTables, Powers
from sfumato.sums.records import ArrayRecords
from sfumato.sums.statistics import Statistic
from sfumato.tables.cells import as_cells, as_numbers, as_rows

__all__ = [
    "count_nonzero",
    "histogram",
    "histogram2d",
    "histogramdd",
    "mean",
    "std",
    "sum",
    "var",
]

Numbers = NDArray[np.float64]
Account = BudgetAccountant | None
MOST_CELLS = 10**7


def mean(
    array: Any,
    epsilon: float = 1.0,
    bounds: Any = None,
    axis: int | None = None,
    accountant: Account = None,
    **unused: Any,
) -> Any:
    """Give the mean with Laplace noise.

    Parameters
    ----------
    array : array-like of shape (n,) or (n, k)
        A record per row.
    epsilon : float, default=1.0
        Pure epsilon.
    bounds : tuple
        Public ``(lower, upper)``, numbers or one per column; required.
    axis : {None, 0}, default=None
        None, the mean of all cells; 0, one per column, which share epsilon.
    accountant : BudgetAccountant, optional
        Who pays.
    **unused : object
        Parameters of diffprivlib without effect here: dtype, keepdims, random_state.

    Returns
    -------
    float or ndarray
        The noisy mean, inside the bounds.
    """
    rows, lower, upper = _columns(array, bounds, axis, unused, may_average=True)
    found = _moments(rows, lower, upper, epsilon, accountant, order=1)
    return _given(found[:, 0], axis)


def var(
    array: Any,
    epsilon: float = 1.0,
    bounds: Any = None,
    axis: int | None = None,
    accountant: Account = None,
    **unused: Any,
) -> Any:
    """Give the variance with Laplace noise; parameters as in `mean`, one column or ``axis=0``.

    Parameters
    ----------
    array, epsilon, bounds, axis, accountant, **unused
        As in `mean`.

    Returns
    -------
    float or ndarray
        The noisy variance, not negative.
    """
    rows, lower, upper = _columns(array, bounds, axis, unused)
    return _given(_moments(rows, lower, upper, epsilon, accountant, order=2)[:, 1], axis)


def std(
    array: Any,
    epsilon: float = 1.0,
    bounds: Any = None,
    axis: int | None = None,
    accountant: Account = None,
    **unused: Any,
) -> Any:
    """Give the standard deviation with Laplace noise: the root of `var`.

    Parameters
    ----------
    array, epsilon, bounds, axis, accountant, **unused
        As in `mean`.

    Returns
    -------
    float or ndarray
        The noisy deviation.
    """
    return np.sqrt(var(array, epsilon, bounds, axis, accountant, **unused))


def sum(  # noqa: A001 - diffprivlib's name
    array: Any,
    epsilon: float = 1.0,
    bounds: Any = None,
    axis: int | None = None,
    accountant: Account = None,
    **unused: Any,
) -> Any:
    """Give the sum with Laplace noise, the public number of rows times the mean.

    Parameters
    ----------
    array, epsilon, bounds, axis, accountant, **unused
        As in `mean`.

    Returns
    -------
    float or ndarray
        The noisy sum.
    """
    rows, lower, upper = _columns(array, bounds, axis, unused)
    found = _moments(rows, lower, upper, epsilon, accountant, order=1)
    return _given(len(rows) * found[:, 0], axis)


def count_nonzero(
    array: Any, epsilon: float = 1.0, accountant: Account = None, **unused: Any
) -> int:
    """Give the number of records that are not 0, with Laplace noise, rounded.

    Parameters
    ----------
    array : array-like of shape (n,)
        One cell per record, such as ``ages > 60``.
    epsilon : float, default=1.0
        Pure epsilon; one record is added or removed.
    accountant : BudgetAccountant, optional
        Who pays.
    **unused : object
        As in `mean`.

    Returns
    -------
    int
        The noisy count, not negative.
    """
    _check_unused(unused)
    cells = (np.nan_to_num(_one_column(array)) != 0).astype(np.float64)
    found = _counted(cells, 2, epsilon, accountant)
    return max(0, round(float(found[1])))


def histogram(
    sample: Any,
    epsilon: float = 1.0,
    bins: Any = 10,
    range: tuple[float, float] | None = None,  # noqa: A002 - diffprivlib's and NumPy's word
    density: bool | None = None,
    accountant: Account = None,
    **unused: Any,
) -> tuple[Numbers, Numbers]:
    """Give counts of bins with Laplace noise, and the edges.

    Parameters
    ----------
    sample : array-like of shape (n,)
        One number per record; those outside of the edges are not counted.
    epsilon : float, default=1.0
        Pure epsilon; one record is added or removed.
    bins : int or array-like, default=10
        How many bins, or their public edges.
    range : tuple, optional
        Public ``(lower, upper)``; required unless `bins` holds edges.
    density : bool, optional
        Give a density instead of counts.
    accountant : BudgetAccountant, optional
        Who pays.
    **unused : object
        As in `mean`; weights are refused.

    Returns
    -------
    tuple of ndarray
        Noisy counts, rounded and not negative, and the edges.
    """
    numbers = _one_column(sample)[:, None]
    counts, (edges,) = histogramdd(
        numbers, epsilon, [bins] if np.ndim(bins) else bins, [range], density, accountant, **unused
    )
    return counts, edges


def histogram2d(
    array_x: Any,
    array_y: Any,
    epsilon: float = 1.0,
    bins: Any = 10,
    range: Any = None,  # noqa: A002 - diffprivlib's and NumPy's word
    density: bool | None = None,
    accountant: Account = None,
    **unused: Any,
) -> tuple[Numbers, Numbers, Numbers]:
    """Give counts of pairs of bins with Laplace noise, and the edges of both columns.

    Parameters
    ----------
    array_x, array_y : array-like of shape (n,)
        Two numbers per record.
    epsilon, bins, range, density, accountant, **unused
        As in `histogramdd`.

    Returns
    -------
    tuple of ndarray
        Noisy counts, and the edges of the first and of the second column.
    """
    one, two = _one_column(array_x), _one_column(array_y)
    if len(one) != len(two):
        raise InvalidInputError("'array_x' and 'array_y' must have one number per record each.")
    pairs = np.stack([one, two], axis=1)
    counts, (x, y) = histogramdd(pairs, epsilon, bins, range, density, accountant, **unused)
    return counts, x, y


def histogramdd(
    sample: Any,
    epsilon: float = 1.0,
    bins: Any = 10,
    range: Any = None,  # noqa: A002 - diffprivlib's and NumPy's word
    density: bool | None = None,
    accountant: Account = None,
    **unused: Any,
) -> tuple[Numbers, list[Numbers]]:
    """Give counts of cells with Laplace noise, and the edges of every column.

    Parameters
    ----------
    sample : array-like of shape (n, k)
        A record per row; those outside of the edges of a column are not counted.
    epsilon : float, default=1.0
        Pure epsilon; one record is added or removed.
    bins : int or sequence, default=10
        How many bins, for all columns or for each; or the public edges of each.
    range : sequence of tuple, optional
        Public ``(lower, upper)`` of each column; required unless `bins` holds its edges.
    density : bool, optional
        Give a density instead of counts.
    accountant : BudgetAccountant, optional
        Who pays.
    **unused : object
        As in `mean`; weights are refused.

    Returns
    -------
    tuple of ndarray and list of ndarray
        Noisy counts, rounded and not negative, and the edges of each column.
    """
    _check_unused(unused)
    rows = _numbers(sample)
    if rows.ndim != 2:
        raise InvalidInputError("'sample' must contain records: rows of one or more columns.")
    wanted = bins if np.ndim(bins) or isinstance(bins, list | tuple) else [bins] * rows.shape[1]
    ends = [None] * rows.shape[1] if range is None else range
    if len(wanted) != rows.shape[1] or len(ends) != rows.shape[1]:
        raise InvalidInputError("'bins' and 'range' must have one entry per column.")
    edges = [_edges(some, between) for some, between in zip(wanted, ends, strict=True)]
    shape = tuple(len(each) - 1 for each in edges)
    n_cells = math.prod(shape)
    if n_cells > MOST_CELLS:
        raise InvalidInputError(f"'bins' must give at most {MOST_CELLS} cells. Got {n_cells}.")
    places = [_places(rows[:, k], each) for k, each in enumerate(edges)]
    outside = np.any([place < 0 for place in places], axis=0)
    inside = [np.where(outside, 0, place) for place in places]
    # Records outside have a cell of their own, which is thrown away.
    cells = np.where(outside, n_cells, np.ravel_multi_index(inside, shape)).astype(np.float64)
    found = _counted(cells, n_cells + 1, epsilon, accountant)[:-1]
    counts: Numbers = np.maximum(np.rint(found), 0.0).reshape(shape)
    if density:
        for axis, each in enumerate(edges):
            widths = np.diff(each)
            counts = counts / widths.reshape(
                [-1 if k == axis else 1 for k in np.arange(len(shape))]
            )
        counts = counts / max(np.maximum(np.rint(found), 0.0).sum(), 1.0)
    return counts, edges


def _edges(bins: Any, between: tuple[float, float] | None) -> Numbers:
    """Give the public edges of one column."""
    edges = np.asarray(bins, dtype=np.float64) if np.ndim(bins) else None
    if edges is None:
        if between is None:
            raise MissingBoundsError(
                "'range' must be given: histogram(..., range=(LOWER, UPPER)), public knowledge. "
                "diffprivlib would take it from the data, which reveals the largest "
                "value."
            )
        edges = np.linspace(float(between[0]), float(between[1]), int(bins) + 1)
    if len(edges) < 2 or not (np.isfinite(edges).all() and (np.diff(edges) > 0).all()):
        raise InvalidInputError("'bins' and 'range' must give edges that increase.")
    return edges


def _places(numbers: Numbers, edges: Numbers) -> NDArray[np.int64]:
    """Give the bin of each number, -1 outside; the last bin has both ends, as in NumPy."""
    places = np.searchsorted(edges, numbers, side="right").astype(np.int64) - 1
    places[numbers == edges[-1]] = len(edges) - 2
    places[~((numbers >= edges[0]) & (numbers <= edges[-1]))] = -1
    return places


# Two releases -----------------------------------------------------------------------------------


def _moments(
    rows: Numbers,
    lower: Numbers,
    upper: Numbers,
    epsilon: float,
    accountant: Account,
    *,
    order: int,
) -> Numbers:
    """Release mean, and variance, of each column; the columns share epsilon."""
    n_columns = rows.shape[1]
    middle, width = (lower + upper) / 2, upper - lower
    scaled = np.nan_to_num((np.clip(rows, lower, upper) - middle) / width)
    parts = [
        ArrayRecords(scaled[:, [place]], relation=Relation.REPLACE_ONE)
        for place in np.arange(n_columns)
    ]
    statistic: Statistic = Powers(order)
    mechanism = LaplaceMechanism.calibrate(  # [Y3] each column with its share
        sensitivity=parts[0].sensitivity(statistic, 1), epsilon=float(epsilon) / n_columns
    ).for_size(statistic.size)
    bill = Bill(BudgetAccountant.load_default(accountant), float(epsilon), 0.0)
    events = [mechanism.event()] * n_columns
    receipt = prepay(bill, *events, unit=Unit.RECORD, relation=Relation.REPLACE_ONE)
    sums = np.array([part.release(statistic, mechanism, receipt) for part in parts])
    found = sums / len(rows)
    found[:, 0] = np.clip(found[:, 0], -0.5, 0.5)
    if order == 2:
        found[:, 1] = np.clip(found[:, 1] - found[:, 0] ** 2, 0.0, 0.25) * width**2
    found[:, 0] = middle + width * found[:, 0]
    return found


def _counted(cells: Numbers, n_cells: int, epsilon: float, accountant: Account) -> Numbers:
    """Release how many records lie in each cell."""
    records = ArrayRecords(cells[:, None], relation=Relation.ADD_OR_REMOVE_ONE)
    statistic = CountTables((n_cells,), ((0,),))
    mechanism = LaplaceMechanism.calibrate(  # [Y4] a record is counted once
        sensitivity=records.sensitivity(statistic, 1), epsilon=float(epsilon)
    ).for_size(statistic.size)
    bill = Bill(BudgetAccountant.load_default(accountant), float(epsilon), 0.0)
    receipt = prepay(bill, mechanism.event(), unit=Unit.RECORD, relation=Relation.ADD_OR_REMOVE_ONE)
    return records.release(statistic, mechanism, receipt)


# What was given ---------------------------------------------------------------------------------


def _columns(
    array: Any, bounds: Any, axis: int | None, unused: dict[str, Any], *, may_average: bool = False
) -> tuple[Numbers, Numbers, Numbers]:
    _check_unused(unused)
    if bounds is None:
        raise MissingBoundsError(
            "'bounds' must be given: bounds=(LOWER, UPPER), known without the data. diffprivlib "
            "would take them from the data and warn, which reveals the largest value."
        )
    if axis not in (None, 0):
        raise UnsupportedModeError("'axis' must be None or 0: a record is a row.")
    rows = _numbers(array)
    rows = rows[:, None] if rows.ndim == 1 else rows
    if rows.ndim != 2 or 0 in rows.shape:
        raise InvalidInputError("'array' must contain records: one or two dimensions, not empty.")
    if axis is None and rows.shape[1] > 1:
        if not may_average:
            raise UnsupportedModeError("With several columns, give axis=0: a record is a row.")
        low, high = (np.broadcast_to(np.asarray(b, float), rows.shape[1]) for b in bounds)
        inside = np.clip(rows, low, high)  # cell by cell, before anything is added up
        rows = np.where(np.isnan(inside), (low + high) / 2, inside).mean(axis=1, keepdims=True)
        bounds = low.mean(), high.mean()
    lower, upper = (np.broadcast_to(np.asarray(b, float), rows.shape[1]) for b in bounds)
    if not (np.isfinite(lower).all() and np.isfinite(upper).all() and (lower < upper).all()):
        raise InvalidInputError("'bounds' must be (LOWER, UPPER), finite, LOWER below UPPER.")
    return rows, lower, upper


def _numbers(array: Any) -> Numbers:
    """Give cells as doubles; a cell that is a list is missing, and no error.

    Among rows of cells, one of another length is missing: it does not make them cells.
    """
    try:
        return as_numbers(np.asarray(array))
    except ValueError:  # lists of unequal lengths
        records = list(array)
        are_rows = 2 * len([each for each in records if hasattr(each, "__len__")]) > len(records)
        return as_rows(records) if are_rows else as_numbers(as_cells(records))


def _one_column(array: Any) -> Numbers:
    """Give one cell per record: a record with several would be counted several times."""
    numbers = _numbers(array)
    if numbers.ndim == 2 and numbers.shape[1] == 1:
        numbers = numbers[:, 0]
    if numbers.ndim != 1:
        raise UnsupportedModeError("Give one column: a record is a row, and is counted once.")
    return numbers


def _check_unused(unused: dict[str, Any]) -> None:
    known = {"dtype", "keepdims", "random_state", "axis"}
    for name, value in unused.items():
        if name not in known or (name in ("keepdims", "axis") and value):
            raise UnsupportedModeError(f"{name!r} is not offered here.")


def _given(values: Numbers, axis: int | None) -> Any:
    return float(values[0]) if axis is None else values
