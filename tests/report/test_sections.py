"""The optional parts of a report: ledger, budget curve, marginals, audit, limits."""

from __future__ import annotations

import json
import re

import pytest

from sfumato import Guarantee, Ledger
from sfumato.exceptions import InvalidInputError
from sfumato.privacy.events import GaussianEvent, PureEvent, RepeatedEvent
from sfumato.report import Audit, LedgerExtract, Marginal, Report, Result
from sfumato.report.charts import BOTTOM, TOP, paired_bars, roc_curves
from sfumato.report.parts import Roc
from sfumato.report.words import LIMITS, RAW
from tests.report.test_report import Reader, an_audit, forms

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


def test_the_page_says_what_is_not_protected() -> None:
    found = forms(Report("Wards", [PROVED]))
    for limit in LIMITS:
        assert limit in found["html"]


def test_the_guarantee_stands_first_and_large() -> None:
    page = Report("Wards", [PROVED]).to_html()
    hero = re.search(r'<section class="hero".*?</section>', page, flags=re.DOTALL)
    assert hero is not None
    assert Reader(hero[0]).plain.endswith(str(PROVED.guarantee))
    assert (
        page.index('class="officer"') < page.index('class="appendix"') < page.index('class="hero"')
    )
    refuted = Result("as printed", Guarantee(epsilon=None, status="refuted"))
    assert 'class="hero unproved"' in Report("Wards", [refuted]).to_html()
    many = [PROVED] * 4
    assert 'class="hero' not in Report("Wards", many).to_html()


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


def test_a_ledger_without_charges_says_so() -> None:
    empty = LedgerExtract.of(Ledger().create("patients", epsilon=1.0))
    assert "Nothing yet." in Report("Wards", ledger=empty).to_html()


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


@pytest.mark.parametrize("curve", [{"a": [1.0]}, {"a": [(1.0, float("nan"))]}, [1.0], {"a": 3}])
def test_a_curve_must_be_pairs_of_numbers(curve) -> None:
    with pytest.raises(InvalidInputError, match="'curve'"):
        Report("Wards", curve=curve)


# Pictures -----------------------------------------------------------------------------------


def test_bars_are_as_high_as_their_shares() -> None:
    drawn = paired_bars("age", ["a", "b"], [0.2, 0.8], [0.4, 0.6], names=("x", "y"), key="k")
    heights = {
        kind: [float(h) for h in re.findall(rf'class="{kind}".*?height="([\d.]+)"', drawn)]
        for kind in ("bar", "bar-outline")
    }
    full = BOTTOM - TOP
    assert heights["bar"] == pytest.approx([0.25 * full, full], abs=0.06)
    assert heights["bar-outline"] == pytest.approx([0.5 * full, 0.75 * full], abs=0.06)
    assert "a: x 0.2, y 0.4" in drawn


def test_many_bars_name_only_the_ends() -> None:
    labels = [str(i) for i in range(40)]
    drawn = paired_bars("age", labels, [1.0] * 40, [0.0] * 40, names=("x", "y"), key="k")
    assert re.findall(r'class="tick".*?>(\w+)<', drawn) == ["0", "39"]
    assert "and 28 more" in drawn


def test_roc_curves_start_and_end_in_the_corners() -> None:
    attack = Roc("attack", (0.0, 0.1, 1.0), (0.0, 0.7, 1.0))
    corners = re.search(r'polyline class="line".*?points="(.*?)"', roc_curves([attack], key="k"))
    assert corners is not None
    assert corners[1].split() == ["44.0,300.0", "72.0,104.0", "324.0,20.0"]
    drawn = roc_curves([attack], key="k", decades=2)
    corners = re.search(r'polyline class="line".*?points="(.*?)"', drawn)
    assert corners is not None
    assert corners[1].split()[::2] == ["44.0,300.0", "324.0,20.0"]
    assert corners[1].split()[1].startswith("184.0,")  # a tenth is half of two decades


def test_the_distance_of_marginals_is_the_total_variation() -> None:
    assert Marginal("x", ("a", "b"), (1.0, 0.0), (0.0, 1.0)).distance == 1.0
    assert Marginal("x", ("a", "b"), (0.5, 0.5), (0.5, 0.5)).distance == 0.0
    with pytest.raises(InvalidInputError, match="one share"):
        Marginal("x", ("a",), (1.0, 0.0), (0.0, 1.0))


# Audit --------------------------------------------------------------------------------------


def test_an_audit_survives_its_own_json() -> None:
    audit = Audit.from_dict({**an_audit(), "unknown": 1})
    assert Audit.from_dict(json.loads(json.dumps(audit.to_dict()))) == audit
    assert Audit.from_dict({"title": "t", "verdict": "v"}).rocs == ()


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        {"title": "t"},
        {**an_audit(), "figures": {"a": "x"}},
        {**an_audit(), "rocs": [{"name": "a", "false_positive_rate": [0, 2]}]},
        {
            **an_audit(),
            "rocs": [
                {"name": "a", "false_positive_rate": [0, 2], "true_positive_rate": [0, 1]},
            ],
        },
        {
            **an_audit(),
            "histograms": [{"name": "a", "edges": [0, 1], "members": [1, 2], "non_members": [1]}],
        },
    ],
)
def test_an_audit_that_is_none_is_refused(wrong) -> None:
    with pytest.raises(InvalidInputError, match="audit"):
        Audit.from_dict(wrong)


def test_an_audit_that_contradicts_is_a_warning() -> None:
    page = Report("Wards", [PROVED], audit=Audit.from_dict(an_audit())).to_html()
    assert '<p class="warning">' in page
    calm = Audit.from_dict({**an_audit(), "consistent": True})
    assert '<p class="warning">' not in Report("Wards", [PROVED], audit=calm).to_html()
