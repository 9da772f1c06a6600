"""All rows of a person together move a sum no further than is said, wherever they lie."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sfumato.exceptions import InvalidInputError
from sfumato.models.statistics import GroupSums
from sfumato.privacy.guarantee import Relation
from sfumato.sums import ArrayRecords, SecondMoment, Statistic
from sfumato.sums.gradients import GradientSum, ResidualSum, SoftmaxLoss
from sfumato.sums.grid import ROW_BITS, truncate_to_grid
from sfumato.sums.persons import (
    AVERAGE_BITS,
    PerPersonClip,
    PersonUnit,
    choose,
    partition_of,
    person_codes,
    person_digests,
    row_hashes,
    select_person_rows,
)
from sfumato.sums.statistics import (
    ClassCounts,
    ClassMoments,
    CountTables,
    MeanAndSquares,
    PlaceCounts,
)
from sfumato.tables.bounds import Bounds
from tests.sums.sources import doubles

WIDTH, CLASSES, MOST = 3, 2, 3
WAYS = ("average", "sum")
LOSS = SoftmaxLoss(CLASSES)
WEIGHTS = np.array([[2.0, -3.0, 1.0]])


def gradient(unit: PersonUnit) -> GradientSum:
    return GradientSum(LOSS, 0.25, WEIGHTS, joined=PerPersonClip.default(unit, 0.25))


def statistics(unit: PersonUnit) -> list[Statistic]:
    return [
        ClassCounts(CLASSES),
        MeanAndSquares(WIDTH),
        SecondMoment(WIDTH),
        ClassMoments(CLASSES, WIDTH, constant=0.5),
        CountTables((2, 2, 2), ((0,), (1, 2)), CLASSES),
        PlaceCounts((0, 2)),
        gradient(unit),
    ]


def records_of(
    rows: np.ndarray, codes: np.ndarray, groups: object, unit: PersonUnit, **more: Any
) -> ArrayRecords:
    return ArrayRecords.of_persons(
        rows, codes, groups=groups, unit=unit, relation="add_or_remove_one", **more
    )


def summed(
    rows: np.ndarray, codes: np.ndarray, groups: object, unit: PersonUnit, statistic: Statistic
) -> np.ndarray:
    return doubles(records_of(rows, codes, groups, unit)._sum(statistic))


def some_rows(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    rows = truncate_to_grid(Bounds(norm=1.0).clip(generator.normal(size=(n_rows, WIDTH))), ROW_BITS)
    return rows, generator.integers(0, CLASSES, n_rows).astype(np.intp)


@pytest.mark.parametrize("way", WAYS)
def test_rows_may_lie_anywhere(way: str, seed: int) -> None:
    """Sorted or scattered, in batches or partitions, IDs of any type: the same bits."""
    unit = PersonUnit(4, way)
    rows, codes = some_rows(700, seed)
    ids = np.random.default_rng(seed + 1).integers(0, 120, 700)
    order = np.random.default_rng(seed + 2).permutation(700)
    moved = rows[order], codes[order], ids[order]
    places = partition_of(ids, 3)
    assert len(np.unique(places)) == 3
    masks = [places == part for part in range(3)]
    parts = [records_of(rows[part], codes[part], ids[part], unit) for part in masks]
    gathered, scattered = records_of(rows, codes, ids, unit), records_of(*moved, unit)
    quick = records_of(*moved, unit, group_by_person=False)

    def merged(statistic: Statistic) -> np.ndarray:
        one, two, three = (part._sum(statistic) for part in parts)
        return doubles(one.merge(two).merge(three))

    for statistic in (SecondMoment(WIDTH), ClassMoments(CLASSES, WIDTH), ClassCounts(CLASSES)):
        whole = doubles(gathered._sum(statistic))
        texts = [str(each) for each in moved[2]]
        assert np.array_equal(summed(*moved[:2], texts, unit, statistic), whole)
        assert np.array_equal(merged(statistic), whole)
        assert np.array_equal(doubles(quick._sum(statistic)), whole)
    with pytest.raises(InvalidInputError, match="adjacent"):
        quick._sum(gradient(unit))
    sums = merged(gradient(unit))
    for each in (gathered, scattered, gathered.cache(), scattered.cache()):
        assert np.array_equal(doubles(each._sum(gradient(unit))), sums)
    held = doubles(gathered._sum(SecondMoment(WIDTH)))
    for each in (quick.cache(), quick.cache().cache()):
        assert np.array_equal(doubles(each._sum(SecondMoment(WIDTH))), held)
    singles = [
        doubles(each.cache(in_singles=True)._sum(SecondMoment(WIDTH))) for each in (gathered, quick)
    ]
    assert np.array_equal(*singles)


@pytest.mark.parametrize("n_hashes", [1, 3, 2**40])
def test_each_row_is_as_likely_to_be_kept(n_hashes: int) -> None:
    """However many of a person's rows are equal, and however many persons have the same rows."""
    generator = np.random.default_rng(5)
    n, unit = 3000, PersonUnit(3)
    hashes = np.tile(np.arange(10, dtype=np.uint64) % np.uint64(n_hashes), n)
    owners, places = np.repeat(np.arange(n), 10), generator.permutation(10 * n)
    words = generator.integers(0, 2**63, n, dtype=np.uint64)
    owners = owners[places]
    found = choose(owners, hashes[places].__getitem__, lambda first: words[owners[first]], unit)
    kept = found.sizes > 0
    assert (np.bincount(owners[kept]) == 3).all()
    assert (found.sizes[kept] == 3).all()
    assert found.n_persons == n
    shares = np.bincount(hashes[places][kept].astype(int), minlength=2) / (3 * n)
    expected = np.bincount(hashes[:10].astype(int), minlength=2) / 10
    assert shares == pytest.approx(expected, abs=0.025)  # 5 deviations
    alone = owners < 7  # who else is there decides nothing
    few, mine = hashes[places][alone], owners[alone]
    again = choose(mine, few.__getitem__, lambda first: words[mine[first]], unit)
    assert np.array_equal(again.sizes, found.sizes[alone])
    for most in (255, 256):  # on both sides of what a byte holds
        rows = np.arange(300, dtype=np.uint64)
        found = choose(
            np.zeros(300, np.intp), rows.__getitem__, words.__getitem__, PersonUnit(most)
        )
        assert np.count_nonzero(found.sizes) == found.sizes.max() == most


