"""Requests to a party: what can travel, what a hostile coordinator may send, and what comes back.

The requests of real fits are recorded, and mutated by the thousand.
"""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato import (
    Bounds,
    Fabricator,
    GaussianFabricator,
    Ledger,
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
    PrivateAffineHullClassifier,
    PrivateDensity,
    PrivateGaussianClassifier,
    PrivateLinearClassifier,
    PrivateLinearRegressor,
    PrivateMoments,
    PrivatePCA,
    TableBounds,
)
from sfumato.exceptions import FederationError
from sfumato.federated import Federation, Party, Terms
from sfumato.federated.messages import Reply, Request
from sfumato.federated.schema import MAPS, PARTS, STATISTICS, pack, read_request
from sfumato.ledger.receipt import prepay
from sfumato.mechanisms import GaussianMechanism, LaplaceMechanism
from sfumato.models.additive_rows import (
    AdditiveScores,
    HatRows,
    PairRows,
    PublicColumns,
    ScoreAndTarget,
)
from sfumato.privacy.composition import epsilon_spent
from sfumato.privacy.events import event_from_dict, flatten
from sfumato.privacy.guarantee import Relation
from sfumato.sums import SecondMoment
from sfumato.sums.grid import ROW_BITS, SINGLE_BITS, truncate_to_grid
from sfumato.sums.statistics import PlaceCounts

N = 90
ROWS = np.random.default_rng(0).uniform(0.05, 0.95, size=(N, 3))
LABELS = (ROWS[:, 0] + ROWS[:, 1] > 1).astype(int)
BOX = Bounds(lower=[0.0] * 3, upper=[1.0] * 3, labels=[0, 1])
PLAIN = Bounds(lower=[0.0] * 2, upper=[1.0] * 2)
TABLE_BOUNDS = TableBounds.from_dict(
    {
        "age": {"lower": 0, "upper": 120, "missing": True},
        "town": ["Ghent", "Ypres", "Bruges"],
        "income": {"lower": 0, "upper": 1e6},
        "ill": ["no", "yes"],
    },
    target="ill",
)
TABLE = pd.DataFrame(
    {
        "age": 100 * ROWS[:, 0],
        "town": np.array(["Ghent", "Ypres", "Bruges"])[(3 * ROWS[:, 1]).astype(int)],
        "income": 1e5 * ROWS[:, 2],
        "ill": np.where(LABELS == 1, "yes", "no"),
    }
)
MAX_EPSILON = 50.0


# Real fits, and what they ask for ---------------------------------------------------------------


class Rows:
    """Rows that count how often they are read beyond their shape."""

    def __init__(self, width: int = 3) -> None:
        self.shape, self.n_reads = (N, width), 0

    def __len__(self) -> int:
        return N

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        self.n_reads += 1
        return np.array(ROWS[:, : self.shape[1]], dtype=dtype)


class Recorder:
    """Carries requests to parties, and keeps them."""

    def __init__(self, parties: list[Party]) -> None:
        self.parties = {party.name: party for party in parties}
        self.names, self.conditions = list(self.parties), ()
        self.requests: list[Request] = []

    def ask(self, requests: Mapping[str, Request]) -> dict[str, Reply]:
        self.requests += [requests[name] for name in self.names if name in requests][:1]
        return {name: self.parties[name].answer(each) for name, each in requests.items()}


@dataclass
class Site:
    """A party under attack, its rows, its ledger, and requests that it has answered."""

    party: Party
    rows: Rows
    requests: list[Request]


def party_in(
    folder: Path, rows: Rows, y: Any, bounds: Any, name: str = "one", relation: str = "replace_one"
) -> Party:
    ledger = Ledger(folder / f"{name}.db")
    budget = ledger.create("rows", epsilon=1e6, delta=1e-5, relation=relation)
    given: dict[str, Any] = {"bounds": bounds, "max_epsilon": MAX_EPSILON, "max_delta": 1e-5}
    table = None
    if isinstance(bounds, TableBounds):
        given = {**given, "bounds": None, "table": bounds}
        table = lambda: TABLE  # noqa: E731
    terms = Terms(**given, colluding=0)
    return Party(name, lambda: (rows, y), folder / name, ledger=budget, terms=terms, table=table)


