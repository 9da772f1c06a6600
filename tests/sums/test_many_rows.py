"""Sums over more records than 64 bits hold, against Python's integers."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from sfumato.exceptions import EngineError, InvalidInputError
from sfumato.ledger.receipt import Receipt
from sfumato.mechanisms import GaussianMechanism
from sfumato.mechanisms.base import taped
from sfumato.sums import BatchRecords, ClassCounts
from sfumato.sums.grid import (
    BLOCK_ROWS,
    MAX_ROWS,
    MAX_ROWS_SECRET_N,
    QUANTUM,
    WINDOW_ROWS,
    SecretSum,
    revealed,
)
from sfumato.sums.partitions import Partitions, Task, open_sum, seal_sum
from sfumato.sums.persons import AVERAGE_BITS, MAX_PERSONS, PersonSum
from sfumato.sums.statistics import Statistic
from tests.engines.sources import messy_table
from tests.engines.test_same_bits import ESTIMATORS

LARGEST = 2**37 - 1  # of a term, in units of the quantum: just below 2


class _Wide(ClassCounts):
    """Terms as large as they may be."""

    @property
    def max_term(self) -> float:
        return 2.0


def _block(values: list[int]) -> tuple[Any, list[int]]:
    """Terms of a full block, all alike, and their sum by Python's integers."""
    return np.array(values) * BLOCK_ROWS * QUANTUM, [value * BLOCK_ROWS for value in values]


def _full(values: list[int], n_rows: int) -> tuple[SecretSum, list[int]]:
    """A sum over so many records of equal terms, merged by doubling."""
    partial, exact = _block(values)
    total = SecretSum((len(values),))
    total.add(partial, BLOCK_ROWS)
    while 2 * total.n_rows <= n_rows:
        other = SecretSum((len(values),)).merge(total)
        total.merge(other)
        exact = [2 * value for value in exact]
    return total, exact


@pytest.mark.parametrize("n_rows", [WINDOW_ROWS, MAX_ROWS_SECRET_N, 2**30, MAX_ROWS])
def test_the_largest_terms_do_not_overflow(n_rows: int) -> None:
    total, exact = _full([LARGEST, -LARGEST, 1, -1, 0], n_rows)
    assert total.n_rows == n_rows
    assert [int(value) for value in total.integers()] == exact
    nearest = [float(Fraction(value) * Fraction(QUANTUM)) for value in exact]
    assert revealed(total).tolist() == nearest  # rounded once, to the nearest double


def test_blocks_are_carried_over_the_edge_of_a_window(rng: np.random.Generator) -> None:
    total, exact = _full([LARGEST, -LARGEST, 7], WINDOW_ROWS)
    assert total._carried is None
    for _ in range(5):
        values = rng.integers(-LARGEST, LARGEST, 3, endpoint=True).tolist()
        partial, more = _block(values)
        total.add(partial, BLOCK_ROWS)
        exact = [a + b for a, b in zip(exact, more, strict=True)]
    assert total._carried is not None
    assert [int(value) for value in total.integers()] == exact


def test_order_and_merging_do_not_change_a_bit(rng: np.random.Generator) -> None:
    """Sums on both sides of a window, in any order, give one message."""
    parts = [_full(rng.integers(-LARGEST, LARGEST, 4).tolist(), WINDOW_ROWS)[0] for _ in range(6)]
    messages = set()
    for order in ([0, 1, 2, 3, 4, 5], [5, 3, 1, 0, 2, 4]):
        total = SecretSum((4,))
        for number in order:
            total.merge(SecretSum((4,)).merge(parts[number]))
        left, right = SecretSum((4,)), SecretSum((4,))
        for number in order:
            (left if number % 2 else right).merge(SecretSum((4,)).merge(parts[number]))
        assert left.merge(right) == total
        messages |= {bytes(seal_sum(each, task="t", part=0)) for each in (left, total)}
    assert len(messages) == 1
    _, found = open_sum(messages.pop(), _Wide(4), task="t", n_parts=1)
    assert found == total


