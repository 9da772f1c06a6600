"""Estimators with unit "person": all contracts, and what is refused before the charge."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import sfumato as sf
from sfumato.audit.testing import PrivateCase, contracts
from sfumato.exceptions import InvalidInputError, MissingBoundsError, UnsupportedModeError
from sfumato.mechanisms.base import taped
from sfumato.mechanisms.entropy import seeded
from sfumato.models.base import PrivateEstimator
from sfumato.privacy.guarantee import Unit
from sfumato.sums.persons import PersonUnit
from sfumato.tables import TableBounds

K = 5
GENERATOR = np.random.default_rng(0)
X = sf.Bounds(norm=1.0).clip(GENERATOR.normal(size=(120, 4)) * [0.6, 0.3, 0.2, 0.1])
Y = (X[:, 0] > 0).astype(int)
RELATIONS = ("replace_one", "add_or_remove_one")
WAYS = ("average", "sum")


def bounds(way: str, **more: Any) -> sf.Bounds:
    return sf.Bounds(norm=1.0, person_rows=K, per_person=way, **more)


def cases(way: str, relation: str) -> list[PrivateCase]:
    words: dict[str, Any] = {"unit": "person", "relation": relation, "delta": 1e-5}
    labelled = {**words, "bounds": bounds(way, labels=[0, 1])}
    box = {**words, "bounds": sf.Bounds(lower=-1.0, upper=1.0, person_rows=K, per_person=way)}
    box_of_two = {**words, "bounds": replace(box["bounds"], labels=[0, 1])}
    target = {"target_bounds": (0.0, 1.0)}
    corners = np.array([[1.0, 1.0], [-1.0, -1.0]])
    curves = np.sin(6 * np.linspace(0, 1, 8)) + 0.3 * X[:, :1]
    found = [
        PrivateCase(
            sf.PrivateAdditiveClassifier(knots="private", n_knots=33, n_steps=2, **box_of_two),
            X[:, :2],
            Y,
            rows_at_bound=corners,
        ),
        PrivateCase(
            sf.PrivateAdditiveRegressor(
                knots="private", interactions=False, n_knots=9, n_steps=2, **target, **box
            ),
            X[:, :2] * 0.01,
            (np.arange(120) > 12).astype(float),
            rows_at_bound=corners,
        ),
        PrivateCase(
            sf.PrivateLinearRegressor(n_steps=2, **target, **box),
            X[:, :2] * 0.01,
            (np.arange(120) > 12).astype(float),
            rows_at_bound=corners,
        ),
        PrivateCase(sf.PrivateDensity(n_cells=8, **box_of_two), X[:, :2], Y),
        PrivateCase(sf.GaussianFabricator(n_components=2, random_state=0, **labelled), X, Y),
    ]
    if way == "average":
        wide = replace(box["bounds"], lower=-2.0, upper=2.0)
        found.append(PrivateCase(sf.PrivateMeanCurve(norm=1.0, **{**box, "bounds": wide}), curves))
    return [
        *found,
        PrivateCase(sf.PrivatePCA(2, bounds=bounds(way), **words), X),
        PrivateCase(sf.PrivateMoments(**labelled), X, Y),
        PrivateCase(sf.PrivateGaussianClassifier(2, gaussians_per_class=1, **labelled), X, Y),
        PrivateCase(sf.PrivateLinearClassifier(n_steps=3, **labelled), X, Y),
    ]


DEFAULTS = ("average", "replace_one")
TRIED = {  # both ways and relations where they matter, together where they do, one where not
    contracts.check_sensitivity: list(product(WAYS, RELATIONS)),
    contracts.check_taint: [("sum", "add_or_remove_one")],
    contracts.check_no_raw_row_survives: [DEFAULTS],
    contracts.check_guarantee_covers_the_releases: [DEFAULTS],
}
CASES = [
    pytest.param(case, check, id="-".join([type(case.estimator).__name__, *words, check.__name__]))
    for check, combinations in TRIED.items()
    for words in combinations
    for case in cases(*words)
]


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize(("case", "check"), CASES)
def test_contract(case: PrivateCase, check: Callable[[PrivateCase], None]) -> None:
    check(case)


def test_a_density_pays_for_the_rounding_of_every_cell_that_two_persons_touch() -> None:
    (case,) = [c for c in cases(*DEFAULTS) if isinstance(c.estimator, sf.PrivateDensity)]
    with taped() as tape:
        clone(case.estimator).fit(case.X, case.y, groups=np.arange(len(X)) // K)
    assert tape.releases[0].mechanism.touched == 2 * K


@pytest.mark.parametrize("case", cases(*DEFAULTS), ids=lambda c: type(c.estimator).__name__)
def test_what_a_person_is_told(case: PrivateCase, tmp_path: Any) -> None:
    ids = np.arange(len(X)) // K
    model = clone(case.estimator).fit(case.X, case.y, groups=ids)
    guarantee = model.guarantee_
    assert guarantee.unit is Unit.PERSON
    assert "any one person, with all rows," in str(guarantee)
    assert "number of persons" in guarantee.public
    assert "number of rows" not in guarantee.public
    assert sf.Guarantee.from_dict(guarantee.to_dict()) == guarantee
    sf.save(model, tmp_path / "model.sfumato")
    loaded = sf.load(tmp_path / "model.sfumato")
    assert loaded.guarantee_ == guarantee
    assert loaded.bounds == model.bounds


@pytest.mark.parametrize("case", cases(*DEFAULTS), ids=lambda c: type(c.estimator).__name__)
def test_refused_before_the_charge(case: PrivateCase) -> None:
    ledger = sf.Ledger().create("people", epsilon=10.0, delta=1e-4, unit="person")
    model = clone(case.estimator).set_params(ledger=ledger)
    ids = np.arange(len(X)) // K
    with pytest.raises(InvalidInputError, match="groups"):
        model.fit(case.X, case.y)
    with pytest.raises(InvalidInputError, match="inconsistent"):
        model.fit(case.X, case.y, groups=ids[:-1])
    with pytest.raises(InvalidInputError, match="groups"):
        clone(model).set_params(unit="record").fit(case.X, case.y, groups=ids)
    without = replace(model.bounds, person_rows=None)
    with pytest.raises(MissingBoundsError, match="person_rows"):
        clone(model).set_params(bounds=without).fit(case.X, case.y, groups=ids)
    with pytest.raises(UnsupportedModeError, match="'person'"):
        clone(model).set_params(unit="record").fit(case.X, case.y)
    assert ledger.spent() == 0
    model.fit(case.X, case.y, groups=ids)
    assert 0 < ledger.spent() <= model.epsilon


def test_estimators_without_persons_say_so_before_the_charge() -> None:
    """Every private estimator either offers persons or names what it offers instead."""
    listed = [getattr(sf, name) for name in sf._MODULE_OF]
    private = [
        each for each in listed if isinstance(each, type) and issubclass(each, PrivateEstimator)
    ]
    assert len(private) > 10
    for kind in private:
        if Unit.PERSON in kind.offered_units or Unit.RECORD not in kind.offered_units:
            continue
        with pytest.raises(UnsupportedModeError, match=r"for_persons|person"):
            kind(unit="person")._check_request()


TABLE = TableBounds.from_dict(
    {"age": (0, 100), "town": ["Ghent", "Ypres"], "ill": ["no", "yes"]}, target="ill"
)


# The rows of one person: none, all alike at two far ends, mixed, too many, odd ones.
LAST_PERSONS: list[list[list[Any]]] = [
    [],
    [[99.0, "Ghent", "yes"]] * K,
    [[1.0, "Ypres", "no"]] * K,
    [[99.0, "Ghent", "yes"], [1.0, "Ypres", "no"]],
    [[51.0, "Ypres", "yes"]],
    [[np.nan, "Bruges", "maybe"]] * K,
]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("way", WAYS)
def test_a_tree_of_persons(way: str, relation: str) -> None:
    """Brute force over all rows of a person: each release moves as far as is said, no further."""
    table = pd.DataFrame(
        {
            "age": np.linspace(0, 100, 60),
            "town": ["Ghent", "Ypres"] * 30,
            "ill": ["no", "no", "yes"] * 20,
        }
    )
    ids = np.arange(60) // K
    declared = replace(TABLE, person_rows=K, per_person=way)
    model = sf.Fabricator(
        unit="person", relation=relation, delta=1e-5, bounds=declared, random_state=0
    )
    tapes: list[Any] = []
    for last in LAST_PERSONS[relation == "replace_one" :]:
        rows = pd.DataFrame(last, columns=table.columns)
        other = pd.concat([table.iloc[:55], rows]) if last else table.iloc[:55]
        owners = np.append(ids[:55], [99] * len(last))
        with seeded(0), taped(tapes[0] if tapes else None) as tape:
            clone(model).fit(other, groups=owners)
        tapes.append(tape)
    largest = 0.0
    for here, there in combinations(tapes, 2):
        if relation == "add_or_remove_one" and here is not tapes[0]:
            continue  # the first has no such person
        pairs = zip(here.releases, there.releases, strict=True)
        largest = np.maximum(largest, [contracts.moved_share(a, b) for a, b in pairs])
    # Counts attain their sensitivity; of scores (the moments) few rows are as long as they may be.
    is_moment = np.array([each.method == "release_symmetric" for each in tapes[0].releases])
    assert (largest[~is_moment] >= 0.9).all(), largest
    assert (largest <= 1 + 1e-9).all(), largest


def test_bounds_that_name_a_person_protect_persons() -> None:
    """Without a unit: rows of one person may not be protected one by one, nor in silence."""
    declared = replace(TABLE, person="who", person_rows=K)
    rows = {"who": np.arange(60) // K, "age": np.linspace(0, 100, 60)}
    table = pd.DataFrame({**rows, "town": ["Ghent", "Ypres"] * 30, "ill": ["no", "yes", "no"] * 20})
    people = sf.Ledger().create("people", epsilon=3.0, delta=1e-5, unit="person")
    for kind in (sf.PrivateAdditiveClassifier, sf.Fabricator):
        model = kind(delta=1e-6, bounds=declared, ledger=people)
        assert clone(model).fit(table).guarantee_.unit is Unit.PERSON
        single = clone(model).set_params(unit="record", ledger=None)
        assert single.fit(table).guarantee_.unit is Unit.RECORD


def test_a_ledger_of_persons_pays_for_no_records() -> None:
    people = sf.Ledger().create("people", epsilon=3.0, delta=1e-6, unit="person")
    record = sf.PrivatePCA(1, epsilon=0.1, delta=1e-6, bounds=sf.Bounds(norm=1.0), ledger=people)
    with pytest.raises(UnsupportedModeError, match="'person'"):
        record.fit(X)
    assert people.spent() == 0


class RowsOnly(sf.PrivatePCA):
    """Broken: the noise of one row, whatever a person has."""

    def _begin(self, *args: Any, **options: Any) -> Any:
        records, budget = super()._begin(*args, **options)
        records.person = PersonUnit(1, "sum")
        return records, budget


def test_an_audit_tells_persons_from_rows() -> None:
    """Twenty rows of a person: what protects rows only is caught, what protects persons is not."""
    twenty = sf.Bounds(norm=1.0, person_rows=20, per_person="sum")
    words = {"unit": "person", "epsilon": 1.0, "delta": 1e-5, "bounds": twenty}
    assert sf.PrivatePCA(1, **words).audit(n_runs=1000).consistent
    assert not RowsOnly(1, **words).audit(n_runs=1000).consistent
