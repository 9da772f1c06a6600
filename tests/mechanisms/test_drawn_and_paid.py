"""What every mechanism draws, measured at its samplers, against what it pays.

No formula of a mechanism is used. Samplers are replaced by scripts: noise of zero shows where the
centre of a release lies for two neighbours, and one noise number at a time which outputs it moves
and by how much. So the privacy loss of all draws is known in units of what the samplers were asked
for, and it must be the loss of the event that was charged: no more, and less by rounding alone.
"""

from __future__ import annotations

import ast
import importlib
import itertools
import math
import pkgutil
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import clone

import sfumato.mechanisms
from sfumato import (
    Bounds,
    PrivateGaussianClassifier,
    PrivateSearchCV,
    release_correlation,
    release_counts,
    release_histogram,
    release_mean,
    release_quantiles,
    release_sum,
    release_variance,
)
from sfumato.audit.testing import PrivateCase
from sfumato.audit.testing.taint import fit
from sfumato.ledger.receipt import Receipt
from sfumato.mechanisms import (
    EntryMechanism,
    ExponentialMechanism,
    GaussianMechanism,
    GaussianProcessMechanism,
    LaplaceMechanism,
    Mechanism,
    selection,
)
from sfumato.mechanisms.base import Tape, taped
from sfumato.mechanisms.entropy import Words, drawing_from
from sfumato.mechanisms.exponential import QuantileMechanism, RankMechanism, SpanningTreeMechanism
from sfumato.mechanisms.gaussian import GaussianShareMechanism
from sfumato.mechanisms.laplace import DiscreteLaplaceMechanism
from sfumato.mechanisms.objective import GammaObjectiveMechanism, GaussianObjectiveMechanism
from sfumato.mechanisms.sampling import GAUSSIAN
from sfumato.models.budget import Budget
from sfumato.privacy.events import (
    BoundedRangeEvent,
    EntryEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    NonPrivateEvent,
    ObjectivePerturbationEvent,
    PureEvent,
    SelectionEvent,
    flatten,
)
from sfumato.privacy.guarantee import Relation
from sfumato.sums.records import ArrayRecords
from sfumato.sums.statistics import CountTables
from tests.golden.cases import cases
from tests.honest import BOUNDS, Honest, X
from tests.test_common import CASES as FITS

MODULES = {
    each.name: importlib.import_module(f"sfumato.mechanisms.{each.name}")
    for each in pkgutil.iter_modules(sfumato.mechanisms.__path__)
}
NOISE = ("rounded_noise", "rounded_spherical_noise", "discrete_gaussian")
SAMPLERS = (*NOISE, "choose", "bernoulli")
# Where words become draws: the samplers, and the choices of a search (tests/models/test_search.py).
DRAWING = {"entropy", "sampling", "selection"}
MANY = 2.0**24  # cells: the response to one noise number is read off to 7 digits at least
ROUNDING = 2.0**-6  # of a loss: more than grids enlarge any noise


@dataclass
class Draw:
    """What a sampler was asked for."""

    sampler: str
    law: Any = None
    scale: float = math.nan
    size: int = 1
    exponents: np.ndarray = field(default_factory=lambda: np.empty(0))
    probability: float = math.nan


