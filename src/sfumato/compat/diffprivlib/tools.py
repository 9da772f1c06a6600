"""Counts, means and variances of one column under pure epsilon, with diffprivlib's signatures.

Records are rows, and their number is public (one is replaced), but for `histogram` and
`count_nonzero`, where one is added or removed, as in diffprivlib.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting.receipt import prepay
from sfumato.cells import as_cells, as_numbers
from sfumato.compat.diffprivlib.accountant import Bill, BudgetAccountant
from sfumato.exceptions import InvalidInputError, MissingBoundsError, UnsupportedModeError
from sfumato.guarantee import Relation, Unit
from sfumato.mechanisms.laplace import LaplaceMechanism
from sfumato.sums.counts import CountTables, Powers
from sfumato.sums.records import ArrayRecords
from sfumato.sums.statistics import Statistic

__all__ = ["count_nonzero", "histogram", "mean", "std", "sum", "var"]

Numbers = NDArray[np.float64]
Account = BudgetAccountant | None


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
    _check_unused(unused)
    edges = np.asarray(bins, dtype=np.float64) if np.ndim(bins) else None
    if edges is None:
        if range is None:
            raise MissingBoundsError(
                "'range' must be given: histogram(..., range=(LOWER, UPPER)), public knowledge. "
                "diffprivlib would take it from the data, which tells the largest value."
            )
        edges = np.linspace(float(range[0]), float(range[1]), int(bins) + 1)
    if len(edges) < 2 or not (np.isfinite(edges).all() and (np.diff(edges) > 0).all()):
        raise InvalidInputError("'bins' and 'range' must give edges that increase.")
    numbers = _one_column(sample)
    cells: Numbers = np.searchsorted(edges, numbers, side="right").astype(np.float64) - 1
    cells[numbers == edges[-1]] = len(edges) - 2  # the last bin has both ends, as in NumPy
    outside = ~((numbers >= edges[0]) & (numbers <= edges[-1]))
    cells[outside] = len(edges) - 1  # a cell of its own, which is thrown away
    found = _counted(cells, len(edges), epsilon, accountant)[:-1]
    counts = np.maximum(np.rint(found), 0.0)
    if density:
        counts = counts / np.diff(edges) / max(counts.sum(), 1.0)
    return counts, edges


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
            "would take them from the data and warn; they tell the largest value."
        )
    if axis not in (None, 0):
        raise UnsupportedModeError("'axis' must be None or 0: a record is a row.")
    rows = _numbers(array)
    rows = rows[:, None] if rows.ndim == 1 else rows
    if rows.ndim != 2 or 0 in rows.shape:
        raise InvalidInputError("'array' must hold records: one or two dimensions, not empty.")
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
    """Give cells as doubles; a cell that is a list is missing, and no error."""
    try:
        return as_numbers(np.asarray(array))
    except ValueError:  # lists of unequal lengths
        return as_numbers(as_cells(list(array)))


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
