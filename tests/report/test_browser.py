"""The page in a browser: nothing is empty, nothing fails, everybody can read it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from sfumato import Guarantee, Ledger
from sfumato.models.additive import ColumnCurve, Explanation
from sfumato.privacy.events import GaussianEvent
from sfumato.report import LedgerExtract, Report, Result

pytestmark = pytest.mark.browser
PHONE, DESKTOP = 390, 1280
WHEN = datetime(2025, 3, 4, 5, 6, tzinfo=UTC)


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    patients = Ledger().create("patients", epsilon=4.0, delta=1e-5)
    patients.charge(GaussianEvent(3.5))
    level, half = np.array([[-0.2, 0.1, 0.3]]), np.array([[0.1, 0.1, 0.2]])
    told = (level, half, np.zeros(1), np.zeros(1), 0.2)
    curves = (
        ColumnCurve("age", (0.0, 50.0, 100.0), *told, is_number=True),
        ColumnCurve("ward", ("a", "b", "c"), *told, is_number=False),
    )
    rows = [
        Result("hull", Guarantee(epsilon=1.0, delta=1e-5), (), Explanation(curves, ("ill",), 0.9)),
        Result("hull", Guarantee(epsilon=3.0, delta=1e-5)),
        Result("as printed", Guarantee(epsilon=None, status="refuted")),
    ]
    report = Report("Wards", rows, ledger=LedgerExtract.of(patients), when=WHEN)
    path = tmp_path_factory.mktemp("page") / "report.html"
    report.write(path)
    return path


@pytest.fixture(params=[(PHONE, "light"), (PHONE, "dark"), (DESKTOP, "light"), (DESKTOP, "dark")])
def page(request: pytest.FixtureRequest, browser: Any, page_file: Path) -> Iterator[Any]:
    width, scheme = request.param
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=scheme,
        bypass_csp=True,  # so that the checker may run; the page itself has no script
    )
    opened = context.new_page()
    opened.said = []
    opened.on("console", lambda message: opened.said.append(message.text))
    opened.on("pageerror", lambda error: opened.said.append(str(error)))
    opened.on("request", lambda asked: opened.said.append(asked.url))
    opened.goto(page_file.as_uri())
    yield opened
    context.close()


def test_no_console_message_and_no_request_beyond_the_page(page: Any, page_file: Path) -> None:
    assert page.said == [page_file.as_uri()]


def test_nothing_reaches_beyond_the_screen(page: Any) -> None:
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def colours(png: bytes) -> int:
    """Count the different pixels of a picture."""
    with Image.open(io.BytesIO(png)) as picture:
        return len(picture.convert("RGB").getcolors(2**24))


def test_no_chart_is_empty(page: Any) -> None:
    found = page.query_selector_all("svg:not(.officer svg)")
    charts = [chart for chart in found if chart.is_visible()]
    assert len(charts) == 2  # the curves of the columns
    for chart in charts:
        box = chart.bounding_box()
        assert box["width"] > 200
        assert box["height"] > 100
        assert colours(chart.screenshot(animations="disabled")) > 8


def test_axe_finds_nothing(page: Any) -> None:
    checker = pytest.importorskip("axe_playwright_python.sync_playwright")
    found = checker.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