class Script:
    """Stands in for all samplers: no noise but at one place, the middle one of all candidates."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.draws: list[Draw] = []
        self.place: tuple[int, int] | None = None
        for name in SAMPLERS:
            for module_name, module in MODULES.items():
                if hasattr(module, name) and module_name not in DRAWING:
                    monkeypatch.setattr(module, name, getattr(self, name))

    def noise(self, draw: Draw) -> np.ndarray:
        drawn = np.zeros(draw.size)
        if self.place is not None and self.place[0] == len(self.draws):
            drawn[self.place[1]] = MANY
        self.draws.append(draw)
        return drawn

    def rounded_noise(self, law: Any, scale: float, size: int) -> np.ndarray:
        return self.noise(Draw("rounded_noise", law, scale, size))

    def rounded_spherical_noise(self, scale: float, size: int) -> np.ndarray:
        return self.noise(Draw("rounded_spherical_noise", None, scale, size))

    def discrete_gaussian(self, scale: float, size: int) -> np.ndarray:
        return self.noise(Draw("discrete_gaussian", GAUSSIAN, scale, size))

    def choose(self, exponents: np.ndarray, times: np.ndarray | None = None) -> int:
        assert times is None or (times == 1).all()
        self.draws.append(Draw("choose", exponents=exponents.copy()))
        return exponents.size // 2

    def bernoulli(self, probability: Callable[[Any], Any], size: int) -> np.ndarray:
        self.draws.append(Draw("bernoulli", size=size, probability=float(probability(Plain))))
        return np.zeros(size, dtype=bool)


class Plain:
    """Doubles in the place of numbers of any precision."""

    mpf = float
    exp = math.exp


@dataclass
class Payer:
    """A ledger that notes what it is charged."""

    events: list[Event] = field(default_factory=list)

    def charge(self, *events: Event, **words: Any) -> Receipt:
        self.events += events
        return Receipt(events, **words)


@dataclass(frozen=True)
class Case:
    """A release of two neighbours that are as far apart as the sensitivity allows."""

    mechanism: Any
    value: Any
    near: Any
    method: str = "release"
    shares: int = 1
    others: float = 0.0  # loss that does not come from a draw

    @property
    def name(self) -> tuple[str, str]:
        return type(self.mechanism).__name__, self.method


def released(case: Case, script: Script, value: Any) -> tuple[np.ndarray, list[Draw], list[Event]]:
    payer = Payer()
    script.draws.clear()
    output = getattr(case.mechanism, case.method)(value, ledger=payer)
    return np.asarray(output, dtype=float), list(script.draws), payer.events


def moved_cells(case: Case, script: Script, number: int, size: int) -> np.ndarray:
    """Return by how many cells of each noise number of a draw two neighbours lie apart."""
    script.place = None
    here, there = released(case, script, case.value)[0], released(case, script, case.near)[0]
    cells = []
    for place in range(size):
        script.place = number, place
        response = (released(case, script, case.value)[0] - here) / MANY
        touched = response != 0
        apart = (there - here)[touched] / response[touched]
        assert len(apart), "a noise number that changes nothing"
        assert np.allclose(apart, apart[0], rtol=1e-5, atol=1e-5 * np.abs(apart).max())
        cells.append(np.abs(apart).max())
    script.place = None
    return np.array(cells)


def losses(case: Case, script: Script) -> dict[str, list[float]]:
    """Return the losses of all draws of one release, by their kind."""
    _, draws, _ = released(case, script, case.value)
    near = released(case, script, case.near)[1]
    assert [(d.sampler, d.size) for d in draws] == [(d.sampler, d.size) for d in near]
    found: dict[str, list[float]] = {}
    for number, (draw, other) in enumerate(zip(draws, near, strict=True)):
        if draw.sampler in NOISE:
            assert draw.scale == other.scale, "noise must not depend on the statistic"
            shift = moved_cells(case, script, number, draw.size) / draw.scale
            if draw.law not in (None, GAUSSIAN):  # Laplace's, or that of whole numbers
                found.setdefault("laplace", []).append(float(shift.sum()))
            else:
                kind = "gaussian" if draw.law is GAUSSIAN else "gamma"
                found.setdefault(kind, []).append(float(np.linalg.norm(shift)))
        elif draw.sampler == "choose":
            change = draw.exponents - other.exponents
            if range_ := float(change.max() - change.min()):
                found.setdefault("choose", []).append(range_)
        else:
            assert draw.probability == other.probability
            found.setdefault(draw.sampler, []).append(draw.probability)
    return found


def is_paid(loss: float, charged: float) -> bool:
    """Whether a loss is covered, and nothing but rounding was paid for besides."""
    return charged * (1 - ROUNDING) <= loss <= charged * (1 + 1e-9)


def paid_exactly(case: Case, script: Script) -> bool:
    """Compare the losses of all draws with the events that were charged."""
    events = flatten(released(case, script, case.value)[2])
    (event, count), *rest = events.items()
    assert not rest
    found = losses(case, script)
    match event:
        case GaussianEvent():
            mu = math.sqrt(sum(loss**2 for loss in found.pop("gaussian")) / case.shares)
            good = count == 1 and is_paid(mu, 1 / event.noise_multiplier)
        case LaplaceEvent():
            good = count == 1 and is_paid(sum(found.pop("laplace")), event.epsilon)
        case EntryEvent():
            good = count == 1 and is_paid(sum(found.pop("laplace")), event.epsilon)
            good = good and found.pop("bernoulli", [0.0]) == [event.delta]
        case PureEvent() if "laplace" in found:
            good = count == 1 and is_paid(sum(found.pop("laplace")), event.epsilon)
        case PureEvent():
            first, *miss = found.pop("gamma")
            # The noise on the output of an objective hides by how much its minimiser is missed.
            miss = [missed(case, script, 1) for _ in miss]
            good = count == 1 and is_paid(first + sum(miss) + case.others, event.epsilon)
        case ObjectivePerturbationEvent():
            first, _ = found.pop("gaussian")
            mu = missed(case, script, 1)
            kappa = case.others + 10 * mu + mu**2 / 2
            good = count == 1 and is_paid(first, 1 / event.noise_multiplier)
            good = good and is_paid(kappa, event.kappa)
        case BoundedRangeEvent():
            ranges = found.pop("choose")
            good = len(ranges) == count and max(ranges) <= event.epsilon * (1 + 1e-9)
            good = good and is_paid(max(ranges), event.epsilon)
        case _:
            raise AssertionError(f"No rule for {event}.")
    assert not found, f"draws that nobody pays for: {found}"
    return good


def missed(case: Case, script: Script, number: int) -> float:
    """Loss of the output noise: two points that miss their minimisers by τ/Λ each."""
    draw = released(case, script, case.value)[1][number]
    script.place = number, 0
    response = released(case, script, case.value)[0]
    script.place = None
    cell = np.abs(response - released(case, script, case.value)[0]).max() / MANY
    mechanism = case.mechanism
    return 2 * mechanism.residual / mechanism.strong_convexity / cell / draw.scale


class Plane:
    """An objective that is linear in t, whose minimiser is known to the last bit."""

    def __init__(self, slope: np.ndarray) -> None:
        self.slope, self.shape = slope, slope.shape

    def gradient(self, t: np.ndarray) -> np.ndarray:
        return self.slope

    def gradient_error(self, t: np.ndarray) -> float:
        return 0.0

    def minimise(self, linear: np.ndarray, convexity: float, tolerance: float) -> np.ndarray:
        return -(self.slope + linear) / convexity


# Neighbours at the sensitivity -------------------------------------------------------------------

ONES, FIRST = np.ones(4) / 2, np.array([1.0, 0.0, 0.0, 0.0])
MATRIX = np.array([[2.0, 1.0, 0.0], [1.0, -1.0, 0.5], [0.0, 0.5, 0.0]])
MATRIX *= 3.0 / np.linalg.norm(MATRIX)
PLANES = Plane(np.zeros(4)), Plane(np.array([0.0, 2.0, 0.0, 0.0]))


CASES = [
    Case(GaussianMechanism(3.0, 0.7), np.zeros(4), 3 * ONES),
    Case(GaussianMechanism(3.0, 40.0), np.zeros(4), 3 * FIRST),
    Case(GaussianMechanism(3.0, 2.0), np.zeros((3, 3)), MATRIX, "release_symmetric"),
    Case(GaussianProcessMechanism(3.0, 2.0), np.zeros(4), 3 * ONES),
    Case(GaussianProcessMechanism(3.0, 2.0), np.zeros((3, 3)), MATRIX, "release_symmetric"),
    Case(GaussianShareMechanism(GaussianMechanism(3.0, 2.0), 5), np.zeros(4), 3 * ONES, shares=5),
    Case(
        GaussianShareMechanism(GaussianMechanism(3.0, 2.0), 5),
        np.zeros((3, 3)),
        MATRIX,
        "release_symmetric",
        shares=5,
    ),
    Case(LaplaceMechanism(3.0, 0.25), np.zeros(4), 1.5 * ONES),
    Case(LaplaceMechanism(3.0, 0.25, touched=1), np.zeros(4), 3 * FIRST),
    Case(DiscreteLaplaceMechanism(3.0, 0.25), np.zeros(4), np.array([1.0, 0.0, 2.0, 0.0])),
    Case(EntryMechanism(3.0, 0.25), np.zeros(4), 3 * FIRST),
    Case(EntryMechanism(3.0, 0.25, delta=0.125), np.zeros(4), 3 * FIRST),
    Case(ExponentialMechanism(3.0, 0.25), [0.0, 3.0, 1.0], [3.0, 0.0, 1.0]),
    Case(
        GaussianObjectiveMechanism(2.0, 0.125, 3.0, noise_multiplier=4.0, dimension=2),
        *PLANES,
        others=0.125,
    ),
    Case(GammaObjectiveMechanism(2.0, 0.125, 3.0, epsilon=1.0, size=4), *PLANES, others=0.125),
]


# Choices of several rounds: which candidates are left depends on the rounds before ----------------


@pytest.mark.parametrize(("n_columns", "n_levels"), [(1, 1), (2, 1), (1, 2), (3, 2), (2, 3)])
def test_quantiles_pay_for_every_level_of_every_column(
    n_columns: int, n_levels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that is added stands in one part of each level and column."""
    script = Script(monkeypatch)
    counts = np.tile(np.arange(32.0) % 3, (n_columns, 1))
    for cell in (0, 13, 31):
        near = counts.copy()
        near[:, cell] += 1
        case = Case(QuantileMechanism(1.0, 0.5, n_columns, n_levels), counts, near)
        assert paid_exactly(case, script), cell