def test_a_person_has_one_vote_as_fractions(seed: int) -> None:
    unit = PersonUnit(3)
    rows, codes = some_rows(60, seed)
    ids = np.repeat(np.arange(30), 2)
    ids[::7] = 40
    counts = summed(rows, codes, ids, unit, ClassCounts(CLASSES))
    assert counts.sum() == pytest.approx(len(np.unique(ids)), abs=CLASSES * 2.0**-24)
    exact = Fraction(0)
    for each in np.unique(ids[ids != 40]):
        mine = truncate_to_grid(rows[ids == each], ROW_BITS)[:, 0]
        exact += sum(Fraction(float(x)) ** 2 for x in mine) / len(mine)
    few = ids != 40
    total = summed(rows[few], codes[few], ids[few], unit, SecondMoment(WIDTH))[0, 0]
    assert abs(Fraction(float(total)) - exact) <= Fraction(1, 2**24)


def test_a_clipped_person_is_shrunk_as_a_whole() -> None:
    """A broken variant that bounds each row on its own passes the joint bound."""
    unit = PersonUnit(16)
    rows = np.tile(truncate_to_grid(np.array([[0.0, 1 - 2.0**-30, 0.0]]), ROW_BITS), (16, 1))
    codes = np.ones(16, dtype=np.intp)
    ids = np.zeros(16)
    bound = unit.sensitivity(gradient(unit), "add_or_remove_one", 1)
    found = np.linalg.norm(summed(rows, codes, ids, unit, gradient(unit)))
    broken = np.linalg.norm(summed(rows, codes, ids, unit, GradientSum(LOSS, 0.25, WEIGHTS)))
    assert 0.9 * bound <= found <= bound < broken