BUDGET: dict[str, Any] = {"epsilon": 40.0, "delta": 1e-5}
FITS: dict[str, tuple[Any, Any, list[Any]]] = {
    "labels": (
        BOX,
        LABELS,
        [
            PrivatePCA(n_components=2, **BUDGET),
            PrivateMoments(**BUDGET),
            PrivateGaussianClassifier(n_components=2, gaussians_per_class=2, **BUDGET),
            PrivateLinearClassifier(n_steps=2, n_components=2, **BUDGET),
            PrivateAffineHullClassifier(
                n_layers=1, n_components=2, hull_components=2, random_state=0, **BUDGET
            ),
            GaussianFabricator(n_components=2, random_state=0, **BUDGET),
            PrivateAdditiveClassifier(n_steps=2, **BUDGET),
        ],
    ),
    "secret": (
        BOX,
        LABELS,
        [PrivateLinearClassifier(n_steps=2, relation="add_or_remove_one", **BUDGET)],
    ),
    "numbers": (
        PLAIN,
        ROWS[:, 0],
        [
            PrivateDensity(n_cells=3, **BUDGET),
            PrivateLinearRegressor(target_bounds=(0.0, 1.0), n_steps=2, **BUDGET),
            PrivateAdditiveRegressor(
                target_bounds=(0.0, 1.0), n_steps=2, interactions=True, knots="private", **BUDGET
            ),
        ],
    ),
    "table": (
        TABLE_BOUNDS,
        LABELS,
        [
            PrivateAdditiveClassifier(n_steps=2, interactions=True, knots="private", **BUDGET),
            Fabricator(random_state=0, **BUDGET),
            PrivateGaussianClassifier(n_components=2, **BUDGET),
        ],
    ),
}


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Site]:
    """Parties that have taken part in all fits, by noisy sums and by secure ones."""
    found = {}
    for name, (bounds, y, models) in FITS.items():
        width = 2 if bounds is PLAIN else 3
        folder, rows = tmp_path_factory.mktemp(name), Rows(width)
        given: dict[str, Any] = {"bounds": bounds, "relation": models[0].relation}
        everybody = [
            party_in(folder, each, y, name=f"party-{i}", **given)
            for i, each in enumerate((rows, Rows(width), Rows(width)))
        ]
        party = everybody[0]
        carrier, secure = Recorder([party]), Recorder(everybody)
        for number, model in enumerate(models):
            model.set_params(bounds=bounds)
            model.fit(Federation(carrier, task=f"{name}-{number}", **given))
        models[0].fit(Federation(secure, trust="secure", colluding=0, task="secure", **given))
        requests = carrier.requests + secure.requests
        found[name] = Site(party, rows, requests)
    return found


def parts_of(value: Any) -> Iterator[Any]:
    """List the maps, statistics and other parts that stand in a value."""
    if isinstance(value, list | tuple):
        for each in value:
            yield from parts_of(each)
    elif isinstance(value, dict):
        yield from parts_of(list(value.values()))
    elif type(value) in PARTS:
        yield value
        yield from parts_of([getattr(value, name) for name in PARTS[type(value)].fields])


def same(one: Any, other: Any) -> bool:
    """Return whether two parts have the same fields, to the bit, as far as fields travel."""
    if type(one) in PARTS:
        listed = PARTS[type(one)].fields
        return type(one) is type(other) and all(
            same(getattr(one, name), getattr(other, name)) for name in listed
        )
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        return one.shape == other.shape and one.tobytes() == other.tobytes()
    return bool(one == other)


