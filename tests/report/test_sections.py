"""The ledger in a report."""

from __future__ import annotations

import json
import re

import pytest

from sfumato import Guarantee, Ledger
from sfumato.privacy.events import GaussianEvent, PureEvent, RepeatedEvent
from sfumato.report import LedgerExtract, Report, Result
from tests.report.test_report import forms

PROVED = Result("model", Guarantee(epsilon=1.0, delta=1e-5))


@pytest.fixture
def extract() -> LedgerExtract:
    patients = Ledger().create("patients", epsilon=4.0, delta=1e-5)
    patients.charge(GaussianEvent(3.5), RepeatedEvent(PureEvent(0.25, "choice"), 4))
    return LedgerExtract.of(patients)


def test_the_ledger_shows_every_release_with_its_time(extract: LedgerExtract) -> None:
    assert [line[1] for line in extract.lines] == ["gaussian", "pure"]
    assert extract.lines[1][2].endswith("4 times")
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d", extract.lines[0][0])
    assert extract.spent + extract.left == pytest.approx(4.0)
    found = forms(Report("Wards", [PROVED], ledger=extract))
    assert "noise multiplier 3.5" in found["html"]
    assert "epsilon 4 at delta 1e-05" in found["html"]
    assert extract.head in found["html"]
    assert json.loads(found["json"])["ledger"]["lines"][0][1] == "gaussian"