def test_ids_of_any_kind() -> None:
    odd = [1, "1", 1.0, None, np.nan, "", "  ", {}, float("inf"), "nan", "a", b"a", "01", True]
    codes = person_codes(odd)
    assert codes.tolist() == [0, 0, 0, -1, -1, -1, -1, -1, -1, -1, 1, 1, 2, 0]
    assert person_codes([Decimal("1e9999"), "a", Decimal("1e9999")]).tolist() == [0, 1, 0]
    assert person_codes([str(2**53 + 1), 2**53 + 1, str(2**53)]).tolist() == [0, 0, 1]
    for column in (["a", None, "b", "b"], pa.array(["a", None, "b", "b"])):
        assert person_codes(column).tolist() == [0, -1, 1, 1]
    assert person_codes([]).size == 0
    assert person_codes(np.array([13, 11, 13])).tolist() == [2, 0, 2]
    assert person_codes(np.array([2.0, np.nan, 2.0])).tolist() == [0, -1, 0]
    with pytest.raises(InvalidInputError, match="one column"):
        person_codes(np.zeros((2, 2)))


LONG = [2**53, 2**53 + 1, 2**63 - 1, 5]  # as doubles the first two are one


def columns_of_ids(ids: list[int | None]) -> list[object]:
    return [
        pa.array(ids, "int64"),
        pa.chunked_array([ids[:2], ids[2:]], "int64"),
        pa.table({"id": pa.array(ids, pa.decimal128(20, 0))}).column(0),
        pl.Series(ids, dtype=pl.Int64),
        pd.Series(ids, dtype="Int64"),
        pd.Series(ids, dtype="int64[pyarrow]"),
        ids,
    ]


def test_a_missing_id_makes_no_two_persons_one() -> None:
    """Libraries make doubles of whole numbers beside a missing one, which then are too short."""
    gaps: list[int | None] = [*LONG, None]
    for whole, odd in zip(columns_of_ids([*LONG]), columns_of_ids(gaps), strict=True):
        assert person_codes(whole).tolist() == person_codes(odd).tolist()[:4] == [0, 1, 2, 3]
        assert person_digests(whole).tolist() == person_digests(odd).tolist()[:4]
        assert not any(bytes(person_digests(odd)[4]))


@pytest.mark.parametrize("n_long", range(7))
def test_a_double_too_long_is_no_id_however_many_there_are(n_long: int) -> None:
    """pandas makes doubles of whole numbers beside a missing one, and some of them are one then."""
    long = [10**16 + number for number in range(6)]
    assert len(set(person_codes(pd.Series(long)))) == 6
    assert len(set(person_codes(pd.Series([*long, None], dtype="Int64")))) == 7
    ids = np.array([*long[:n_long], *range(6 - n_long)], dtype=np.float64)
    expected = [-1] * n_long + list(range(6 - n_long))
    for column in (ids, pd.Series(ids), pa.array(ids), pl.Series(ids), ids.tolist()):
        assert person_codes(column).tolist() == expected
        assert [any(bytes(each)) for each in person_digests(column)] == [c >= 0 for c in expected]
    short = np.array([2**24 + 2, 2**24, 2**24 - 1, 5], dtype=np.float32)  # of fewer digits
    for column in (short, pd.Series(short), pa.array(short), pl.Series(short)):
        assert person_codes(column).tolist() == [-1, -1, 0, 1]


