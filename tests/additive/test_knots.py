"""Private knots: the exact law of the cuts, and what they find."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from sfumato.exceptions import InvalidInputError
from sfumato.ledger.receipt import prepay
from sfumato.mechanisms.exponential import QuantileMechanism
from sfumato.models.additive.columns import PublicColumns
from sfumato.models.additive.knots import EDGES, PlaceCounts, knots_at, public_knots, release_knots
from sfumato.privacy.calibrate import gaussian_mu_beside
from sfumato.privacy.composition import epsilon_spent
from sfumato.privacy.events import BoundedRangeEvent, GaussianEvent, RepeatedEvent
from sfumato.privacy.gaussian import mu_from_budget
from sfumato.privacy.guarantee import Relation
from sfumato.sums.records import ArrayRecords


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


def test_counts_are_those_of_a_literal_loop(rng: np.random.Generator) -> None:
    places = rng.uniform(size=(500, 3))
    places[:40, 1] = np.nan
    places[40:60, 1] = 0.0
    places[60:80, 1] = 1.0
    counts = PlaceCounts((1,)).add_up(places, np.zeros(500, dtype=np.intp))
    literal = np.zeros_like(counts)
    for place in places[40:, 1]:
        literal[0, sum(1 for edge in EDGES if edge <= place)] += 1
    np.testing.assert_array_equal(counts, literal)


def test_knots_lie_at_quantiles(noise: None, rng: np.random.Generator) -> None:
    places = np.column_stack([rng.beta(1, 30, 20_000), np.where(rng.random(20_000) < 0.9, 0, 0.5)])
    records = ArrayRecords(places, relation="add_or_remove_one")
    mechanism = QuantileMechanism(1.0, 0.05, 2, 3)
    receipt = prepay(None, mechanism.event())
    knots = release_knots(records, (0, 1), mechanism, mechanism.n_levels, receipt)
    assert receipt.unused() == ()
    assert (np.diff(knots, axis=1) > 0).all()
    assert (knots[:, 0] == 0).all()
    assert (knots[:, -1] == 1).all()
    shares = np.searchsorted(np.sort(places[:, 0]), knots[0, 1:-1]) / 20_000
    np.testing.assert_allclose(shares, np.arange(1, 8) / 8, atol=0.1)
    assert np.count_nonzero(knots[1] > 0.5) >= 2  # equal values do not swallow the knots


def test_parts_that_were_not_cut_are_halved() -> None:
    cuts = np.array([[np.nan, 1.0, np.nan]])
    knots = knots_at(cuts)
    np.testing.assert_allclose(knots[0], [0, EDGES[0] / 2, EDGES[0], (1 + EDGES[0]) / 2, 1])


def test_public_knots_go_by_the_public_range() -> None:
    columns = PublicColumns(
        ("a", "b", "c"), (-1.0, 0.0, 0.0), (1.0, 5.0, 2.0), (None, ("x",), None)
    )
    even, squares = public_knots(columns, 2)
    np.testing.assert_allclose(even, [0, 0.25, 0.5, 0.75, 1])
    np.testing.assert_allclose(squares, [0, 1 / 16, 1 / 4, 9 / 16, 1])


def test_a_column_of_few_cells_is_not_cut_further(noise: None) -> None:
    cuts = QuantileMechanism(1.0, 1.0, 1, 3).release(np.array([[1.0, 2.0]]), ledger=None)
    assert np.count_nonzero(~np.isnan(cuts)) == 1


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


def test_cuts_that_cost_everything_are_refused() -> None:
    cuts = (RepeatedEvent(BoundedRangeEvent(1.0), 100),)
    with pytest.raises(InvalidInputError, match="leaves no room"):
        gaussian_mu_beside(cuts, epsilon=1.0, delta=1e-5, relation=Relation.REPLACE_ONE)
