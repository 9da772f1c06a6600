"""A fit over parties that was interrupted goes on; parties of all sizes; what a sum costs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato import Ledger, PrivateGaussianClassifier, PrivatePCA
from sfumato.exceptions import FederationError
from sfumato.federated import Federation, Party, Terms
from sfumato.federated.messages import Reply, Request
from sfumato.ledger.receipt import prepay
from sfumato.mechanisms import GaussianMechanism
from sfumato.sums import ArrayRecords, ClassMoments
from tests.federated.test_federated_sums import BALL, BOUNDS, TRUSTS, Losing, X, Y, parties_in

MODEL = PrivateGaussianClassifier(
    n_components=10, gaussians_per_class=1, epsilon=30.0, delta=1e-5, bounds=BOUNDS
)


class Interrupted(Losing):
    """A coordinator that is killed when it is about to ask for a step."""

    def __init__(self, parties: list[Party], step: str) -> None:
        super().__init__(parties, {})
        self.step = step

    def ask(self, requests: Mapping[str, Request]) -> dict[str, Reply]:
        if any(each.phase.startswith(self.step) for each in requests.values()):
            raise KeyboardInterrupt
        return super().ask(requests)


@pytest.mark.parametrize("trust", TRUSTS)
def test_an_interrupted_fit_goes_on_and_costs_nobody_twice(trust: str, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    for number in range(4):
        ledger.create(f"party-{number}", epsilon=30.0, delta=1e-5)
    given: dict[str, Any] = {"bounds": BOUNDS, "trust": trust, "task": "t", "colluding": 0}
    given["totals"] = tmp_path / "totals"
    step = "sums.release.1" if trust == "noisy" else "sums.advertise.1"
    parties = parties_in(tmp_path / "parties", 4, ledger=ledger.dataset)
    first = Federation(Interrupted(parties, step), **given)
    with pytest.raises(KeyboardInterrupt):
        MODEL.fit(first)
    assert len(first.rounds) == 1
    parties = parties_in(tmp_path / "parties", 4, ledger=ledger.dataset)  # all started anew
    again = Federation(parties, **given)
    found = MODEL.fit(again)
    assert len(again.rounds) == 3
    np.testing.assert_array_equal(again.released[0], first.released[0])
    assert all(29.9 < ledger.dataset(f"party-{n}").spent() <= 30.0 for n in range(4))
    third = Federation(parties, **given)  # all of it from the folder: nobody is asked for sums
    np.testing.assert_array_equal(MODEL.fit(third).means_, found.means_)


def test_totals_of_other_terms_are_not_taken(tmp_path: Path) -> None:
    given: dict[str, Any] = {"bounds": BOUNDS, "task": "t", "totals": tmp_path / "totals"}
    model = PrivatePCA(n_components=2, epsilon=1.0, delta=1e-5, bounds=BOUNDS)
    model.fit(Federation(parties_in(tmp_path / "p", 3), **given))
    (stored,) = (tmp_path / "totals").iterdir()
    other = PrivatePCA(n_components=2, epsilon=2.0, delta=1e-5, bounds=BOUNDS)
    with pytest.raises(FederationError, match="other settings"):
        other.fit(Federation(parties_in(tmp_path / "p", 3), **given))
    stored.write_bytes(stored.read_bytes()[:-40])
    with pytest.raises(FederationError, match="is damaged"):
        model.fit(Federation(parties_in(tmp_path / "p", 3), **given))


@pytest.mark.parametrize("trust", TRUSTS)
def test_parties_of_all_sizes_and_with_few_classes_add_up(trust: str, tmp_path: Path) -> None:
    parts = [np.flatnonzero(Y == 3), np.array([0]), np.flatnonzero(Y != 3)[1:]]
    parties = [
        Party.of_rows(
            f"p{i}", X[part], Y[part], tmp_path / str(i), terms=Terms(BOUNDS, np.inf, colluding=0)
        )
        for i, part in enumerate(parts)
    ]
    records = Federation(parties, bounds=BOUNDS, trust=trust, colluding=0)
    rows = np.concatenate(parts)
    assert records.public_rows == len(rows)
    statistic, mechanism = ClassMoments(10, 64, 0.5), GaussianMechanism(2.5, 2.0**-16)
    found = records.mapped(BALL).release(statistic, mechanism, prepay(None, mechanism.event()))
    central = ArrayRecords(X[rows], Y[rows].astype(np.intp), relation="replace_one").mapped(BALL)
    exact = central.release(statistic, mechanism, prepay(None, mechanism.event()))
    assert np.abs(found - exact).max() < 2e-3


def test_what_a_sum_costs_is_counted_with_keys_and_shares(tmp_path: Path) -> None:
    records = Federation(parties_in(tmp_path, 5), bounds=BOUNDS, trust="secure", colluding=0)
    PrivatePCA(n_components=2, epsilon=1.0, delta=1e-5, bounds=BOUNDS).fit(records)
    (each,) = records.rounds
    words = 8 * 64 * 65 // 2
    assert words + 1000 < each.sent < words + 20_000  # its numbers, keys and shares for four
    assert each.received > 1000
    assert each.seconds > 0