ODD_IDS: list[object] = [
    *(7, 7.0, "7", "7.0", "07", True, 2**53, 2**53 + 1, 2**63, 2**64, -(2**63), 10**5000),
    *("", None, float("nan"), float("inf"), " 7 ", b"7", b"\xff", Decimal(7), Decimal("7.5"), 7.5),
    *(date(2020, 1, 1), datetime(2020, 1, 1), pd.Timestamp(2020, 1, 1), pd.NaT, pd.NA),
    *(np.datetime64("2020-01-01"), np.float32(0.1), np.int8(7), np.uint64(2**64 - 1), 1j),
    *("\ud800", (1, 2), [1], {}),
]


def test_whether_two_ids_are_one_person_depends_on_these_two_alone() -> None:
    """Neither the type that a library finds for all cells, nor an ID that it cannot read."""

    def are_one(found: Any) -> bool:
        return bool(found[0] == found[1] and any(bytes(np.asarray(found[0]))))

    rng = np.random.default_rng(0)
    alone: dict[tuple[int, int], bool] = {}
    for _ in range(600):
        places = rng.choice(len(ODD_IDS), 4, replace=False)
        cells = np.empty(4, dtype=object)
        for i, place in enumerate(places):
            cells[i] = ODD_IDS[place]
        digests, codes = person_digests(cells), person_codes(cells)
        assert alone.setdefault(tuple(places[:2]), are_one(person_digests(cells[:2]))) == are_one(
            digests
        )
        for i, j in combinations(range(4), 2):
            assert (codes[i] == codes[j] >= 0) == are_one(digests[[i, j]])
    for odd in ([2**64 - 1, 2**64 - 3], [2**63 + 5, 1]):  # beyond signed numbers, and not
        assert len(set(person_codes(np.array(odd, dtype=np.uint64)))) == 2
    assert person_codes(np.array([-128, 127] * 100, dtype=np.int8))[:2].tolist() == [0, 255]


@pytest.mark.parametrize("relation", [Relation.REPLACE_ONE, Relation.ADD_OR_REMOVE_ONE])
def test_a_joint_bound_holds_for_its_own_unit_alone(relation: Relation) -> None:
    unit, other = PersonUnit(4, "sum"), PersonUnit(5, "sum")
    weights = np.zeros((1, 3))
    assert ResidualSum(1.0, weights)._joined_sensitivity(relation, unit) is None
    joined = ResidualSum(1.0, weights, PerPersonClip.default(unit, 1.0))
    with pytest.raises(InvalidInputError, match="different units"):
        joined._joined_sensitivity(relation, other)
    times = 2 if relation is Relation.REPLACE_ONE else 1
    assert joined._joined_sensitivity(relation, unit) == pytest.approx(2.0 * times, rel=1e-4)
    for per_person, cuts in (("sum", 4), ("average", 1)):  # every row's slopes are cut to the grid
        clip = PerPersonClip(PersonUnit(4, per_person), 0.25)
        assert clip.length(9) == 0.25 + cuts * 3 * 2.0**-ROW_BITS


@pytest.mark.parametrize("norm", [1, 2, "part"])
def test_averages_pay_for_the_rounding_of_every_number_that_they_touch(norm: Any) -> None:
    """Rows of two persons touch 2 k cells of each table; every one is rounded, by half a step."""
    tables = CountTables((4, 5, 6), ((0, 1), (2,)), 2)
    unit, step = PersonUnit(MOST, "average"), 2.0**-AVERAGE_BITS
    touched = 2 * MOST * {1: 2, 2: 2, "part": 1}[norm]
    rounding = 2 * step * (math.sqrt(touched) if norm == 2 else touched)
    for relation in Relation:
        one = tables.sensitivity(relation, 1, norm)
        found = unit.sensitivity(tables, relation, 10**6, norm)
        assert found - one == pytest.approx(rounding, rel=1e-6)
    plain = SecondMoment(WIDTH)
    found = unit.sensitivity(plain, Relation.REPLACE_ONE, 10**6, norm=1)
    one = plain.sensitivity(Relation.REPLACE_ONE, 1, norm=1)
    assert found - one == pytest.approx(2 * step * plain.size, rel=1e-6)
    rounding = plain._rounding(2**40)  # sums too large for doubles, in whole numbers of rows
    summed = [PersonUnit(MOST, "sum").sensitivity(plain, "replace_one", 2**40, n) for n in (1, 2)]
    terms = [MOST * plain.sensitivity("replace_one", 1, n) for n in (1, 2)]
    assert summed[1] - terms[1] == pytest.approx(rounding, rel=1e-6)
    assert summed[0] - terms[0] == pytest.approx(rounding * math.sqrt(plain.size), rel=1e-6)
    near = GroupSums(1, 1, apart=0.25)  # rows may be fewer: no row lies farther from others
    assert PersonUnit(MOST, "sum").sensitivity(near, "replace_one", 9, 1) == MOST


