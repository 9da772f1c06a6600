"""Sums are exact in any order and number; no record moves them further than declared."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.exceptions import EngineError, InvalidInputError, SfumatoError
from sfumato.ledger.receipt import Receipt, prepay
from sfumato.mechanisms import GaussianMechanism, LaplaceMechanism
from sfumato.mechanisms.base import taped
from sfumato.privacy.guarantee import Relation
from sfumato.sums import ArrayRecords, SecondMoment, Statistic
from sfumato.sums.grid import (
    BLOCK_ROWS,
    FINE_BITS,
    MAX_ROWS,
    MAX_ROWS_SECRET_N,
    QUANTUM,
    ROW_BITS,
    WINDOW_ROWS,
    SecretSum,
    revealed,
    truncate_to_grid,
)
from sfumato.sums.maps import exact_projection
from sfumato.sums.partitions import open_sum, seal_sum
from sfumato.sums.persons import AVERAGE_BITS, MAX_PERSONS, PersonSum, PersonUnit
from sfumato.sums.records import BatchRecords
from sfumato.sums.statistics import (
    ClassCounts,
    ClassMoments,
    CountTables,
    MeanAndSquares,
    Parts,
    RunCounts,
    cuts_by_counts,
)
from sfumato.tables.bounds import Bounds

WIDTH, CLASSES = 3, 2
STATISTICS: list[Statistic] = [
    ClassCounts(CLASSES),
    MeanAndSquares(WIDTH),
    SecondMoment(WIDTH),
    ClassMoments(CLASSES, WIDTH),
    ClassMoments(CLASSES, WIDTH, constant=0.5),
    ClassMoments(CLASSES, WIDTH, constant=7 / 8),
    ClassMoments(
        CLASSES, WIDTH, parts=Parts(np.zeros((CLASSES, WIDTH)), np.ones((CLASSES, WIDTH, 1)))
    ),
]


def unit_rows(n_rows: int, seed: int, width: int = WIDTH) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(n_rows, width))
    return Bounds(norm=1.0).clip(rows)


def some_codes(n_rows: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, CLASSES, size=n_rows).astype(np.intp)


def summed(rows: np.ndarray, codes: np.ndarray, statistic: Statistic) -> SecretSum:
    return ArrayRecords(rows, codes, relation="add_or_remove_one")._sum(statistic)


def test_a_second_moment_is_the_exact_sum_of_fractions(seed: int) -> None:
    rows = unit_rows(50, seed)
    on_grid = truncate_to_grid(rows, ROW_BITS)
    total = revealed(summed(rows, some_codes(50, seed), SecondMoment(WIDTH)))
    for i, j in itertools.product(range(WIDTH), repeat=2):
        exact = sum(Fraction(float(a)) * Fraction(float(b)) for a, b in on_grid[:, [i, j]])
        assert Fraction(total[i, j]) == exact


@pytest.mark.parametrize("statistic", STATISTICS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("n_rows", [1, 4095, 4097, 70_000])
def test_order_and_batches_do_not_change_a_bit(statistic: Statistic, n_rows: int) -> None:
    rows, codes = unit_rows(n_rows, 1), some_codes(n_rows, 2)
    whole = summed(rows, codes, statistic)
    order = np.random.default_rng(3).permutation(n_rows)
    assert summed(rows[order], codes[order], statistic) == whole
    for batch in (max(1, n_rows // 7), 5000, n_rows):

        def read(batch: int = batch):
            for start in range(0, n_rows, batch):
                yield rows[start : start + batch], codes[start : start + batch]

        records = BatchRecords(read, width=WIDTH, relation="replace_one", n_rows=n_rows)
        assert records._sum(statistic) == whole
    half = n_rows // 2
    apart = [
        summed(rows[part], codes[part], statistic) for part in (slice(half), slice(half, None))
    ]
    assert apart[0].merge(apart[1]) == whole


def test_terms_are_multiples_of_the_quantum_and_small() -> None:
    for statistic in STATISTICS:
        units = statistic.add_up(unit_rows(100, 6), some_codes(100, 7)) / QUANTUM
        assert np.array_equal(units, np.trunc(units))
        one = statistic.add_up(unit_rows(1, 8), np.zeros(1, dtype=np.intp))
        assert np.abs(one).max() <= 2


@pytest.mark.parametrize("half", [2**16, 2**17, 2**17 + 3])
def test_sums_at_their_largest_are_exact(half: int) -> None:
    """Every bit of a block is used; larger blocks would be rounded, which the difference shows."""

    class Largest(SecondMoment):
        def add_up(self, rows: np.ndarray, codes: np.ndarray) -> np.ndarray:
            left = np.where(codes[:, None] == 0, 2 - 2.0**-18, -(2 - 2.0**-17))
            return left.T @ rows

        @property
        def shape(self) -> tuple[int, ...]:
            return (1, 1)

    rows = np.full((2 * half, 1), 1 - 2.0**-18)
    codes = (np.arange(2 * half) >= half).astype(np.intp)
    exact = half * ((2**19 - 1) - (2**19 - 2)) * (2**18 - 1)
    assert revealed(summed(rows, codes, Largest(1)))[0, 0] == exact / 2**36


def test_a_release_needs_the_noise_of_the_statistic_and_a_receipt() -> None:
    records = ArrayRecords(unit_rows(40, 13), relation="replace_one")
    statistic = SecondMoment(WIDTH)
    weak = GaussianMechanism.from_mu(sensitivity=1.0, mu=1.0)
    receipt = prepay(None, weak.event(), unit="record", relation="replace_one")
    with pytest.raises(InvalidInputError, match="made for sensitivity 1"):
        records.release(statistic, weak, receipt)
    fitting = GaussianMechanism.from_mu(sensitivity=records.sensitivity(statistic), mu=1.0)
    receipt = prepay(None, fitting.event(), unit="record", relation="replace_one")
    noisy = records.release(statistic, fitting, receipt)
    assert noisy.shape == statistic.shape
    assert np.array_equal(noisy, noisy.T)
    with pytest.raises(SfumatoError):  # the receipt is used up
        records.release(statistic, fitting, receipt)


def test_records_that_change_between_passes_are_refused_before_noise() -> None:
    passes = iter([10, 9])

    def read():
        n_rows = next(passes)
        yield unit_rows(n_rows, 14), some_codes(n_rows, 14)

    records = BatchRecords(read, width=WIDTH, relation="replace_one", n_rows=10)
    mechanism = GaussianMechanism.from_mu(sensitivity=2.0, mu=1.0)
    event = mechanism.event()
    receipt = prepay(None, event, event, unit="record", relation="replace_one")
    records.release(SecondMoment(WIDTH), mechanism, receipt)
    with pytest.raises(InvalidInputError, match="10 were declared, 9 were found"):
        records.release(SecondMoment(WIDTH), mechanism, receipt)
    assert len(receipt.unused()) == 1
    block = unit_rows(3, 14), some_codes(3, 14), np.array([2, 2, 1])  # of two persons
    unit: dict[str, Any] = {"relation": "replace_one", "person": PersonUnit(2), "n_rows": 3}
    with pytest.raises(InvalidInputError, match="persons changed"):
        BatchRecords(lambda: iter([block]), width=WIDTH, **unit)._sum(SecondMoment(WIDTH))


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize(
    "statistic",
    [ClassCounts(2), MeanAndSquares(3), SecondMoment(3), ClassMoments(2, 3)],
    ids=lambda statistic: type(statistic).__name__,
)
def test_sums_too_large_for_doubles_pay_for_their_rounding(
    statistic: Statistic, relation: Relation
) -> None:
    exact = statistic.term_sensitivity(relation)
    # Up to 2**17 every multiple of the quantum is a double; beyond, the numbers of two neighbours
    # move by half a unit in the last place each.
    assert statistic.sensitivity(relation, 2**16) == exact
    largest = statistic.max_term * MAX_ROWS_SECRET_N
    assert math.ulp(largest) > QUANTUM
    needed = math.sqrt(statistic.size) * math.ulp(largest)
    assert statistic.sensitivity(relation, MAX_ROWS_SECRET_N) - exact == pytest.approx(
        needed, rel=1e-6
    )


SIZES = (3, 4, 2)
TABLES = CountTables(SIZES, ((0,), (0, 1), (1, 2)), n_classes=2)


def summed_tables(rows: np.ndarray, codes: np.ndarray) -> np.ndarray:
    return revealed(ArrayRecords(rows, codes, relation="add_or_remove_one")._sum(TABLES))


def test_counts_are_those_of_a_histogram(rng: np.random.Generator) -> None:
    rows = np.column_stack([rng.integers(0, size, 5000) for size in SIZES]).astype(float)
    codes = rng.integers(0, 2, 5000)
    for columns, found in zip(TABLES.tables, TABLES.split(summed_tables(rows, codes)), strict=True):
        axes = [*(rows[:, c] for c in columns), codes]
        edges = [np.arange(SIZES[c] + 1) - 0.5 for c in columns] + [np.arange(3) - 0.5]
        np.testing.assert_array_equal(found, np.histogramdd(np.column_stack(axes), edges)[0])


def test_the_norm_of_the_mechanism_decides() -> None:
    records = ArrayRecords(np.zeros((5, 3)), relation="replace_one")
    for kind, needed in ((LaplaceMechanism, 6.0), (GaussianMechanism, math.sqrt(6.0))):
        mechanism = kind(needed * 0.99, 1.0)
        receipt = prepay(None, mechanism.event(), unit="record", relation="replace_one")
        with pytest.raises(InvalidInputError, match="sensitivity"):
            records.release(TABLES, mechanism, receipt)
        enough = kind(needed, 1.0)
        receipt = prepay(None, enough.event(), unit="record", relation="replace_one")
        assert records.release(TABLES, enough, receipt).shape == TABLES.shape


def steps_of(values: Any, bits: int) -> np.ndarray:
    """Numbers on a grid as Python's whole numbers, which never overflow or round."""
    scaled = np.asarray(values, dtype=np.float64) * 2.0**bits
    assert np.array_equal(scaled, np.rint(scaled))
    return np.vectorize(int, otypes=[object])(scaled)


