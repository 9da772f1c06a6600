"""The pages for the officer: five questions answered, every number with a source, stated rules."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import pytest

from sfumato import Guarantee, Ledger
from sfumato.privacy import best_attacker, epsilon_spent
from sfumato.privacy.events import EntryEvent, GaussianEvent, PureEvent
from sfumato.report import LedgerExtract, Report, Result, SignatureBlock
from sfumato.report.report import signal

WHEN = datetime(2025, 3, 4, 5, 6, tzinfo=UTC)
VOID = {"circle", "rect", "line", "br"}


def a_report(**options: Any) -> Report:
    budget = Ledger().create("patients", epsilon=4.0, delta=1e-5)
    noise = GaussianEvent(3.5)
    paid = budget.noted(purpose="triage <model>", by="Ada").charge(noise)
    budget.noted(purpose="monthly table", by="Bo").charge(PureEvent(0.5))
    promised = Guarantee(
        epsilon=epsilon_spent([noise], 1e-5),
        delta=1e-5,
        events=(noise,),
        public=("bounds", "number of rows"),
        charges=paid.charges,
    )
    row = Result("model", promised, file="model.sfumato", declared={"age": "lower 0; upper 120"})
    office = SignatureBlock("Clinic", "Ada", "Dr. Weiss", "five years", 900)
    chosen = {"ledger": LedgerExtract.of(budget), "office": office, "when": WHEN} | options
    return Report("Triage", [row], **chosen)


def first_pages(report: Report) -> str:
    """Return the two pages before the appendix."""
    page = report.to_html()
    start = page.find('<div class="officer">')
    return "" if start < 0 else page[start : page.index('<div class="appendix">')]


class Sources(HTMLParser):
    """Collect the texts of the pages, each with the source that it stands under."""

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[tuple[str, str | None]] = []
        self.texts: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.stack.append((tag, dict(attrs).get("data-source")))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Pass over what holds no text."""

    def handle_endtag(self, tag: str) -> None:
        while self.stack and self.stack.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        sources = [source for _, source in self.stack if source]
        self.texts.append((data, sources[-1] if sources else None))


def at(record: Any, place: str) -> Any:
    for step in place.split("."):
        record = record[int(step)] if step.isdigit() else record[step]
    return record


@pytest.mark.parametrize("with_ledger", [True, False])
def test_every_number_has_a_source(with_ledger: bool) -> None:
    report = a_report() if with_ledger else a_report(ledger=None)
    record = json.loads(report.to_json())
    found = Sources()
    found.feed(first_pages(report))
    n_checked = 0
    for text, source in found.texts:
        if not re.search(r"\d", text):
            continue
        assert source is not None, f"no source for {text!r}"
        if source == "rule":
            continue
        value = at(record, source)
        if text.endswith(" in 1,000"):
            text, value = text.removesuffix(" in 1,000"), float(math.ceil(1000 * value - 1e-7))
        shown = re.findall(r"\d[\d.,]*(?:e-?\d+)?", text)
        if isinstance(value, float) and len(shown) == 1:
            number = float(shown[0]) / (100 if "%" in text else 1)
            assert math.isclose(number, value, rel_tol=0.006), (text, source, value)
            n_checked += 1
    assert n_checked >= (9 if with_ledger else 5)


def test_a_charge_is_that_of_its_own_file_and_never_guessed() -> None:
    """Two analysts make the same release: its mark tells which file each of them paid for."""
    budget = Ledger().create("patients", epsilon=4.0, delta=1e-5)
    noise, rows = GaussianEvent(5.0), []
    for who in ("Ada", "Bo"):
        paid = budget.noted(by=who).charge(noise)
        promised = Guarantee(1.0, 1e-5, events=(noise,), charges=paid.charges)
        rows.append(Result(who, Guarantee.from_dict(promised.to_dict()), file=f"{who}.sfumato"))
    told = "Ada {} Bo {}"
    for shown, expected in ((rows, ("Ada.sfumato", "Bo.sfumato")), (rows[:1], ("Ada.sfumato", ""))):
        report = Report("Two", shown, ledger=LedgerExtract.of(budget), when=WHEN)
        text = first_pages(report)
        found = [
            next((row.file for row in rows if row.file and row.file in line), "")
            for line in text.split("<tr>")
            if ">Ada<" in line or ">Bo<" in line
        ]
        assert told.format(*found) == told.format(*expected)


def test_no_total_is_stated_that_does_not_hold() -> None:
    """Found: the largest of figures that do not add up, and those of the budget alone."""
    noise, budget = GaussianEvent(3.5), Ledger().create("p", epsilon=4.0, delta=1e-5)
    own = Result("a", Guarantee(1.2, 1e-5, events=(noise,), charges=budget.charge(noise).charges))
    for unit, ledger, told in (
        ("person", None, "They protect different units"),
        ("record", budget, "The budget has not paid for b."),
    ):
        other = Result("b", Guarantee(0.1, unit=unit))
        known = None if ledger is None else LedgerExtract.of(ledger)
        pages = first_pages(Report("Two", [own, other], ledger=known))
        assert pages.count(told) == 2
        assert "light red" in pages
        assert "No odds can be stated." in pages


def test_odds_of_single_numbers_are_not_said_of_records() -> None:
    budget = Ledger().create("e", epsilon=4.0, delta=0.0, unit="entry")
    paid, _ = (budget.charge(EntryEvent(each, 0.0, 2.0)) for each in (1.0, 2.0))
    one = Guarantee(1.0, unit="entry", entry_bound=2.0, charges=paid.charges)
    found, both = LedgerExtract.of(budget), replace(one, epsilon=3.0, events=budget.events())
    declared = dict.fromkeys(map(str, range(30)), "0 to 1")
    pages = first_pages(Report("One", [Result("a", one, declared=declared)], ledger=found))
    assert "And 6 more" in pages
    assert "is in the data" not in pages
    assert "light amber" in pages
    assert found.attacker == best_attacker(both).to_dict()


def test_odds_are_those_of_the_noise_that_was_drawn() -> None:
    report = a_report()
    events = [GaussianEvent(3.5), PureEvent(0.5)]
    epsilon = epsilon_spent(events, 1e-5)
    literal = best_attacker(Guarantee(epsilon, 1e-5, events=tuple(events)))
    assert report.ledger is not None
    assert report.ledger.attacker == literal.to_dict()
    worst = best_attacker(Guarantee(epsilon, 1e-5))
    assert literal.guesses_right < worst.guesses_right - 0.05


@pytest.mark.parametrize(
    ("epsilon", "delta", "n", "status", "colour"),
    [
        (1.0, 1e-5, 1000, "proved", "green"),
        (3.1, 1e-5, 1000, "proved", "amber"),
        (1.0, 1e-5, 1000, "conditional", "amber"),
        (8.1, 1e-5, 1000, "proved", "red"),
        (1.0, 1e-2, 1000, "proved", "red"),
        (1.0, 1e-2, None, "proved", "green"),
        (1.0, 1e-5, 1000, "testing", "red"),
        (None, 0.0, 1000, "refuted", "red"),
    ],
)
def test_colours_follow_the_rule(
    epsilon: float | None, delta: float, n: int | None, status: str, colour: str
) -> None:
    guarantee = Guarantee(epsilon, delta, status=status)  # type: ignore[arg-type]
    assert signal([guarantee], epsilon, delta, SignatureBlock(n_records=n)) == colour