def test_a_missing_label_changes_no_bit_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of rows in single precision, whose products are kept, and others in double precision."""
    rows, codes = some_rows(60, 3)
    ids, found, sums, unit = np.repeat(np.arange(20), 3), [], [], PersonUnit(3)
    law = PerPersonClip.shrinkage
    monkeypatch.setattr(PerPersonClip, "shrinkage", lambda *a: found.append(law(*a)) or found[-1])
    joined = PerPersonClip(unit, 0.05)
    statistic = GradientSum(SoftmaxLoss(2), 1.0, np.full((1, WIDTH), 0.25), joined=joined)
    blank, known = rows * (np.arange(60) > 0)[:, None], (codes > 1).astype(np.intp)
    for each, given in ((rows, known), (rows, np.append(-1, known[1:])), (blank, known)):
        records = records_of(each, given, ids, unit).cache(in_singles=True)
        sums.append(doubles(records._sum(statistic)))
    np.testing.assert_array_equal(sums[1], sums[2])  # a row of no class is one of zeros
    np.testing.assert_array_equal(found[0][1:], found[1][1:])


def test_missing_ids_among_texts_and_numbers_written_with_a_point():
    assert person_codes(np.array(["a", None, "b", None], dtype=object)).tolist() == [0, -1, 1, -1]
    assert person_codes(np.array([[7], [8], [7]])).tolist() == [7, 8, 7]
    ids, rows = [None, 1, 1, None, 2, math.nan], np.arange(6.0)[:, None]  # theirs are dropped
    kept = select_person_rows(rows, np.zeros(6, dtype=np.intp), ids, PersonUnit(2), group=False)
    assert (kept.n_persons, kept.sizes.tolist()) == (2, [0, 2, 2, 0, 1, 0])
    zero, other = row_hashes(np.array([[0.0], [-0.0]]), np.zeros(2, dtype=np.intp))
    assert zero == other
    same = person_codes(np.array(["0.5", "1.50", "00.5", "0.50", "1.5"], dtype=object)).tolist()
    assert same == [0, 1, 2, 0, 1]


def test_short_persons_are_left_as_they_are_and_no_residual_passes_its_clip():
    clip = PerPersonClip(PersonUnit(2, "sum"), 0.5)
    rows, slopes = np.full((4, 3), 0.5), np.full((4, 1), 2.0**-6)
    for products in (None, rows.reshape(2, 2, 3) @ np.swapaxes(rows.reshape(2, 2, 3), 1, 2)):
        assert clip.shrinkage(products, rows, slopes, 2) == pytest.approx(1.0, abs=1e-9)
        assert clip.shrinkage(products, rows, 2.0**6 * slopes, 2) == pytest.approx(
            0.5 / np.linalg.norm([1.0, 1.0, 1.0]), rel=1e-6
        )
    most = 0.5 * (1 - 2.0**-45)  # a hair below the grid
    row = np.array([[1.0, 0.0, -5.0]])
    assert np.abs(ResidualSum(most, np.zeros((1, 2))).add_up(row, None)).max() <= most
    row[0, -1] = np.nan  # a record without a target adds nothing
    assert not ResidualSum(most, np.zeros((1, 2))).add_up(row, None).any()