def test_what_estimators_ask_of_parties_round_trips(sites: dict[str, Site]) -> None:
    seen: set[type] = set()
    for site in sites.values():
        table = site.party.terms.table
        for request in site.requests:
            through_json = json.loads(json.dumps(request.settings, allow_nan=False))
            assert through_json == request.settings
            asked = read_request(request, table)
            again: dict[str, Any] = {}
            sent = pack(asked.settings, again)
            assert sent == request.settings
            back = read_request(Request(request.task, request.phase, sent, again), table)
            for one, other in zip(parts_of(asked.settings), parts_of(back.settings), strict=True):
                seen.add(type(one))
                assert same(one, other)
    assert seen == set(PARTS)  # each entry is needed by some estimator


def walk(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, Any, tuple[Any, ...]]]:
    """List what stands in a JSON value: the dict or list that holds it, its key there, its path."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key, (*path, key)
        if isinstance(value[key], dict | list):
            yield from walk(value[key], (*path, key))


WRONG: dict[type, list[Any]] = {
    float: [math.nan, math.inf, -math.inf, True, "1.0", [1.0], 1j, np.float64(0.5)],
    int: [True, 1.0, "1", 2**70, -(2**70), math.nan, np.int64(1)],
    bool: [0, 1, "True", np.True_],
    str: [0, b"x", [], "x" * 2000, "\ud800"],
    list: [(), {}, ""],
    dict: [[], "", 0],
}


ANY_SCALAR = {"labels", "categories"}
BY_NAME = {"parties", "adverts", "boxes", "signatures"}


def test_each_field_is_needed_and_of_its_type_and_no_other_is_taken(sites: dict[str, Site]) -> None:
    seen: set[str] = set()
    for site in sites.values():
        for request in site.requests:
            settings = json.loads(json.dumps(request.settings))
            copied = Request(request.task, request.phase, settings, request.arrays)
            for inside, key, path in list(walk(settings)):
                where = ".".join(str(each) for each in path if not isinstance(each, int))
                if where in seen or ANY_SCALAR & set(path):
                    continue
                seen.add(where)
                was = inside[key]
                if isinstance(inside, dict) and not BY_NAME & set(path[-2:-1]):
                    del inside[key]
                    refused(copied, site)
                    inside.update({key: was, "more": was})
                    refused(copied, site)
                    del inside["more"]
                for odd in WRONG.get(type(was), []):
                    inside[key] = odd
                    refused(copied, site)
                inside[key] = was
            assert read_request(copied, site.party.terms.table)
    assert len(seen) > 150


def refused(request: Request, site: Site) -> None:
    with pytest.raises(FederationError):
        read_request(request, site.party.terms.table)


def test_every_field_of_maps_and_statistics_travels() -> None:
    for entry, listed in ((kind, PARTS[kind].fields) for kind in (*MAPS, *STATISTICS)):
        given = {each.name for each in fields(entry) if each.init}
        assert set(listed) <= given <= {*listed, "joined"}


class Strange:
    """A map that no party knows."""

    width = 3


def test_what_is_not_listed_cannot_travel(tmp_path: Path) -> None:
    for odd in (LaplaceMechanism(1.0, 1.0), PlaceCounts((0,)), object(), 1j, {1, 2}, np):
        with pytest.raises(FederationError, match="cannot be sent"):
            pack(odd, {})
    party = party_in(tmp_path, Rows(), LABELS, BOX)
    federation = Federation([party], bounds=BOX)
    mechanism = GaussianMechanism(3.0, 1.0)
    receipt = prepay(None, mechanism.event())
    with pytest.raises(FederationError, match="PlaceCounts cannot be sent"):
        federation.release(PlaceCounts((0,)), mechanism, receipt)
    view = federation.mapped(Strange())  # type: ignore[arg-type]
    with pytest.raises(FederationError, match="cannot be sent"):
        view.release(SecondMoment(3), mechanism, receipt)


# The attack by NaN ------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")  # as outside of tests
@pytest.mark.parametrize("odd", [math.nan, math.inf, -1e308])
@pytest.mark.parametrize("listed", [True, False])
def test_a_coordinator_cannot_send_what_is_no_number(
    odd: float, listed: bool, tmp_path: Path
) -> None:
    """Scores that are NaN became -2**63 in a sum: one record moved it by 1e8, at epsilon 1."""
    hats = HatRows(PublicColumns(("a",), (0.0,), (1.0,), (None,)), np.array([[0.0, 1.0]]))
    rows = PairRows(hats, np.zeros(2), np.empty((0, 2), dtype=np.intp))
    level = [odd] if listed else np.array([odd])
    scores = AdditiveScores(rows, np.zeros((1, 2)), level)  # type: ignore[arg-type]
    reads = Rows(2)
    party = party_in(tmp_path, reads, ROWS[:, 0], PLAIN)
    mechanism = GaussianMechanism(2.0, 1.0)
    view = Federation([party], bounds=PLAIN).mapped(ScoreAndTarget(scores, 0.0, 1.0))
    with pytest.raises(FederationError):
        view.release(SecondMoment(3), mechanism, prepay(None, mechanism.event()))
    assert reads.n_reads == 0


# Two thousand hostile requests --------------------------------------------------------------------


def nested(depth: int) -> Any:
    found: Any = 0.0
    for _ in range(depth):
        found = [found]
    return found


JUNK: list[Any] = [
    *(math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -0.0, 0.0, 0.5, 1.5, -1.0),
    *(True, False, None, 0, 1, -1, 2, 3, 7, 10**6, 2**31, 2**63, 2**64, -(2**70), 10**400),
    *("", "0", "1", "nan", "x", "x" * 10_000, "\ud800", "\x00", "../..", "replace_one", "public"),
    *([], {}, [[]], [math.nan], {"": 0}, {"array": "0"}, {"float": "nan"}, nested(5000)),
    *([0] * 100_000, {str(i): i for i in range(20_000)}, [1, [2, [3, {}]]], b"0", 1j, {1: 2}),
    *({"Popen": {"args": "ls"}}, {"SecondMoment": {"width": 3}}, {"First": {"width": 1}}),
    *({"ClassCounts": {"n_classes": 2}}, {"HatRows": {}}, {"__class__": "Party"}, object()),
]
NAMES = ["t", "t/0", "../../evil", "a\nb", "\ud800", "", " ", "x" * 300, "\u0660", None, 3, ["t"]]
PHASES = ["sums.begin", "sums.release.0", "sums.release.00", "sums.release.7", "sums.mask.0"]
PHASES += ["hulls.fit", "sums.describe", "sums.", "", "fit", "sums.release.x"]


def chosen_place(settings: Any, chance: random.Random) -> tuple[Any, Any]:
    """Walk down to some place: what holds it, and its key there."""
    inside, key = settings, chance.choice(list(settings))
    while chance.random() < 0.9:
        deeper = inside[key]
        if not isinstance(deeper, dict | list) or not 0 < len(deeper) < 999:
            break
        keys = list(deeper) if isinstance(deeper, dict) else range(len(deeper))
        inside, key = deeper, chance.choice(keys)
    return inside, key


def changed(value: Any, chance: random.Random) -> Any:
    """Return a value of the same kind, and another size or order."""
    if type(value) is int:
        return value + chance.choice([-1, 1, 2, value])
    if type(value) is float:
        return chance.choice([value / 2, value * 2, -value, value * 1e6, math.nextafter(value, 9)])
    if type(value) is list:
        return chance.choice([value[::-1], sorted(value, key=lambda _: chance.random()), value[1:]])
    return chance.choice(JUNK)


def mutated_settings(settings: Any, donor: Any, chance: random.Random) -> Any:
    """Change, take away, add or exchange one value."""
    if not settings or chance.random() < 0.02:
        return chance.choice(JUNK)
    inside, key = chosen_place(settings, chance)
    kind = chance.randrange(10)
    if kind == 0 and isinstance(inside, dict):
        del inside[key]
    elif kind == 1 and isinstance(inside, dict):
        inside[chance.choice(["joined", "noise", "ledger", "__init__", "x" * 50])] = inside[key]
    elif kind == 2 and isinstance(inside, list):
        inside.append(inside[key])
    elif kind == 3 and isinstance(inside, dict) and str(key)[:1].isupper():
        inside[chance.choice(list(PARTS)).__name__] = inside.pop(key)
    elif kind == 4 and donor:
        other, place = chosen_place(donor, chance)
        inside[key] = copy.deepcopy(other[place])
    elif kind < 9:
        inside[key] = changed(inside[key], chance)
    else:
        inside[key] = chance.choice(JUNK)
    return settings


def mutated_arrays(arrays: dict[str, Any], chance: random.Random) -> Any:
    """Change one array, its type, its shape or its name."""
    if chance.random() < 0.1:
        return chance.choice([{"0": np.zeros(3)}, {**arrays, "more": np.zeros((2, 2))}, None, []])
    name = chance.choice([*arrays, "none"])
    array = np.atleast_1d(arrays.get(name, 0.0))
    if array.dtype.kind not in "fi":
        return arrays
    kind = chance.randrange(9)
    if kind == 0:
        odd = chance.choice([math.nan, math.inf, -1e308, 1e300, 3e7, -0.0, 2.0])
        array = array.astype(np.float64)
        array.flat[chance.randrange(max(array.size, 1)) if array.size else slice(0)] = odd
    elif kind == 1:
        kinds = [np.float32, np.int64, complex, object, bool, "U4", ">f8", np.longdouble]
        array = array.astype(chance.choice(kinds))
    elif kind == 2:
        array = chance.choice([array.ravel(), array[None], array[:0], array.T, np.zeros(())])
    elif kind == 3:
        array = array * chance.choice([0.5, 1.5, 1 + 1e-12, 1e9])
        array = chance.choice([array, array[::-1], array[..., ::-1]])
    elif kind == 4:
        array = np.repeat(array, 2, axis=chance.randrange(array.ndim))
    elif kind == 5:
        array = chance.choice([array.tolist(), "0", memoryview(b"12345678"), np.ma.array(array)])
    elif kind == 6:
        return dict.fromkeys(arrays, array)
    elif kind == 7:
        arrays[chance.choice(["", "\ud800", "9"])] = array
        arrays.pop(name, None)
        return arrays
    arrays[name] = array
    return arrays


def mutated(request: Request, donor: Request, chance: random.Random) -> Request:
    settings = json.loads(json.dumps(request.settings))
    arrays: Any = dict(request.arrays)
    task, phase = request.task, request.phase
    for _ in range(chance.choice([1, 1, 1, 1, 1, 2, 3])):
        place = chance.random()
        if isinstance(arrays, dict) and arrays and place < 0.3:
            arrays = mutated_arrays(arrays, chance)
        elif isinstance(settings, dict) and place < 0.9:
            settings = mutated_settings(settings, donor.settings, chance)
        elif place < 0.95:
            task = chance.choice(NAMES)
        elif phase[-1:].isdecimal() and chance.random() < 0.7:
            head, _, number = phase.rpartition(".")
            phase = f"{head}.{int(number) + 1}"
        else:
            phase = chance.choice(PHASES)
    return Request(task, phase, settings, arrays)


def exact_sum(asked: Mapping[str, Any], rows: Any, y: Any) -> np.ndarray:
    """Add up what was asked for, without any noise."""
    is_table = isinstance(asked["reader"].bounds, TableBounds)
    rows, codes = asked["reader"](rows if is_table else (rows, y, None))
    mapped = np.asarray(rows)
    for each in asked["maps"]:
        mapped = each(mapped)
    if asked["kept"]:
        mapped = truncate_to_grid(mapped, ROW_BITS if asked["kept"] == "rows" else SINGLE_BITS)
    return np.asarray(asked["statistic"].add_up(mapped, codes))


def neighbours(site: Site, y: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the data with the first record replaced by odd ones."""
    if site.party.terms.table is not None:
        for age, town, income in ((120, "Ypres", 1e6), (np.nan, "", -1e300), (0, "Ghent", 0.0)):
            table = TABLE.copy()
            table.loc[0, ["age", "town", "income"]] = [age, town, income]
            yield table, y
        return
    for odd, label in ((0.0, 0), (1.0, 1), (-1e300, 1), (np.nan, 0), (0.5, 1)):
        rows, labels = np.array(site.rows), np.array(y)
        rows[0], labels[0] = odd, label
        yield rows, labels


