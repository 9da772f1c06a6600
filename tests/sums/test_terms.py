"""A term that is not finite, or longer than its statistic declares, is zero: on every route."""

from __future__ import annotations

import itertools
import pkgutil
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from inspect import isabstract
from typing import Any, ClassVar

import array_api_strict
import numpy as np
import pytest

import sfumato
from sfumato.exceptions import InvalidInputError
from sfumato.models.additive_rows import (
    AdditiveScores,
    HatRows,
    HatSums,
    PairRows,
    PublicColumns,
    ScoreAndTarget,
    SideMeans,
)
from sfumato.models.curves import CurveSum
from sfumato.models.search import ScoreSum
from sfumato.models.statistics import GroupSums
from sfumato.privacy.guarantee import Relation
from sfumato.sums import ArrayRecords, Records, SecondMoment, Statistic
from sfumato.sums.gradients import GradientSum, ResidualSum, SoftmaxLoss
from sfumato.sums.grid import BLOCK_ROWS, SecretSum
from sfumato.sums.maps import BesideTarget
from sfumato.sums.partitions import PartitionedRecords
from sfumato.sums.persons import PerPersonClip, PersonUnit
from sfumato.sums.records import BatchRecords
from sfumato.sums.statistics import (
    ClassCounts,
    ClassMoments,
    Counts,
    CountTables,
    MeanAndSquares,
    Parts,
    PlaceCounts,
    PlaceTree,
    RunCounts,
)
from sfumato.sums.table_parts import LocalParts
from sfumato.tables.bounds import Bounds
from tests.sums.sources import doubles

WIDTH, CLASSES, OTHERS, MOST = 3, 2, 9, 3
ADD, REPLACE = Relation.ADD_OR_REMOVE_ONE, Relation.REPLACE_ONE
NO_NUMBERS = (np.nan, np.inf, -np.inf, 1e300)
TWO, THREE = (SoftmaxLoss(classes) for classes in (2, 3))


def gradients() -> Iterator[GradientSum]:
    for loss, weight in itertools.product((TWO, THREE), (1.0, *NO_NUMBERS)):
        weights = np.full((loss.n_scores, WIDTH), 0.5)
        weights[0, 0] = weight
        yield GradientSum(loss, 0.25, weights)
    yield GradientSum(TWO, 1.5, np.ones((1, WIDTH)), slope_bits=8)


def class_moments() -> Iterator[ClassMoments]:
    yield ClassMoments(CLASSES, WIDTH, constant=0.5)
    for number in (0.0, *NO_NUMBERS):
        means, axes = np.zeros((CLASSES, WIDTH)), np.ones((CLASSES, WIDTH, 2))
        means[0, 0] = axes[0, 1, 0] = number
        yield ClassMoments(CLASSES, WIDTH, parts=Parts(means, axes))


# Every statistic with honest and with hostile public numbers, and the numbers beside its rows.
STATISTICS: dict[type[Statistic], tuple[list[Statistic], int]] = {
    ClassCounts: ([ClassCounts(CLASSES)], 0),
    MeanAndSquares: ([MeanAndSquares(WIDTH)], 0),
    SecondMoment: ([SecondMoment(WIDTH)], 0),
    ClassMoments: (list(class_moments()), 0),
    CountTables: ([CountTables((2, 3, 4), ((0,), (1, 2)), CLASSES)], 0),
    GradientSum: (list(gradients()), 0),
    ResidualSum: ([ResidualSum(0.5, np.array([[w, 1.0, 0.0]])) for w in (1.0, *NO_NUMBERS)], 1),
    PlaceCounts: ([PlaceCounts((0, 2))], 0),
    PlaceTree: ([PlaceTree((0, 2))], 0),
    HatSums: ([HatSums(CLASSES, WIDTH, has_target=True)], 1),
    SideMeans: ([SideMeans(WIDTH)], 1),
    ScoreSum: ([ScoreSum()], 0),
    GroupSums: ([GroupSums(2, WIDTH - 1)], 0),
    RunCounts: ([RunCounts(2, 3, 2, (1.0, 0.25)), RunCounts(1, 6, 6, (1.0,))], 0),
    CurveSum: ([CurveSum(WIDTH), CurveSum(WIDTH, weight=0.5)], 0),
}
CASES = [
    pytest.param(statistic, beside, id=f"{kind.__name__}-{number}")
    for kind, (listed, beside) in STATISTICS.items()
    for number, statistic in enumerate(listed)
]


