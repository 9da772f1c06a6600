"""Rows of additive models: hats, pairs and places against literal loops, and how far sums move."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sfumato.ledger.receipt import prepay
from sfumato.mechanisms.exponential import QuantileMechanism
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.models.additive_rows import (
    LEVELS,
    AdditiveScores,
    CellCodes,
    HatRows,
    HatSums,
    PairRows,
    PublicColumns,
    SideMeans,
    Sides,
    WhiteRows,
    knots_at,
    whole_knots,
)
from sfumato.privacy.composition import epsilon_spent, gaussian_mu_beside
from sfumato.privacy.events import BoundedRangeEvent, GaussianEvent, RepeatedEvent
from sfumato.privacy.gaussian import mu_from_budget
from sfumato.privacy.guarantee import Relation
from sfumato.sums.coded import STEPS, TARGETS
from sfumato.sums.grid import ScoreWeights
from sfumato.sums.maps import LinearRows
from sfumato.sums.records import ArrayRecords
from sfumato.sums.statistics import (
    EDGES,
    PlaceCounts,
    PlaceTree,
    SecondMoment,
    cuts_by_counts,
)

COLUMNS = PublicColumns(
    ("age", "town", "pay"), (0.0, 0.0, -5.0), (100.0, 3.0, 5.0), (None, ("a", "b", "c"), None)
)
HATS = HatRows(COLUMNS, np.array([[0.0, 0.25, 1.0], [0.0, 0.5, 1.0]]))
ORDERS = np.array([-1, 0, 1, 0.5, -1, 1, -1, 0, 1], dtype=float)
PAIRS = PairRows(HATS, ORDERS, np.array(list(itertools.combinations(range(3), 2))))


@pytest.fixture
def cells(rng: np.random.Generator) -> np.ndarray:
    found = np.column_stack(
        [rng.uniform(-20, 120, 400), rng.integers(-1, 5, 400), rng.uniform(-7, 7, 400)]
    ).astype(float)
    found[rng.random(found.shape) < 0.1] = np.nan
    found[0] = [np.inf, np.inf, -np.inf]
    return found


def literal(row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The hats of height 1 of a record, and its number in each column."""
    hats, numbers = np.zeros(9), np.zeros(3)
    for i, low, high, knots, start in (
        (0, 0, 100, HATS.knots[0], 0),
        (2, -5, 5, HATS.knots[1], 6),
    ):
        if np.isfinite(row[i]):
            place = min(max((row[i] - low) / (high - low), 0), 1)
            for k in range(3):
                hats[start + k] = np.interp(place, knots, np.eye(3)[k])
            numbers[i] = np.interp(place, knots, ORDERS[start : start + 3])
    if row[1] in (0, 1, 2):
        hats[3 + int(row[1])] = 1
        numbers[1] = ORDERS[3 + int(row[1])]
    return hats, numbers


def test_hats_and_products_are_those_of_a_literal_loop(cells: np.ndarray) -> None:
    hats, numbers = (np.array(each) for each in zip(*map(literal, cells), strict=True))
    np.testing.assert_allclose(HATS(cells), hats / math.sqrt(3), atol=2.0**-25)
    products = np.column_stack([numbers[:, a] * numbers[:, b] for a, b in PAIRS.pairs])
    together = np.hstack([hats / math.sqrt(6), products / math.sqrt(6)])  # three pairs: w = 1/2
    np.testing.assert_allclose(PAIRS(cells), together, atol=2.0**-24)
    beside = np.column_stack([cells, np.full(len(cells), 7.0)])  # a target is no part of a row
    np.testing.assert_array_equal(PAIRS(beside), PAIRS(cells))


@pytest.mark.parametrize("rows", [HATS, PAIRS])
def test_rows_lie_in_the_unit_ball(rows: HatRows | PairRows, cells: np.ndarray) -> None:
    assert (np.sum(rows(cells) ** 2, axis=1) <= 1).all()
    corner = rows(np.array([[100.0, 2.0, 5.0]]))
    assert float(np.sum(corner**2)) == pytest.approx(1, abs=1e-6)


