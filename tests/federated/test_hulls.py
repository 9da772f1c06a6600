"""Federated hulls in simulation: merging, refusals, budgets."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato import Bounds, Ledger
from sfumato.exceptions import FederationError, InvalidInputError
from sfumato.federated import Party, Terms, make_parties, simulate
from sfumato.federated.federation import ONE_PARTY_EACH
from tests.federated.federations import hulls


def test_the_global_distance_is_the_smallest_of_the_parties(tmp_path, digits) -> None:
    X, y, X_test, y_test = digits
    parties = make_parties(X, y, tmp_path, scenario="two-per-class", random_state=2)
    models = []
    for party in parties:
        fit = party.fit_hulls
        party.fit_hulls = lambda asked, fit=fit: models.append(fit(asked)) or models[-1]
    found = simulate(parties, hulls())
    each = np.stack([model.distances(X_test).min(axis=1) for model in models])
    together = found.model.distances(X_test).min(axis=1)
    np.testing.assert_allclose(together, each.min(axis=0), rtol=1e-9)
    assert found.model.score(X_test, y_test) > 0.9
    assert len(found.guarantees) == 20


def test_a_ledger_is_charged_and_rows_stay(tmp_path, digits) -> None:
    X, y, _, _ = digits
    budget = Ledger(tmp_path / "ledger.db").create("rows", epsilon=20.0, delta=1e-5, unit="entry")
    party = Party.of_rows("a", X, y, tmp_path / "a", ledger=budget)
    simulate([party], hulls())
    assert 0 < budget.spent() <= 16
    with pytest.raises(FederationError, match="No party agreed"):
        simulate([party], hulls())  # it is used up


def untouchable() -> None:
    raise AssertionError("rows were read")


@pytest.mark.parametrize(
    ("changes", "terms", "sentence"),
    [
        ({}, Terms(Bounds(lower=0.0, upper=1.0, labels=range(10))), "bounds"),
        ({}, Terms(max_epsilon=15.0), "at most 15"),
        ({"epsilon": 17.0}, Terms(), "at most 16"),
        ({"epsilon": 1.0, "delta": 0.5}, Terms(), "delta 0.5"),
        ({"entry_bound": 1e-9}, Terms(), "smaller changes"),
        ({"entry_bound": 0.9}, Terms(entry_bound=1.0), "smaller changes"),
        ({}, Terms(unit="record"), "unit"),
        ({}, Terms(relation="add_or_remove_one"), "relation"),
        ({"bounds": Bounds(lower=0.0, upper=16.0, labels="public")}, Terms(), "listed"),
        ({"bounds": Bounds(lower=0.0, upper=16.0)}, Terms(), "listed"),
        ({"bounds": None}, Terms(), "listed"),
    ],
)
def test_other_terms_are_refused_before_any_row_is_read(tmp_path, changes, terms, sentence) -> None:
    party = Party("a", untouchable, tmp_path, terms=terms)
    with pytest.raises(FederationError, match=sentence):
        party.fit_hulls(hulls(**changes))


def test_a_party_that_refuses_is_left_out_and_named(tmp_path, digits) -> None:
    X, y, _, _ = digits

    def load() -> None:
        raise InvalidInputError("The file '/secret/t.csv': column 2 holds values not of its type.")

    parties = make_parties(X, y, tmp_path, n_parties=2, random_state=0)
    found = simulate([*parties, Party("a", load, tmp_path / "a")], hulls())
    assert found.refused == {"a": "a cannot read its rows; see its log."}
    assert set(found.guarantees) == {"party-0", "party-1"}
    assert ONE_PARTY_EACH in found.model.guarantee_.conditions
