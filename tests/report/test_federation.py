"""A federation in a report."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato import PrivatePCA
from sfumato.federated import Federation, make_parties
from sfumato.report import Report, Result
from sfumato.report.parts import parties_of
from tests.federated.test_sums import BOUNDS, X, Y


@pytest.mark.parametrize("trust", ["noisy", "secure"])
def test_a_report_shows_who_took_part_and_what_was_seen(trust: str, tmp_path: Path) -> None:
    parties = make_parties(X, Y, tmp_path, n_parties=3, random_state=0, bounds=BOUNDS)
    federation = Federation(parties, bounds=BOUNDS, trust=trust, colluding=0)
    model = PrivatePCA(n_components=2, epsilon=1.0, delta=1e-5, bounds=BOUNDS).fit(federation)
    told = federation.to_dict(model.guarantee_)
    report = Report("Three clinics", [Result("PCA", model.guarantee_, federation=told)])
    page = report.to_html()
    assert "The federation" in page
    assert all(f"party-{number}" in page for number in range(3))
    assert ("nothing else about any party" in page) is (trust == "secure")
    (first, *_) = parties_of(told)[1]
    assert first[1:3] == ("133", "1 of 1")
    assert first[4] == "1"
