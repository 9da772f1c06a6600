"""People and their events: one record per person, and two tables that fit together again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato import Fabricator, Ledger, LinkedTables, TableBounds
from sfumato.audit.testing import seeded_noise
from sfumato.audit.testing.contracts import moved_share
from sfumato.exceptions import UnsupportedModeError
from sfumato.mechanisms.base import Tape, taped

PEOPLE = TableBounds.from_dict(
    {"age": {"type": "int64", "lower": 0, "upper": 100}, "sex": ["f", "m"], "ill": ["no", "yes"]},
    target="ill",
)
EVENTS = TableBounds.from_dict(
    {
        "kind": ["visit", "call", "stay"],
        "day": {"type": "int64", "lower": 0, "upper": 365},
        "cost": {"lower": 0, "upper": 500, "decimals": 1, "missing": True},
    }
)
LINKED = LinkedTables(PEOPLE, EVENTS, key="id", most_events=5, order="day")
Tables = tuple[pd.DataFrame, pd.DataFrame]


def clinic(n: int, seed: int = 0) -> Tables:
    rng = np.random.default_rng(seed)
    ill = rng.choice(["no", "yes"], n, p=[0.7, 0.3])
    age = np.clip(rng.normal(np.where(ill == "yes", 65, 40), 10), 0, 100).round().astype(int)
    people = pd.DataFrame({"id": 100 + np.arange(n), "age": age, "ill": ill})
    people["sex"] = rng.choice(["f", "m"], n)
    count = rng.poisson(np.where(ill == "yes", 2.5, 1.0))
    owner = np.repeat(np.arange(n), count)
    stay = rng.random(len(owner)) < np.where(ill[owner] == "yes", 0.6, 0.1)
    events = pd.DataFrame({"id": 100 + owner, "day": rng.integers(0, 366, len(owner))})
    events["kind"] = np.where(stay, "stay", rng.choice(["visit", "call"], len(owner)))
    events["cost"] = np.where(rng.random(len(owner)) < 0.2, np.nan, 100.0 + 200 * stay)
    return people, events.sample(frac=1, random_state=seed)


def fabricator(**parameters: Any) -> Fabricator:
    usual = {"epsilon": 3.0, "delta": 1e-5, "bounds": LINKED.bounds, "random_state": 0}
    return Fabricator(**{"unit": "person", **usual, **parameters})


def changed(tables: Tables, number: int) -> Tables:
    """Return neighbours: a person goes, or has other facts, odd cells or a thousand events."""
    people, events = tables
    others = people[people["id"] != 103], events[events["id"] != 103]
    if number == 0:
        return others
    odd = number == 2
    row = {"id": 103, "age": "x" if odd else 99, "sex": None if odd else "m", "ill": "yes"}
    more = {"kind": "odd" if odd else "stay", "day": np.nan if odd else 365, "cost": np.inf}
    many = pd.DataFrame([{"id": 103.0 if odd else 103, **more}] * (1000 if number == 3 else 2))
    place = int((people["id"] < 103).sum())
    rows = [people.iloc[:place], pd.DataFrame([row]), people.iloc[place + 1 :]]
    first, second = pd.concat(rows), pd.concat([many, others[1]])
    return first, second if number < 4 else others[1]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_person_changes_one_record(library: str) -> None:
    pl, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    give = {
        "pandas": lambda table: table,
        "polars": pl.from_pandas,
        "pyarrow": lambda table: pa.Table.from_pandas(table, preserve_index=False),
    }[library]
    tables, others = clinic(40), [k for k in range(40) if k != 3]
    for number in range(5) if library == "pandas" else (0, 1, 3, 4):  # 2 is no column of Arrow
        joined = (LINKED.joined(*map(give, each)) for each in (tables, changed(tables, number)))
        here, there = (LINKED.bounds.cells(each) for each in joined)
        np.testing.assert_array_equal(here[others], there if number == 0 else there[others])
        if number:
            assert len(there) == 40
            assert not np.array_equal(here[3], there[3], equal_nan=True)


def test_a_record_tells_a_person() -> None:
    people = pd.DataFrame(
        {"id": [7, "8", 7, None], "age": [30, 40, 50, 60], "sex": "f", "ill": "no"}
    )
    events = pd.DataFrame(
        {
            "id": ["7", 7.0, 9, 7, None],
            "kind": ["call", "visit", "stay", "stay", "stay"],
            "day": [30, 10, 1, 20, 2],
            "cost": [1.0, np.nan, 3.0, 4.0, 5.0],
        }
    )
    made = LINKED.joined(people, events)
    assert made["age"].tolist() == [30, 40, 60]  # the first row of 7; who has no key is alone
    assert made["events"].tolist() == [3, 0, 0]
    assert made["first.kind"].tolist()[:1] == ["visit"]  # by day
    assert made["further.kind"].iloc[0] in ("stay", "call")
    assert made["first.kind"].isna().tolist() == [False, True, True]


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_no_person_moves_a_release_further_than_its_sensitivity(relation: str) -> None:
    def releases(tables: Tables, playback: Tape | None = None) -> Tape:
        with taped(playback) as tape:
            fabricator(relation=relation).fit(LINKED.joined(*tables))
        return tape

    tables = clinic(80)
    first = releases(tables)
    numbers = [1, 2, 3, 4] if relation == "replace_one" else [0]
    moved = [
        [moved_share(a, b) for a, b in zip(first.releases, tape.releases, strict=True)]
        for tape in (releases(changed(tables, number), first) for number in numbers)
    ]
    assert np.max(moved) <= 1 + 1e-12
    assert np.max(moved) >= 0.7


def test_the_guarantee_speaks_of_persons() -> None:
    people, events = clinic(60)
    people["id"] = people["id"].astype(object)
    people.loc[3, "id"] = None  # nobody: dropped
    ledger = Ledger().create("clinic", epsilon=10.0, delta=1e-4, unit="person")
    joined = LINKED.joined(people, events)
    model = fabricator(ledger=ledger).fit(joined)
    assert "any one person, with all rows," in str(model.guarantee_)
    assert 0 < ledger.spent() <= 3.0
    assert len(LINKED.split(model)[0]) == 59
    assert not set(joined["id"].dropna()) & set(map(str, people["id"]))  # no key travels
    with pytest.raises(UnsupportedModeError, match="'person'"):
        fabricator(ledger=ledger, unit="record").fit(joined)


def test_nothing_after_the_releases_reads_a_person() -> None:
    tables, others = clinic(60), clinic(60, seed=9)
    with taped() as tape:
        here = fabricator().fit(LINKED.joined(*tables))
    with taped(tape):
        there = fabricator().fit(LINKED.joined(*others))
    for a, b in zip(LINKED.split(here), LINKED.split(there), strict=True):
        pd.testing.assert_frame_equal(a, b)


def test_counts_and_first_events_are_near() -> None:
    """Total variation at most 5 %, epsilon 3, 5,000 people."""
    people, events = clinic(5000, 1)
    with seeded_noise(1):
        model = fabricator().fit(LINKED.joined(people, events))
    made, happened = LINKED.split(model)
    assert list(made.columns) == ["id", "age", "sex", "ill"]
    assert set(happened["id"]) <= set(made["id"]) == set(range(1, 5001))
    for label in ("no", "yes"):
        real = people.loc[people["ill"] == label, "id"]
        mine = made.loc[made["ill"] == label, "id"]
        counts = [
            np.minimum(table.groupby("id").size().reindex(ids, fill_value=0), 5)
            for table, ids in ((events, real), (happened, mine))
        ]
        shares = [np.bincount(each, minlength=6) / len(each) for each in counts]
        assert np.abs(shares[0] - shares[1]).sum() / 2 < 0.05
    firsts = [
        table.sort_values("day", kind="stable").groupby("id").first()["kind"]
        for table in (events, happened)
    ]
    shares = [each.value_counts(normalize=True) for each in firsts]
    assert (shares[0] - shares[1]).abs().sum() / 2 < 0.05
    stays = []
    for table, facts in ((events, people), (happened, made)):
        ill = table["id"].isin(facts.loc[facts["ill"] == "yes", "id"])
        stays.append((table.loc[ill, "kind"] == "stay").mean())
    assert stays[1] == pytest.approx(stays[0], abs=0.08)  # later events know the person
    paid = happened.dropna(subset=["cost"])
    for some in (paid, paid[paid.groupby("id").cumcount() > 1]):  # stays are what costs
        assert np.corrcoef(some["kind"] == "stay", some["cost"])[0, 1] > 0.6
    assert happened["cost"].isna().mean() == pytest.approx(0.2, abs=0.05)
    assert happened.groupby("id")["day"].apply(lambda d: d.is_monotonic_increasing).all()