@pytest.mark.parametrize("change", ["rest", "carried"])
def test_a_message_of_many_records_is_checked(change: str) -> None:
    total, _ = _full([5, 6], 2 * WINDOW_ROWS)
    message = seal_sum(total, task="t", part=0)
    wrong = np.frombuffer(message[-32:], dtype="<i8").copy()
    wrong[0 if change == "rest" else 2] = 2**60
    with pytest.raises(EngineError):
        open_sum(message[:-32] + wrong.tobytes(), ClassCounts(2), task="t", n_parts=1)


def test_a_sum_that_so_many_records_cannot_have_is_refused() -> None:
    total, _ = _full([LARGEST, 0], 2 * WINDOW_ROWS)
    message = seal_sum(total, task="t", part=0)
    open_sum(message, _Wide(2), task="t", n_parts=1)
    with pytest.raises(EngineError, match="cannot have"):
        open_sum(message, ClassCounts(2), task="t", n_parts=1)  # whose terms are at most 1


def test_averages_of_many_persons() -> None:
    """Sizes that divide nothing evenly, against fractions."""
    total, exact = PersonSum((2,)), [Fraction(0), Fraction(0)]
    for size, n_rows in ((1, 2**27), (3, 3 * 2**25), (7, 7 * 2**24)):
        sum_of_size, units = _full([LARGEST, -LARGEST // 3], n_rows)
        sum_of_size.n_rows = n_rows - n_rows % size
        total._sums[size] = sum_of_size
        exact = [a + Fraction(b, size) for a, b in zip(exact, units, strict=True)]
    step = Fraction(1, 2**AVERAGE_BITS)
    for found, value in zip(total.averaged(), exact, strict=True):
        assert abs(Fraction(float(found)) - value * Fraction(QUANTUM)) <= Fraction(51, 100) * step
    total._sums[1].n_rows = MAX_PERSONS + 1
    with pytest.raises(InvalidInputError, match="persons"):
        total.averaged()


class _Repeated(Partitions):
    """An engine whose parts are one small table each, counted 2**17 times."""

    times = 17

    def __init__(self, table: Any) -> None:
        self._table = table

    @property
    def n_parts(self) -> int:
        return 1

    @property
    def columns(self) -> list[str]:
        return list(map(str, self._table.columns))

    def map(self, task: Task) -> Iterator[Any]:
        answer = task(0, [self._table])
        inner: Any = task.args[1] if isinstance(task, partial) else task
        _, total = open_sum(answer, inner.statistic, task=inner.name, n_parts=1)
        for _ in range(self.times):
            total.merge(SecretSum(inner.statistic.shape).merge(total))  # type: ignore[arg-type]
        yield seal_sum(total, task=inner.name, part=0)


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if "n secret" not in name])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_models_of_196_million_records(name: str) -> None:
    """Every estimator plans and releases for them; its first sum is the exact one."""
    table = messy_table()
    with taped() as once:
        ESTIMATORS[name]().fit(table)
    with taped() as many:
        ESTIMATORS[name]().fit(_Repeated(table))
    assert len(table) << _Repeated.times > MAX_ROWS_SECRET_N
    first, same = once.releases[0].statistic, many.releases[0].statistic
    if name == "grid density":  # its grid is finer for more records
        assert same.sum() == len(table) << _Repeated.times
        return
    for small, large in zip(np.ravel(first).tolist(), np.ravel(same).tolist(), strict=True):
        assert large == float(Fraction(small) * 2**_Repeated.times)


def test_a_secret_number_keeps_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise was calibrated for 2**26 records at most, so more are refused, whatever the sum."""
    n_rows = 200

    def records(**number: Any) -> BatchRecords:
        read = lambda: iter([(np.zeros((n_rows, 1)), np.zeros(n_rows, dtype=np.intp))])  # noqa: E731
        return BatchRecords(read, width=1, relation="add_or_remove_one", **number)

    statistic: Statistic = ClassCounts(1)
    mechanism = GaussianMechanism(sensitivity=2.0, noise_multiplier=1.0)
    with taped():
        records().release(statistic, mechanism, Receipt([mechanism.event()]))
    monkeypatch.setattr("sfumato.sums.records.MAX_ROWS_SECRET_N", n_rows - 1)
    with taped() as tape, pytest.raises(InvalidInputError, match="number is secret"):
        records().release(statistic, mechanism, Receipt([mechanism.event()]))
    assert not tape.releases
    with pytest.raises(InvalidInputError, match="number is secret"):
        records(n_rows=n_rows)
