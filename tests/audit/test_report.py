"""One call and its report: verdicts, two forms, and the part of a larger report."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato import AffineHullClassifier, Bounds, PrivateGaussianClassifier
from sfumato.audit import AuditReport, audit, taint_test
from sfumato.audit.one_run import OneRun
from sfumato.exceptions import InvalidInputError
from sfumato.report import Audit


@pytest.fixture(scope="module")
def parts(digits: tuple[np.ndarray, np.ndarray]) -> dict[str, np.ndarray]:
    X, y = digits
    order = np.random.default_rng(0).permutation(len(X))
    inside, outside = order[:500], order[500:1000]
    return {
        "members": X[inside],
        "non_members": X[outside],
        "y_members": y[inside],
        "y_non_members": y[outside],
    }


@pytest.fixture(scope="module")
def private(parts: dict[str, np.ndarray]) -> PrivateGaussianClassifier:
    bounds = Bounds(lower=0.0, upper=1.0, labels=range(10))
    model = PrivateGaussianClassifier(4, epsilon=2.0, delta=1e-5, bounds=bounds)
    return model.fit(parts["members"], parts["y_members"])


@pytest.fixture(scope="module")
def found(private: Any, parts: dict[str, np.ndarray]) -> AuditReport:
    return private.audit(**parts, n_runs=30)


def test_one_call_gives_all_parts(found: AuditReport) -> None:
    assert found.guarantee is not None
    assert found.guarantee.status == "proved"
    assert found.consistent is True
    assert "proves nothing" in found.verdict
    how = "by the Gaussian conversion"
    for name in (
        "epsilon promised",
        f"epsilon certified at least, {how}",
        f"epsilon that 30 runs could certify, {how}",
        "AUC of the threshold attack",
    ):
        assert name in found.figures
    assert "Both are converted from mu, which is right for Gaussian noise only." in str(found)
    assert f"epsilon certified at least, {how}" in found.to_html()
    assert "not for release" in str(found)


def test_hulls_without_privacy_are_attacked_only(parts: dict[str, np.ndarray]) -> None:
    model = AffineHullClassifier(8, n_layers=1).fit(parts["members"], parts["y_members"])
    found = audit(model, parts["members"], parts["non_members"])
    assert found.consistent is None
    assert found.attack is not None
    assert found.attack.auc.value > 0.7
    assert found.figures["membership score, per unit of distance"] > 0


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in ("meta", "rect", "line", "polyline", "path", "br"):
            self.open.append(tag)
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()


def test_the_page_is_whole_and_alone(found: AuditReport) -> None:
    page = found.to_html()
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert len(set(tags.ids)) == len(tags.ids)
    assert not re.search(r"<script|https?://(?!www\.w3\.org)", page)
    for words in ("logarithmic axes", "certified at least", "Not for release"):
        assert words in page
    assert page.count("<svg") >= 3  # a histogram, ROC curves on two kinds of axes


def test_json_holds_everything_and_a_report_reads_it(found: AuditReport) -> None:
    record = json.loads(found.to_json())
    assert record["two_point"]["claimed"] == 2.0
    assert record["membership_score"]["unit"] == "1/loss"
    part = Audit.from_dict(record)
    assert part.consistent is True
    assert len(part.rocs) == 1
    assert sum(part.histograms[0].members) == 500
    assert "Nothing contradicts" in found.to_html()


@pytest.mark.parametrize("suffix", [".html", ".json"])
def test_it_is_written_by_its_suffix(found: AuditReport, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"audit{suffix}"
    found.write(path)
    assert path.stat().st_size > 500
    with pytest.raises(InvalidInputError, match="must end in"):
        found.write(tmp_path / "audit.pdf")


def test_a_refuted_promise_is_said_first() -> None:
    run = OneRun(3.0, 0.0, 0.95, 100, 100, 100, 3.0, claimed=1.0)
    found = AuditReport("one run", one_run=run)
    assert found.consistent is False
    assert found.verdict.startswith("The guarantee is BROKEN")
    assert json.loads(found.to_json())["one_run"]["refutes"] is True


def test_nothing_to_say_is_an_error(parts: dict[str, np.ndarray]) -> None:
    with pytest.raises(InvalidInputError, match="has no guarantee"):
        audit(AffineHullClassifier())
    with pytest.raises(InvalidInputError, match="members"):
        audit(parts["members"])


def test_taint_is_a_public_tool(private: Any, parts: dict[str, np.ndarray]) -> None:
    taint_test(
        private,
        parts["members"],
        parts["non_members"],
        parts["y_members"],
        parts["y_non_members"],
    )
