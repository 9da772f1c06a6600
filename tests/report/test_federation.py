"""The picture of a federation in a report."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from sfumato import PrivatePCA
from sfumato.exceptions import InvalidInputError
from sfumato.federated import Federation, make_parties
from sfumato.guarantee import Guarantee
from sfumato.report import Report, Result
from sfumato.report.federation import Parties, parties_article, party_rows
from tests.federated.test_federated_sums import BOUNDS, X, Y


@pytest.mark.parametrize("trust", ["noisy", "secure"])
def test_a_report_shows_who_took_part_and_what_was_seen(trust: str, tmp_path: Path) -> None:
    parties = make_parties(X, Y, tmp_path, n_parties=3, random_state=0, bounds=BOUNDS)
    federation = Federation(parties, bounds=BOUNDS, trust=trust, colluding=0)
    model = PrivatePCA(n_components=2, epsilon=1.0, delta=1e-5, bounds=BOUNDS).fit(federation)
    told = federation.to_dict(model.guarantee_)
    report = Report("Three clinics", [Result("PCA", model.guarantee_, federation=told)])
    page, text = report.to_html(), report.to_markdown()
    for shown in (page, text):
        assert "The federation" in shown
        assert all(f"party-{number}" in shown for number in range(3))
        assert ("nothing else about any party" in shown) is (trust == "secure")
    assert party_rows(Parties.of(told))[0][1:3] == ("133", "1 of 1")
    assert party_rows(Parties.of(told))[0][4] == "1"
    picture = parties_article(Parties.of(told), "k").partition("<figure>")[2]
    ElementTree.fromstring(picture.partition("</figure>")[0])  # well formed


def test_many_parties_and_those_who_vanished_are_drawn() -> None:
    names = [f"<b>clinic {number}</b>" for number in range(20)]
    told = {
        "trust": "secure",
        "colluding": 2,
        "total": {"epsilon": 3.0},
        "parties": {name: {"rows": None} for name in names},
        "sums": [
            {"statistic": "SecondMoment", "included": names, "seen": "nothing", "sent": 2**20},
            {"statistic": "SecondMoment", "included": names[1:], "seen": "nothing", "sent": 2**20},
        ],
    }
    article = parties_article(Parties.of(told), "k")
    assert "<b>" not in article
    assert "and 8 more" in article
    assert party_rows(Parties.of(told))[0][1:] == ("secret", "1 of 2", "1.00", "3", "nothing")


def test_what_is_no_federation_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="what Federation"):
        Result("x", Guarantee(epsilon=1.0), federation={"trust": "noisy"})
