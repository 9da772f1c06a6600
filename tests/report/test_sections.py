"""The optional parts of a report: ledger, budget curve, marginals, audit, limits."""

from __future__ import annotations

import json
import re

import pytest

from sfumato import Guarantee, Ledger
from sfumato.privacy.events import GaussianEvent, PureEvent, RepeatedEvent
from sfumato.report import Audit, LedgerExtract, Marginal, Report, Result
from sfumato.report.words import RAW
from tests.report.test_report import an_audit, forms

PROVED = Result("model", Guarantee(epsilon=1.0, delta=1e-5), {"accuracy": 0.8})


def test_an_ordinary_report_holds_nothing_sensitive() -> None:
    report = Report("Wards", [PROVED])
    for text in forms(report).values():
        assert RAW not in text
    assert json.loads(report.to_json())["sensitive"] == {
        "curve": {},
        "marginals": [],
        "audit": None,
    }


@pytest.mark.parametrize(
    "part",
    [
        {"curve": {"accuracy": [(1.0, 0.7), (3.0, 0.9)]}},
        {"marginals": (Marginal("age", ("0", "50"), (0.5, 0.5), (0.4, 0.6)),)},
        {"audit": Audit.from_dict(an_audit())},
        {"sensitive_metrics": True},
    ],
    ids=["curve", "marginals", "audit", "metrics"],
)
def test_every_sensitive_part_is_marked(part) -> None:
    report = Report("Wards", [PROVED], **part)
    found = forms(report)
    assert RAW in found["html"]


# Ledger -------------------------------------------------------------------------------------


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


# Curve --------------------------------------------------------------------------------------


def test_the_curve_holds_the_released_model_too() -> None:
    points = [(0.3, 0.5), (3.0, 0.9)]
    page = Report(
        "Wards", [PROVED], ceiling={"accuracy": 0.95}, curve={"accuracy": points}
    ).to_html()
    *_, drawn = re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL)
    assert "at other budgets: 0.5 at epsilon 0.3, 0.9 at epsilon 3" in drawn
    assert "model: 0.8 at epsilon 1" in drawn
    assert 'class="ceiling"' in drawn


# Pictures -----------------------------------------------------------------------------------


# Audit --------------------------------------------------------------------------------------