def test_sums_of_codes_are_those_of_rows_in_the_unit_ball_to_the_bit(
    cells: np.ndarray, rng: np.random.Generator
) -> None:
    target = np.where(np.arange(400) % 9 == 0, np.nan, rng.normal(size=400))
    basis = np.linalg.qr(rng.normal(size=(PAIRS.width, PAIRS.width)))[0] * rng.uniform(0.1, 1, 12)
    alone = replace(PAIRS, pairs=PAIRS.pairs[:0])
    for radius, most in ((1.0, 0), (0.3, 200), (1e-7, 2**15)):  # codes of one, two, all columns
        first = CellCodes(alone, most, True, 0.5, 2.0)
        code = replace(first, rows=PAIRS)
        plain = first(np.column_stack([cells, target]))
        assert len(first.tables) == {0: 3, 200: 2, 2**15: 1}[most]
        white = LinearRows(PAIRS.width, True, basis, constant=0.25, radius=radius)
        coded = WhiteRows(code, white, 19)
        rows = coded(coded(code(plain)).codes)  # kept, and opened again
        z = np.empty((400, PAIRS.width))
        for part, table, codes in rows.columns():
            z[:, part] = table[codes] / STEPS
        near = PAIRS(cells) / PAIRS.units
        assert np.abs(z - near)[:, :9].max() <= 1 / LEVELS
        assert np.abs(z - near)[:, 9:].max() < 0.2
        # Sums over hats, sides and products are those of rows on the grid.
        hats, ends = (
            z[:, :9] * first.units,
            np.where(np.isnan(target), np.nan, rows.targets()[:, 0]),
        )
        beside, none = np.column_stack([hats, ends]), np.zeros(400, dtype=np.intp)
        assert (np.sum((z * code.units) ** 2, axis=1) <= 1).all()
        for statistic, dense in (
            (HatSums(2, 9, has_target=True), beside),
            (SecondMoment(12), z * code.units),
        ):
            given = code(plain) if isinstance(statistic, SecondMoment) else plain
            assert np.array_equal(statistic.add_up(given, none), statistic.add_up(dense, none))
        sides = Sides(HATS, ORDERS, (0, 2), has_target=True)
        assert np.array_equal(sides(plain), sides(np.column_stack([z[:, :9], ends])), True)
        scores = AdditiveScores(PAIRS, rng.normal(size=(2, 12)), np.array([0.5, -1.0]))
        np.testing.assert_allclose(scores(rows), z @ scores.coef.T + scores.intercept, atol=1e-12)
        t = rows.codes[:, -1:] / coded.steps
        ones = np.full((400, 1), coded.height)
        a = np.hstack([t * (z @ coded.projection), ones]).astype(np.longdouble)
        lengths = np.sum(a**2, axis=1)
        assert lengths.max() <= 1
        assert radius == 1.0 or np.median(lengths) > 0.9
        scale = white.radius / coded.radius if radius < 2**-8 else 1.0
        full = white.weights_before * code.units[:, None] * scale
        np.testing.assert_allclose(coded.projection, full, atol=coded.steps * 2.0**-19)
        np.testing.assert_allclose(ends, (target - 0.5) / 2, atol=1 / TARGETS)
        weights = ScoreWeights(rng.normal(size=(2, coded.width)))
        assert np.array_equal(rows.scores(weights), a @ weights.rounded.T.astype(np.longdouble))
        slopes = np.rint(rng.uniform(-0.1, 0.1, (400, 2)) * 2.0**12) * 2.0**-12
        exact = slopes.T.astype(np.longdouble) @ a
        assert np.array_equal(rows.gathered(slopes, 12), exact)
        assert np.array_equal(exact * 2.0**36, np.rint(exact * 2.0**36))
        halves = rows[:200].gathered(slopes[:200], 12) + rows[200:].gathered(slopes[200:], 12)
        assert np.array_equal(halves, exact)


# The choice of pairs ------------------------------------------------------------------------------


def test_pairs_are_counted_by_their_sides(cells: np.ndarray, rng: np.random.Generator) -> None:
    target = np.where(np.arange(400) == 7, np.nan, rng.normal(size=400))
    sides = Sides(HATS, ORDERS, (0, 1, 2), has_target=True)
    rows = sides(np.column_stack([HATS(cells), target]))
    found = SideMeans(3).add_up(rows, np.zeros(400, dtype=np.intp))
    numbers = np.array([literal(row)[1] for row in cells])
    both = (numbers[:, 0] > 0) & (numbers[:, 1] > 0) & ~np.isnan(target)
    assert found.shape == (3, 2, 2, 2)
    assert found[0, 1, 1, 0] == both.sum() > 20
    assert found[0, 1, 1, 1] == pytest.approx(np.clip(target[both] / 2, -1, 1).sum(), abs=1e-2)
    assert found[0, ..., 0].sum() == 399  # all but the one without a target


# Knots --------------------------------------------------------------------------------------------


def law_of_level(parts: list[np.ndarray], epsilon: float, moved: float) -> dict[tuple, float]:
    """Probabilities of all joint cuts of one level, from the definition."""
    laws = []
    for counts in parts:
        scores = [-abs(counts[:k].sum() - counts[k:].sum()) for k in range(1, len(counts))]
        weights = np.exp(epsilon * np.array(scores) / (2 * moved))
        laws.append(weights / weights.sum())
    places = itertools.product(*(range(len(law)) for law in laws))
    return {p: math.prod(law[i] for law, i in zip(laws, p, strict=True)) for p in places}