def require_sensitivity(site: Site, request: Request, y: Any) -> None:
    """Check by brute force that noise was made for what one record can do."""
    asked = read_request(request, site.party.terms.table).settings
    asked = asked.get("sum", asked)
    here = TABLE if site.party.terms.table is not None else np.array(site.rows)
    first = 0 if asked["relation"] is Relation.REPLACE_ONE else 1  # removed
    with np.errstate(all="ignore"):
        before = exact_sum(asked, here[first:], y[first:])
        for rows, labels in neighbours(site, y):
            after = exact_sum(asked, rows, labels)
            assert np.isfinite(after).all()
            assert np.linalg.norm(after - before) <= asked["mechanism"].sensitivity


def test_two_thousand_hostile_requests(
    sites: dict[str, Site], caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    """No reply beyond the terms, no foreign error; what is refused costs nothing, reads nothing."""
    chance = random.Random(seed)
    accepted: list[str] = []
    everything = [request for site in sites.values() for request in site.requests]
    for _ in range(2000):
        name = chance.choice(list(sites))
        site, y = sites[name], FITS[name][1]
        party, budget = site.party, site.party.ledger
        sums = [each for each in site.requests if each.phase.startswith("sums.release")]
        base = chance.choice(sums if chance.random() < 0.6 else site.requests)
        request = mutated(base, chance.choice(everything), chance)
        # A release or a beginning that was answered once would be answered from the store.
        stored = {}
        if isinstance(request.task, str) and "\ud800" not in request.task:
            path = party.store._path(request, ".release")
            if path.exists():
                stored[path] = path.read_bytes()
                path.unlink()
        n_events, n_reads = len(budget.events()), site.rows.n_reads
        reply = party.answer(request)
        assert isinstance(reply, Reply)
        paid = len(budget.events()) - n_events
        if reply.refusal is not None:
            assert "keeps to itself" not in reply.refusal
            assert not caplog.records
            assert (paid, site.rows.n_reads - n_reads) == (0, 0)
            assert (reply.facts, reply.arrays) == ({}, {})
        else:
            accepted.append(request.phase.partition(".")[2].rstrip(".0123456789"))
            asked = read_request(request, party.terms.table)  # it is what it should be
            assert paid == 0 or asked.phase == "sums.begin"
            if asked.phase in ("sums.release", "sums.mask"):
                require_sensitivity(site, request, y)
                begun = party.store.earlier(request, "sums.begin").fact("events")
                paid_for = flatten(map(event_from_dict, begun))
                for event, times in reply.facts.get("used", ()):
                    assert times <= paid_for[event_from_dict(event)]
            if asked.phase == "sums.begin":
                spent = epsilon_spent(asked.settings["events"], 1e-5, asked.settings["relation"])
                assert spent <= MAX_EPSILON
        for path, data in stored.items():
            path.write_bytes(data)
    # The campaign reaches what it is about: some mutants are as good as what they were made of.
    assert {"check", "begin", "release"} <= set(accepted)
    assert 20 < accepted.count("release") < 700