def test_a_record_that_moves_costs_no_more_than_one_added(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(monkeypatch)
    counts = np.arange(32.0) % 3
    for here, there in ((0, 31), (3, 5), (14, 17)):
        near = counts.copy()
        near[here], near[there] = near[here] - 1, near[there] + 1
        case = Case(QuantileMechanism(2.0, 0.5, 1, 3), counts[None], near[None])
        assert sum(losses(case, script)["choose"]) <= 3 * 0.5


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("n_groups", [1, 3])
def test_ranks_of_all_groups_are_paid_for_together(
    relation: Relation, n_groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that moves, also from group to group, or comes, costs one choice per rank."""
    script, rng, worst = Script(monkeypatch), np.random.default_rng(0), 0.0
    ranks, logs = ((0.5, 0.0), (0.9, 0.0)), ((0.0,) * 26, (-1e6,) * 3 + (0.5,) * 23)
    budget = Budget(1.0, 0.0, ArrayRecords(np.zeros((2, 1)), relation=relation))
    counted = CountTables((n_groups * 24 + 1,), ((0,),))
    release = budget.ranks(counted, n_groups, ranks, None, logs)
    budget.calibrate()
    mechanism = release.mechanism
    counts = 1 + np.arange(n_groups * 24 + 1.0) % 5  # the last has no value
    for _ in range(200):
        near = counts.copy()
        here, there = rng.choice(len(counts), 2, replace=False)
        near[there] += 1
        near[here] -= relation is Relation.REPLACE_ONE
        case = Case(mechanism, counts, near)
        (event, count), *rest = flatten(released(case, script, counts)[2]).items()
        assert isinstance(event, BoundedRangeEvent)
        assert (event.epsilon, count, rest) == (0.5, len(ranks), [])
        draws = [
            np.array([d.exponents for d in released(case, script, v)[1]]) for v in (counts, near)
        ]
        change = draws[0] - draws[1]
        each = (change.max(axis=1) - change.min(axis=1)).reshape(n_groups, len(ranks))
        worst = max(worst, each.sum(axis=0).max())
    assert 0.4 < worst <= 0.5


def test_every_choice_of_a_pair_is_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two candidates one is farther from its reference by a record, the other nearer."""
    script = Script(monkeypatch)
    columns = 5
    candidates = *((k, k + 1) for k in range(columns - 1)), (0, 2), (0, 3), (0, 4)
    n_choices = columns - 1
    references = tuple(np.full(4, 5.0) for _ in candidates)
    penalties = (0.0,) * len(candidates)
    mechanism = SpanningTreeMechanism(1.0, 0.5, n_choices, candidates, references, penalties)
    value = np.full((len(candidates), 4), 6.0)
    near = value.copy()
    near[:, 0] = np.where(np.arange(len(candidates)) % 2, 5.0, 7.0)
    case = Case(mechanism, value.ravel(), near.ravel())
    events = flatten(released(case, script, case.value)[2])
    ranges = losses(case, script)["choose"]
    assert list(events.values()) == [n_choices]
    assert len(ranges) <= n_choices
    assert all(is_paid(each, 0.5) for each in ranges)
    assert len(released(case, script, case.value)[1]) == n_choices


def test_pairs_are_chosen_by_their_distance_from_the_reference() -> None:
    """Cells above and below a reference count alike, and what is taken off is taken off."""
    references = tuple(np.array([5.0, 5.0, 0.4, 0.6]) for _ in range(4))
    tables = [[5, 5, 0, 1], [7, 3, 0, 1], [2, 5, 1, 1], [9, 9, 2, 1]]
    candidates, penalties = ((0, 1), (1, 2), (2, 3), (3, 4)), (0.0, 0.0, 0.0, 8.0)
    mechanism = SpanningTreeMechanism(1.0, math.inf, 4, candidates, references, penalties)
    chosen = mechanism.release(np.ravel(tables), ledger=None)
    assert chosen.tolist() == [[1, 2], [2, 3], [3, 4], [0, 1]]  # scores 4, 4, 2, 0


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case.name))
def test_what_is_drawn_is_what_is_paid(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    assert paid_exactly(case, Script(monkeypatch))


# Nothing is left out ------------------------------------------------------------------------------


def concrete(kind: type) -> Iterator[type]:
    for each in kind.__subclasses__():
        if each.__module__.startswith("sfumato."):
            if not each.__abstractmethods__:
                yield each
            yield from concrete(each)


def test_every_release_of_every_mechanism_has_a_case() -> None:
    chosen = (SpanningTreeMechanism, QuantileMechanism, RankMechanism)
    others = {(kind.__name__, "release") for kind in chosen}
    found = {
        (kind.__name__, name)
        for kind in concrete(Mechanism)
        for name in dir(kind)
        if name.startswith("release")
    }
    assert found == {case.name for case in CASES} | others


def test_samplers_are_the_only_source_of_draws() -> None:
    """Every function that asks for words is replaced by the script, or is one of a search."""
    for name, module in MODULES.items():
        tree = ast.parse(Path(module.__file__ or "").read_text())
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert ("random_words" in names) == (name in DRAWING - {"entropy"}), name
        for node in ast.walk(tree):
            from_samplers = str(getattr(node, "module", "")).endswith(".sampling")
            if isinstance(node, ast.ImportFrom) and from_samplers and name not in DRAWING:
                taken = {alias.name for alias in node.names if alias.name.islower()}
                laws = {"discrete_laplace"}  # which draw nothing
                assert taken <= {*SAMPLERS, *laws, "require_scale"}, name


# Mechanisms that draw less than they pay for are seen ---------------------------------------------


class LittleNoise(GaussianMechanism):
    def grid(self, size: int) -> tuple[float, float]:
        step, scale = super().grid(size)
        return step, 0.95 * scale


class OneLevelLess(QuantileMechanism):
    def event(self) -> Event:
        one = ExponentialMechanism(self.sensitivity, self.epsilon).event()
        return type(super().event())(one, self.n_columns * (self.n_levels - 1))


class TwoDraws(LaplaceMechanism):
    def release(self, value: Any, *, ledger: Any) -> np.ndarray:
        first = super().release(value, ledger=ledger)
        return (first + super().release(value, ledger=None)) / 2


class HalfTheShift(EntryMechanism):
    def event(self) -> Event:
        return EntryEvent(self.epsilon, self.delta / 2, self.entry_bound)


COUNTS = np.arange(32.0)[None]


@pytest.mark.parametrize(
    "case",
    [
        Case(LittleNoise(3.0, 2.0), np.zeros(4), 3 * ONES),
        Case(OneLevelLess(1.0, 0.5, 1, 3), COUNTS, COUNTS + np.eye(32)[:1]),
        Case(TwoDraws(3.0, 0.25), np.zeros(4), 1.5 * ONES),
        Case(HalfTheShift(3.0, 0.25, delta=0.125), np.zeros(4), 3 * FIRST),
        Case(GaussianMechanism(2.9, 2.0), np.zeros(4), 3 * ONES),
        Case(GaussianMechanism(3.1, 2.0), np.zeros(4), 3 * ONES),
    ],
    ids=lambda case: type(case.mechanism).__name__,
)
def test_a_wrong_charge_is_seen(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not paid_exactly(case, Script(monkeypatch))


# Every random word of every private fit is drawn inside a release that was paid for -------------


@dataclass
class Watch:
    """Counts random words by the release that asks for them; notes charges in their order."""

    n_words: Counter[Any] = field(default_factory=Counter)
    charged: list[Event] = field(default_factory=list)
    tape: Tape = field(default_factory=Tape)
    is_releasing: bool = False
    is_searching: bool = False

    def __deepcopy__(self, memo: object) -> Watch:
        return self

    def charge(self, *events: Event, **words: Any) -> Receipt:
        assert not self.n_words, "something was drawn before all was paid for"
        self.charged += events
        return Receipt(events, **{name: words.get(name) for name in ("unit", "relation")})

    def words(self, count: int) -> Words:
        asking = len(self.tape.releases) if self.is_releasing else "nobody"
        self.n_words["search" if self.is_searching else asking] += count
        return self.generator.integers(0, 2**64, count, dtype=np.uint64, endpoint=False)

    def __post_init__(self) -> None:
        self.generator = np.random.default_rng(0)


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Record releases and words; what a search draws for itself is counted apart."""
    watch = Watch()
    run, choices = Tape.run, selection.random_words

    def watched_run(tape: Tape, *arguments: Any) -> Any:
        watch.is_releasing = True
        try:
            return run(tape, *arguments)
        finally:
            watch.is_releasing = False

    def watched_choices(count: int) -> Words:
        watch.is_searching = True
        try:
            return choices(count)
        finally:
            watch.is_searching = False

    monkeypatch.setattr(Tape, "run", watched_run)
    monkeypatch.setattr(selection, "random_words", watched_choices)
    with drawing_from(watch.words), taped() as tape:
        watch.tape = tape
        yield watch


def check(watch: Watch, *, n_releases: int | None = None) -> None:
    releases = watch.tape.releases
    assert releases
    assert "nobody" not in watch.n_words, "drawn outside of every release"
    drawing = {number for number in watch.n_words if number != "search"}
    assert drawing == set(range(len(releases))), "a release that draws nothing"
    assert n_releases is None or len(releases) == n_releases


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, id=f"{name}-{i}") for name, each in FITS.items() for i, c in enumerate(each)],
)
def test_every_draw_of_a_fit_is_paid_for(
    case: PrivateCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    with watched(monkeypatch) as watch:
        fit(clone(case.estimator).set_params(ledger=watch), case.X, case.y)
    check(watch)
    assert "search" not in watch.n_words
    drawn = flatten(released.mechanism.event() for released in watch.tape.releases)
    assert drawn == flatten(watch.charged)


TABLE = pa.table({"g": ["a", "b"] * 30, "x": np.arange(60) / 9, "k": np.arange(60) % 9})
FACTS: dict[str, Any] = {
    "g": ["a", "b"],
    "x": (0, 7),
    "k": {"type": "int64", "lower": 0, "upper": 9},
}
STATISTICS: dict[str, Callable[..., Any]] = {
    "counts": lambda **promise: release_counts(TABLE, "g", **promise),
    "histogram": lambda **promise: release_histogram(TABLE, "k", by="g", **promise),
    "sum": lambda **promise: release_sum(TABLE, "x", **promise),
    "mean": lambda **promise: release_mean(TABLE, "x", **promise),
    "means": lambda **promise: release_mean(TABLE, "x", by="g", **promise),
    "variance": lambda **promise: release_variance(TABLE, "x", **promise),
    "variances": lambda **promise: release_variance(TABLE, "x", by="g", **promise),
    "correlation": lambda **promise: release_correlation(TABLE, ["x", "k"], **promise),
    "quantiles": lambda **promise: release_quantiles(TABLE, "k", at=[0.2, 0.5], by="g", **promise),
}


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("name", STATISTICS)
def test_every_draw_of_a_statistic_is_paid_for(
    name: str, relation: str, delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no more is stated than the sum of what was drawn."""
    promise = {"bounds": FACTS, "epsilon": 1.5, "delta": delta, "relation": relation}
    with watched(monkeypatch) as watch:
        found = STATISTICS[name](**promise, ledger=watch)
    check(watch)
    drawn = flatten(released.mechanism.event() for released in watch.tape.releases)
    assert drawn == flatten(watch.charged)
    epsilons = [n * getattr(event, "epsilon", math.nan) for event, n in drawn.items()]
    assert found.guarantee.epsilon <= 1.5
    if delta == 0:
        assert sum(epsilons) == pytest.approx(1.5, rel=1e-6)


@pytest.mark.parametrize("subject", ["linked_tables", "papers", "scores"])
def test_every_draw_of_other_systems_is_paid_for(
    subject: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, case in cases(subject).items():
        with warnings.catch_warnings(), watched(monkeypatch) as watch:
            warnings.simplefilter("ignore")
            case.run(watch)
        private = [r for r in watch.tape.releases if r.mechanism.event() != NonPrivateEvent()]
        if NonPrivateEvent() not in watch.charged:  # said of what is refuted as printed
            assert "nobody" not in watch.n_words, name
        paid = flatten(watch.charged)  # a tree of few rows is paid for and not drawn
        for event, times in flatten(each.mechanism.event() for each in private).items():
            assert times <= paid.get(event, 0), name


@pytest.mark.parametrize("constant_time", [True, False])
def test_every_draw_of_a_search_is_paid_for(
    constant_time: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One event is charged; no run draws more than its options say, and no more runs are made."""
    rows = np.random.default_rng(0).normal(size=(90, 2)) * 0.2
    labels = np.arange(90) % 3
    search = PrivateSearchCV(
        PrivateGaussianClassifier(bounds=Bounds(norm=1.0, labels=[0, 1, 2])),
        {"n_components": [1, 2]},
        mean_runs=3.0,
        constant_time=constant_time,
        epsilon=4.0,
        delta=1e-4,
    )
    with watched(monkeypatch) as watch:
        search.set_params(ledger=watch).fit(rows, labels)
    check(watch)
    (event,) = watch.charged
    assert isinstance(event, SelectionEvent)
    allowed = max(map(mu_squared, event.options))
    ends = [n for n, each in enumerate(watch.tape.releases, 1) if each.statistic.size == 2]
    drawn = [released.mechanism.event() for released in watch.tape.releases]
    runs = [drawn[start:end] for start, end in itertools.pairwise([0, *ends])]
    assert ends[-1] == len(drawn)  # every run ends with its score
    assert max(map(mu_squared, runs)) == pytest.approx(allowed, rel=1e-9)
    assert len(runs) == event.max_runs or not constant_time


def mu_squared(events: Iterable[Any]) -> float:
    return sum(n / event.noise_multiplier**2 for event, n in flatten(events).items())


class DrawsForItself(Honest):
    def after(self, rows: np.ndarray) -> None:
        self.noise_ = float(Watch.words(self.ledger, 1)[0])


class DrawsTwice(Honest):
    def release(self, mechanism: Any, statistic: np.ndarray, receipt: Any) -> np.ndarray:
        first = super().release(mechanism, statistic, receipt)
        return (first + mechanism.release_symmetric(statistic, ledger=None)) / 2


class NoNoise(Honest):
    def release(self, mechanism: Any, statistic: np.ndarray, receipt: Any) -> np.ndarray:
        silent = type(mechanism)(mechanism.sensitivity, 0.0)
        object.__setattr__(silent, "event", mechanism.event)
        return silent.release_symmetric(statistic, ledger=receipt)


@pytest.mark.parametrize("kind", [Honest, DrawsForItself, DrawsTwice, NoNoise])
def test_a_draw_that_nobody_pays_for_is_seen(
    kind: type[Honest], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = PrivateCase(kind(2, bounds=BOUNDS), X)
    if kind is Honest:
        test_every_draw_of_a_fit_is_paid_for(case, monkeypatch)
        return
    with pytest.raises(AssertionError):
        test_every_draw_of_a_fit_is_paid_for(case, monkeypatch)