@pytest.mark.parametrize("relation", list(Relation))
def test_a_level_has_bounded_range(relation: Relation) -> None:
    """All small tables, all neighbours: the log ratio of the joint law stays in a range epsilon."""
    epsilon, moved = 0.7, 2.0 if relation is Relation.REPLACE_ONE else 1.0
    largest = 0.0
    for counts in itertools.product(range(3), repeat=6):
        cells = np.array(counts, dtype=float)
        here = law_of_level([cells[:3], cells[3:]], epsilon, moved)
        for i, j in itertools.product(range(6), repeat=2):
            other = cells.copy()
            other[i] += 1
            if relation is Relation.REPLACE_ONE:
                if cells[j] == 0:
                    continue
                other[j] -= 1
            there = law_of_level([other[:3], other[3:]], epsilon, moved)
            ratios = [math.log(here[p] / there[p]) for p in here]
            largest = max(largest, max(ratios) - min(ratios))
    assert 0.95 * epsilon <= largest <= epsilon * (1 + 1e-9)


def test_cuts_follow_the_law(noise: None) -> None:
    counts = np.array([[3.0, 0.0, 1.0, 4.0]])
    mechanism = QuantileMechanism(1.0, 1.2, 1, 1)
    drawn = [int(mechanism.release(counts, ledger=None)[0, 0]) for _ in range(4000)]
    law = law_of_level([counts[0]], 1.2, 1.0)
    for (place,), chance in law.items():
        found = np.mean(np.array(drawn) == place + 1)
        assert abs(found - chance) < 5 * math.sqrt(chance * (1 - chance) / 4000)
    few = QuantileMechanism(1.0, 1.0, 1, 3).release(np.array([[1.0, 2.0]]), ledger=None)
    assert np.count_nonzero(~np.isnan(few)) == 1  # two cells are not cut further


def test_counts_are_those_of_a_literal_loop(rng: np.random.Generator) -> None:
    places = rng.uniform(size=(500, 3))
    places[:40, 1], places[40:60, 1], places[60:80, 1] = np.nan, 0.0, 1.0
    counts = PlaceCounts((1,)).add_up(places, np.zeros(500, dtype=np.intp))
    expected = np.zeros_like(counts)
    for place in places[40:, 1]:
        expected[0, sum(1 for edge in EDGES if edge <= place)] += 1
    np.testing.assert_array_equal(counts, expected)


@pytest.mark.parametrize("exact", [True, False])
def test_knots_lie_at_quantiles(noise: None, rng: np.random.Generator, exact: bool) -> None:
    """By cuts of exact counts, or by noisy counts, which are cut where nobody has exact ones."""
    places = np.column_stack([rng.beta(1, 30, 20_000), np.where(rng.random(20_000) < 0.9, 0, 0.5)])
    records = ArrayRecords(places, relation="add_or_remove_one")
    if exact:
        mechanism: Any = QuantileMechanism(1.0, 0.05, 2, 3)
        cuts = records.release(PlaceCounts((0, 1)), mechanism, prepay(None, mechanism.event()))
    else:
        moved = records.sensitivity(PlaceTree((0, 1)))
        mechanism = GaussianMechanism.from_mu(sensitivity=moved, mu=0.5)
        tree = records.release(PlaceTree((0, 1)), mechanism, prepay(None, mechanism.event()))
        cuts = cuts_by_counts(tree, 3)
    knots = knots_at(cuts)
    assert (np.diff(knots, axis=1) > 0).all()
    assert knots[:, [0, -1]].tolist() == [[0, 1], [0, 1]]
    shares = np.searchsorted(np.sort(places[:, 0]), knots[0, 1:-1]) / 20_000
    np.testing.assert_allclose(shares, np.arange(1, 8) / 8, atol=0.1)
    assert np.count_nonzero(knots[1] > 0.5) >= 2  # equal values do not swallow the knots


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 1e6])
def test_gaussian_releases_get_what_the_cuts_leave(epsilon: float) -> None:
    whole = mu_from_budget(epsilon, 1e-5)
    cuts = RepeatedEvent(BoundedRangeEvent(2 * whole * math.sqrt(0.05 / 18)), 18)
    relation = Relation.ADD_OR_REMOVE_ONE
    mu = gaussian_mu_beside((cuts,), epsilon=epsilon, delta=1e-5, relation=relation)
    gaussians = [GaussianEvent(1 / (mu * math.sqrt(share))) for share in (0.3, 0.6, 0.1)]
    assert epsilon_spent([cuts, *gaussians], 1e-5, relation) <= epsilon
    assert mu**2 > 0.9 * whole**2
    if epsilon < 100:
        more = GaussianEvent(1 / (1.01 * mu))
        assert epsilon_spent([cuts, more], 1e-5, relation) > epsilon


def test_knots_of_whole_numbers_are_whole() -> None:
    for n, places in (
        (20, [0, 0.01, 0.26, 0.3, 1]),
        (9, [0, 0.8, 0.9, 0.95, 1]),
        (2, [0, 1, 2, 3, 4]),
    ):
        columns = PublicColumns(("a",), (1.0,), (1.0 + n,), (None,), ("whole",))
        knots = whole_knots(columns, np.array([places], dtype=float))
        assert (np.diff(knots) > 0).all()
        assert knots[0, [0, -1]].tolist() == [0, 1]
        values = columns.values(0, knots[0])
        assert sum(isinstance(each, int) for each in values) == min(n + 1, 5)
    assert values == (1, 1.25, 1.5, 2, 3)