def in_ball(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


@pytest.mark.parametrize("width", [1, 7, 300, 3969])
def test_a_projection_is_the_product_of_whole_numbers(width: int, rng: Any) -> None:
    rows = in_ball(rng.standard_normal((9, width)))
    basis = np.linalg.qr(rng.standard_normal((width, min(width, 5))))[0]
    rows[0] = basis[:, 0]  # as large as a score can be
    rows[1] = np.abs(rows[1])
    found = exact_projection(rows, basis)
    wanted = steps_of(truncate_to_grid(rows, FINE_BITS), FINE_BITS) @ steps_of(
        truncate_to_grid(basis, FINE_BITS), FINE_BITS
    )
    assert np.array_equal(steps_of(found, 2 * FINE_BITS), wanted)
    other = exact_projection(np.vstack([rows[::-1], rows]), basis)  # another place and number
    assert np.array_equal(other[9:], found)
    assert np.array_equal(other[:9][::-1], found)


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
    """A sum over that many records of equal terms, merged by doubling."""
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
    public = BatchRecords(lambda: iter(()), width=1, relation="replace_one", n_rows=2**40)
    assert public.max_rows == 2**40
    with pytest.raises(InvalidInputError, match="records"):
        BatchRecords(lambda: iter(()), width=1, relation="replace_one", n_rows=2**40 + 1)


def test_a_carry_keeps_every_unit() -> None:
    total = SecretSum((3,))
    total.add(np.array([3.0, -1.0, 2.0**33 + 1]) * QUANTUM, 1)
    total._carry()
    assert total.integers().tolist() == [3, -1, 2**33 + 1]


@pytest.mark.parametrize("knows_total", [False, True])
@pytest.mark.parametrize(("n", "fan", "weights"), [(64, 4, [1, 1, 1]), (23, 3, [1, 0.5, 0.25])])
def test_trees_of_counts_agree_by_least_squares(
    rng: np.random.Generator, n: int, fan: int, weights: list[float], *, knows_total: bool
) -> None:
    """Against the normal equations (Hay and others, 2010), and the variances of ranges."""
    counts = RunCounts(2, n, fan, tuple(weights))
    runs = [np.arange(n) // fan**level for level in range(len(weights))]
    tree = np.vstack([np.eye(each[-1] + 1)[each].T for each in runs])
    rows = rng.integers(0, 2 * n, size=(300, 1))
    exact = CountTables((2 * n,), ((0,),)).add_up(rows, np.zeros(300, int)).reshape(2, n)
    scale = np.repeat(weights, counts.sizes)
    found = counts.add_up(rows, np.zeros(300, dtype=np.intp))
    np.testing.assert_array_equal(found, scale * (exact @ tree.T))
    noisy, total = found / scale + rng.normal(size=found.shape), 150.0 if knows_total else None
    agreed = counts.agreed(noisy * scale, total)
    if knows_total:  # nearly, for the normal equations
        tree, scale = np.vstack([tree, np.ones(n)]), np.append(scale, 3e3)
        noisy = np.hstack([noisy, np.full((2, 1), total)])
    covariance = np.linalg.inv(tree.T @ (scale[:, None] ** 2 * tree))
    expected = (covariance @ tree.T @ (scale**2 * noisy).T).T
    np.testing.assert_allclose(agreed, expected, atol=1e-4)
    inside = np.tri(n, dtype=bool) & ~np.tri(n, k=-7, dtype=bool)
    errors = np.einsum("ij,jk,ik->i", inside, covariance, inside)
    found = counts.variances(inside, knows_total=knows_total)
    np.testing.assert_allclose(found, errors, atol=1e-4)


def test_nothing_is_cut_where_all_records_are_in_the_last_cell() -> None:
    top, groups, cells = (np.eye(17**level)[[-1]] * 100.0 for level in (1, 2, 3))
    assert np.isnan(cuts_by_counts(np.hstack([top, groups, cells]), 2)).sum() >= 2


def test_sums_of_persons_travel_whatever_their_order() -> None:
    total = PersonSum((1,))
    for size, number in ((3, 0.75), (1, 0.25)):
        total.add(np.array([number]), size, size)
    message = seal_sum(total, task="t", part=0)
    _, found = open_sum(message, ClassCounts(1), task="t", n_parts=1)
    assert {size: each.integers().tolist() for size, each in found._by_size.items()} == {
        1: [round(0.25 / QUANTUM)],
        3: [round(0.75 / QUANTUM)],
    }
    with pytest.raises(EngineError, match="not a partial sum"):
        open_sum(b"rubbish", ClassCounts(1), task="t", n_parts=1)
