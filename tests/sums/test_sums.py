"""Sums are exact wherever the rows are, and no record moves them further than is said."""

from __future__ import annotations

import itertools
import pickle
from fractions import Fraction

import numpy as np
import pytest

import sfumato
from sfumato.exceptions import InvalidInputError, SfumatoError
from sfumato.ledger.receipt import prepay
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.sums import (
    ArrayRecords,
    BatchRecords,
    ClassCounts,
    ClassMoments,
    MeanAndSquares,
    SecondMoment,
    Statistic,
)
from sfumato.sums.grid import QUANTUM, ROW_BITS, SecretSum, revealed, truncate_to_grid
from sfumato.sums.maps import Centred, IntoUnitBall, Projected
from sfumato.sums.statistics import Parts
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


@pytest.mark.parametrize("statistic", STATISTICS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_no_neighbour_moves_a_sum_further_than_its_sensitivity(
    statistic: Statistic, relation: str
) -> None:
    generator = np.random.default_rng(4)
    axis = np.vstack([np.eye(WIDTH), -np.eye(WIDTH), np.zeros((1, WIDTH))])
    axis = np.vstack([axis, np.ones((1, WIDTH)) / np.sqrt(WIDTH)])
    candidates = [
        (row, code)
        for row in np.vstack([axis, unit_rows(20, 5), generator.uniform(-1, 1, (20, WIDTH)) / 2])
        for code in range(CLASSES)
    ]
    terms = [
        revealed(summed(row[None, :], np.array([code]), statistic)).ravel()
        for row, code in candidates
    ]
    if relation == "replace_one":
        moved = max(np.linalg.norm(a - b) for a, b in itertools.combinations(terms, 2))
    else:
        moved = max(np.linalg.norm(term) for term in terms)
    bound = statistic.sensitivity(relation, 10)
    assert 0.9 * bound <= moved <= bound


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


def test_row_maps_treat_each_row_alone() -> None:
    raw = np.random.default_rng(9).normal(size=(300, WIDTH)) * 10.0 ** np.arange(-150, 150)[:, None]
    raw[0, 0], raw[1, 1] = np.nan, np.inf
    basis = np.linalg.qr(np.random.default_rng(10).normal(size=(WIDTH, 2)))[0]
    mean = np.full(WIDTH, 0.1)
    ball = IntoUnitBall(Bounds(lower=-3.0, upper=5.0), WIDTH)
    inner = ball(raw)
    assert np.linalg.norm(inner, axis=1).max() <= 1
    for row_map, rows in (
        (ball, raw),
        (Centred(mean, 0.5), inner),
        (Projected(mean, basis, 0.3), inner),
    ):
        together = row_map(rows)
        assert together.shape == (300, row_map.width)
        assert np.linalg.norm(together, axis=1).max() <= 1
        alone = np.vstack([row_map(row[None, :]) for row in rows])
        assert np.array_equal(together, alone)
        assert np.array_equal(pickle.loads(pickle.dumps(row_map))(rows), together)


def test_mapped_and_kept_records_give_the_same_sum() -> None:
    raw, codes = np.random.default_rng(11).normal(size=(5000, WIDTH)), some_codes(5000, 12)
    records = ArrayRecords(raw, codes, relation="add_or_remove_one")
    mapped = records.mapped(IntoUnitBall(Bounds(norm=2.0), WIDTH)).mapped(
        Centred(np.full(WIDTH, 0.2), 0.7)
    )
    statistic = ClassMoments(CLASSES, WIDTH, constant=0.5)
    assert mapped.public_rows is None
    assert mapped._sum(statistic) == mapped.cache()._sum(statistic)


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


def test_a_secret_sum_says_nothing_and_is_not_saved(tmp_path) -> None:
    rows = unit_rows(10, 15)
    total = summed(rows, some_codes(10, 15), SecondMoment(WIDTH))
    assert repr(total) == "SecretSum(shape=(3, 3))"
    model = sfumato.PrivatePCA(bounds=Bounds(norm=1.0), epsilon=1.0, delta=1e-2).fit(rows)
    model.total_ = total
    with pytest.raises(InvalidInputError, match="SecretSum"):
        sfumato.save(model, tmp_path / "model.sfumato")
    with pytest.raises(InvalidInputError, match="different statistics"):
        total.merge(SecretSum((2, 2)))


def test_an_empty_set_of_records_is_a_neighbour_like_any_other() -> None:
    nothing = ArrayRecords(np.empty((0, WIDTH)), relation="add_or_remove_one")
    for statistic in STATISTICS:
        assert not revealed(nothing._sum(statistic)).any()
    assert nothing.cache().width == WIDTH


@pytest.mark.parametrize("batches", [[], [np.empty((0, 2))]], ids=["none", "an empty one"])
def test_no_rows_are_kept_as_no_rows(batches: list[np.ndarray]) -> None:
    records = BatchRecords(
        lambda: ((each, None) for each in batches), width=2, relation="add_or_remove_one"
    )
    silent = GaussianMechanism(records.sensitivity(SecondMoment(2)), 0.0)
    released = records.cache().release(SecondMoment(2), silent, prepay(None, silent.event()))
    np.testing.assert_array_equal(released, np.zeros((2, 2)))