def test_every_statistic_is_listed() -> None:
    for module in pkgutil.walk_packages(sfumato.__path__, "sfumato."):
        if "federated.flower" not in module.name and not module.name.endswith("__main__"):
            import_module(module.name)
    kinds, found = [Statistic], set()
    while kinds:
        kinds += (below := kinds.pop().__subclasses__())
        ours = (each for each in below if each.__module__.startswith("sfumato."))
        found |= {each for each in ours if not isabstract(each)}
    assert found == set(STATISTICS)


@dataclass(frozen=True)
class Same:
    """A map that leaves rows as they are."""

    width: int

    def __call__(self, rows: Any) -> Any:
        return np.array(rows)


def in_memory(rows: np.ndarray, codes: np.ndarray, beside: int) -> Records:
    return ArrayRecords(rows, codes, relation=ADD)


def mapped(rows: np.ndarray, codes: np.ndarray, beside: int) -> Records:
    kept = ArrayRecords(rows, codes, relation=ADD)
    return kept.mapped(BesideTarget(Same(rows.shape[1] - beside), bool(beside), scale=1 / 64))


def in_batches(rows: np.ndarray, codes: np.ndarray, beside: int) -> Records:
    def read() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start in range(0, len(rows), 4):
            yield rows[start : start + 4], codes[start : start + 4]

    return BatchRecords(read, width=rows.shape[1], relation=ADD)


def in_parts(rows: np.ndarray, codes: np.ndarray, beside: int) -> Records:
    halves = [[(rows[part], codes[part])] for part in (slice(5), slice(5, None))]
    parts = LocalParts([half.__iter__ for half in halves], rows.shape[1])
    found = PartitionedRecords(parts, tuple, width=rows.shape[1], relation=ADD)
    return found.mapped(BesideTarget(Same(rows.shape[1] - beside), bool(beside), scale=1 / 64))


ROUTES: dict[str, Callable[[np.ndarray, np.ndarray, int], Records]] = {
    "memory": in_memory,
    "batches": in_batches,
    "mapped": mapped,
    "kept": lambda *given: mapped(*given).cache(),
    "parts": in_parts,
    "parts kept": lambda *given: in_parts(*given).cache(),
}
IN_SINGLES = {
    "singles": lambda *given: mapped(*given).cache(in_singles=True),
    "parts in singles": lambda *given: in_parts(*given).cache(in_singles=True),
}


def odd_rows(beside: int) -> list[np.ndarray]:
    """Rows no honest map gives, and a few that it does, at the edge of the ball."""
    points = [np.eye(WIDTH)[0], -np.eye(WIDTH)[1], np.zeros(WIDTH), np.full(WIDTH, 0.5)]
    points += [np.full(WIDTH, 1.0), np.array([1.0, 2.0**-18, 0.0]), np.full(WIDTH, -40.0)]
    for number, place in itertools.product(NO_NUMBERS, (0, WIDTH - 1)):
        points.append(np.where(np.arange(WIDTH) == place, number, 0.25))
    targets = (0.5, -0.5, *NO_NUMBERS) if beside else (None,)
    return [
        row if target is None else np.append(row, target)
        for row, target in itertools.product(points, targets)
    ]


def honest(n_rows: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(7)
    rows = Bounds(norm=0.9).clip(np.abs(generator.normal(size=(n_rows, width))))
    return rows, generator.integers(0, CLASSES, n_rows).astype(np.intp)


def distances(statistic: Statistic, beside: int, route: Callable[..., Records]) -> dict[Any, float]:
    """The farthest that a record at any place moves a sum, by relation and norm."""
    rows, codes = honest(OTHERS, WIDTH + beside)

    def summed(row: np.ndarray | None, place: int, code: int) -> np.ndarray:
        numbers = rows if row is None else np.insert(rows, place, row, axis=0)
        labels = codes if row is None else np.insert(codes, place, code)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return doubles(route(numbers, labels, beside)._sum(statistic)).ravel()

    places = itertools.cycle([(0, 0), (OTHERS // 2, 1), (OTHERS, 1), (3, 0)])
    terms = [summed(row, *place) for row, place in zip(odd_rows(beside), places, strict=False)]
    apart = {ADD: np.array(terms) - summed(None, 0, 0)}
    some = terms[:: 1 + len(terms) // 40]
    apart[REPLACE] = np.array([a - b for a, b in itertools.combinations(some, 2)])
    return {
        (relation, norm): np.linalg.norm(moved, ord=norm, axis=1).max()
        for relation, moved in apart.items()
        for norm in (1, 2)
    }


@pytest.mark.parametrize(("statistic", "beside"), CASES)
def test_no_record_moves_a_sum_further_than_declared(statistic: Statistic, beside: int) -> None:
    routes = ROUTES | (IN_SINGLES if statistic.takes_singles else {})
    if statistic is not STATISTICS[type(statistic)][0][0]:  # the same routes, hostile numbers
        routes = {name: route for name, route in routes.items() if name in ("memory", "singles")}
    if isinstance(statistic, Counts | ScoreSum | SideMeans):
        routes = {name: route for name, route in routes.items() if "kept" not in name}
    for name, route in routes.items():
        for (relation, norm), moved in distances(statistic, beside, route).items():
            declared = statistic.sensitivity(relation, OTHERS + 1, norm)
            assert moved <= declared * (1 + 1e-12), (name, relation, norm, moved, declared)


@pytest.mark.parametrize("way", ["average", "sum"])
@pytest.mark.parametrize(("statistic", "beside"), CASES)
def test_no_person_moves_a_sum_further_than_declared(
    statistic: Statistic, beside: int, way: str
) -> None:
    unit = PersonUnit(MOST, way)
    if isinstance(statistic, GradientSum | ResidualSum):
        longest = statistic.max_gradient_norm
        statistic = replace(statistic, joined=PerPersonClip.default(unit, longest))
    rows, codes = honest(5, WIDTH + beside)
    ids = [*"aabcc"]

    def summed(new: list[np.ndarray], kept: bool) -> np.ndarray:
        records: Records = ArrayRecords.of_persons(
            np.vstack([rows, *new]) if new else rows,
            np.append(codes, np.zeros(len(new), dtype=np.intp)),
            groups=[*ids, *["new"] * len(new)],
            unit=unit,
            relation=ADD,
        ).mapped(BesideTarget(Same(WIDTH), bool(beside), scale=1 / 64))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return doubles((records.cache() if kept else records)._sum(statistic)).ravel()

    declared = unit.sensitivity(statistic, ADD, 10)
    of_balls = bool(statistic.in_ball)
    for kept in (False, True)[: 1 + of_balls]:
        without = summed([], kept)
        odd = odd_rows(beside)
        some = (odd[place : place + MOST] for place in range(0, len(odd), MOST))
        for new in (*([row] * MOST for row in odd), *some):
            assert np.linalg.norm(summed([*new], kept) - without) <= declared * (1 + 1e-12)


@pytest.mark.parametrize(("statistic", "beside"), CASES)
def test_a_zero_term_is_as_near_as_any_other(statistic: Statistic, beside: int) -> None:
    """So replacing a record by one whose term is zero is covered, in every norm."""
    assert statistic.is_symmetric == isinstance(statistic, SecondMoment | ClassMoments)
    for norm in (1, 2, "part"):
        added, replaced = (statistic.sensitivity(each, 10, norm) for each in (ADD, REPLACE))
        assert added <= replaced


def test_terms_of_rows_outside_the_ball_are_zero_and_no_others() -> None:
    rows, codes = honest(20, WIDTH)
    with np.errstate(over="ignore"):
        odd = np.array([row for row in odd_rows(0) if not (row**2).sum() <= 1])
    for statistic in (SecondMoment(WIDTH), MeanAndSquares(WIDTH), CurveSum(WIDTH, 0.5)):
        alone = ArrayRecords(rows, codes, relation=ADD)._sum(statistic)
        together = ArrayRecords(np.vstack([odd, rows]), relation=ADD)._sum(statistic)
        assert np.array_equal(together.integers(), alone.integers())
        assert together.n_rows == len(odd) + len(rows)


def test_rows_of_an_accelerator_are_looked_at_too() -> None:
    rows, codes = honest(20, WIDTH)
    odd = np.vstack([odd_rows(0), rows])
    labels = np.append(np.zeros(len(odd) - 20, dtype=np.intp), codes)
    for statistic in (SecondMoment(WIDTH), *gradients()):
        there = ArrayRecords(array_api_strict.asarray(odd), labels, relation=ADD)
        here = ArrayRecords(odd, labels, relation=ADD)
        assert there._sum(statistic) == here._sum(statistic)
        assert there.cache(in_singles=True)._sum(SecondMoment(WIDTH)) == here.cache(
            in_singles=True
        )._sum(SecondMoment(WIDTH))


def test_a_term_that_is_no_number_is_zero_whatever_the_statistic() -> None:
    """A statistic that looks at nothing itself: others of the block keep their terms."""

    class Roots(SecondMoment):
        in_ball = 0
        seen: ClassVar[list[int]] = []

        def add_up(self, rows: np.ndarray, codes: np.ndarray) -> np.ndarray:
            self.seen.append(len(rows))
            return np.full(self.shape, np.sqrt(rows[:, 0]).sum())

    roots = np.full(1000, 0.25)
    roots[[3, 500, 999]] = -1.0
    statistic = Roots(1)
    records = ArrayRecords(roots[:, None], relation=ADD)
    assert doubles(records._sum(statistic)) == 997 * 0.5
    assert len(statistic.seen) < 100  # by halves, not row by row


@pytest.mark.parametrize("number", [np.nan, np.inf, 1e300, 2.5, -2.5])
def test_a_sum_is_never_cast_that_is_no_sum_of_terms(number: float) -> None:
    for total, n_rows in ((SecretSum((2, 2)), 1), (SecretSum((2, 2)), BLOCK_ROWS)):
        with pytest.raises(InvalidInputError, match="no sum of terms"):
            total.add(np.array([[0.0, 1.0], [number * n_rows, 0.0]]), n_rows)
        assert total.n_rows == 0
        total.add(np.full((2, 2), -2.0 * n_rows), n_rows)


@pytest.mark.parametrize("name", ["intercept", "coef"])
@pytest.mark.parametrize("number", NO_NUMBERS)
def test_hostile_scores_move_a_released_sum_no_further(name: str, number: float) -> None:
    """The attack of a coordinator that sends an intercept that is not a number."""
    columns = PublicColumns.of(Bounds(lower=0.0, upper=1.0), ("a", "b"))
    rows = PairRows(
        HatRows(columns, np.array([[0.0, 1.0]] * 2)), np.zeros(4), np.empty((0, 2), int)
    )
    numbers = {"coef": np.ones((1, 4)), "intercept": np.zeros(1)}
    numbers[name].flat[0] = number
    scores = AdditiveScores(rows, **numbers)
    cells = np.random.default_rng(1).uniform(size=(8, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        totals = [
            doubles(
                ArrayRecords(part, relation=ADD)
                .mapped(ScoreAndTarget(scores, 0.0, 1.0))
                ._sum(SecondMoment(3))
            )
            for part in (cells, cells[1:])
        ]
    assert np.linalg.norm(totals[0] - totals[1]) <= 1


@pytest.mark.parametrize("code", [-1, CLASSES, 10**6])
@pytest.mark.parametrize(
    "statistic",
    [
        ClassCounts(CLASSES),
        ClassMoments(CLASSES, WIDTH),
        GradientSum(THREE, 1.0, np.ones((3, WIDTH))),
    ],
    ids=lambda statistic: type(statistic).__name__,
)
def test_a_class_that_nobody_declared_raises_no_error(statistic: Any, code: int) -> None:
    """It moves the sum no further than any record does, and no other record's term."""
    rows, codes = np.full((5, WIDTH), 0.1), np.array([0, 1, 2, 1, 0])
    usual = doubles(ArrayRecords(rows, codes, relation="replace_one")._sum(statistic))
    codes[3] = code
    found = doubles(ArrayRecords(rows, codes, relation="replace_one")._sum(statistic))
    assert np.linalg.norm(found - usual) <= statistic.sensitivity("replace_one", 5)


@pytest.mark.parametrize(
    ("statistic", "replaced", "added"),
    [
        (ClassCounts(CLASSES), 2**0.5, 1.0),
        (MeanAndSquares(WIDTH), 2.0, 3**0.5),
        (SecondMoment(WIDTH), 2**0.5, 1.0),
        (ClassMoments(CLASSES, WIDTH, constant=0.5), 1.25 * 2**0.5, 1.25),
        (CountTables((2, 3, 4), ((0,), (1, 2)), CLASSES), 2.0, 2**0.5),
        (GradientSum(TWO, 0.25, np.ones((1, WIDTH))), 0.5, 0.25),
        (ResidualSum(0.25, np.ones((1, WIDTH))), 0.5, 0.25),
        (PlaceCounts((0, 2)), 2.0, 2**0.5),
        (PlaceTree((0, 2)), 12**0.5, 6**0.5),
        (RunCounts(2, 3, 2, (1.0, 0.25)), 2.125**0.5, 1.0625**0.5),
        (HatSums(CLASSES, WIDTH), 2**0.5, 1.0),
        (SideMeans(3), 12**0.5, 6**0.5),
        (CurveSum(WIDTH, weight=0.5), 2.0, 1.25**0.5),
    ],
    ids=lambda each: type(each).__name__,
)
def test_no_more_is_declared_than_the_sheets_prove(
    statistic: Statistic, replaced: float, added: float
) -> None:
    """A sensitivity that is too large wastes the budget, and no hostile record shows it."""
    assert statistic.sensitivity(REPLACE, 10) == pytest.approx(replaced)
    assert statistic.sensitivity(ADD, 10) == pytest.approx(added)
