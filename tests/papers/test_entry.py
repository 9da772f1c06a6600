"""The verdict follows from the figures, and from nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from hypothesis import given, strategies as st

from sfumato.exceptions import InvalidInputError
from sfumato.papers import Comparison, Entry, Outcome, Setting, verdict_of

REPRODUCED = "reproduced"
ASSUMING = "reproduced only under an assumption that breaks the guarantee"
NOT = "not reproduced"
figures = st.floats(-10, 10)


def an_entry(broken: str | None = None) -> Entry:
    return Entry("kahm", "table-1", "A table", lambda _: Outcome(()), broken)


def judged(
    *rows: Comparison, claims: Mapping[str, bool] | None = None, broken: str | None = None
) -> str:
    return verdict_of(an_entry(broken), Outcome(rows, claims or {}), quick=False)


def row(printed: float | None, paper: float | None, strict: float | None = None) -> Comparison:
    return Comparison("a row", printed, paper, strict, within=0.01)


@given(figures, figures, st.floats(0, 5))
def test_agreement_is_a_distance_unless_better_counts(
    printed: float, ours: float, near: float
) -> None:
    def agrees(better: str) -> bool | None:
        return Comparison("a row", printed, ours, None, near, better).agrees  # type: ignore[arg-type]

    gap = ours - printed
    assert agrees("either") == (abs(gap) <= near)
    assert agrees("higher") == (gap >= -near)
    assert agrees("lower") == (gap <= near)


@pytest.mark.parametrize(
    ("printed", "paper", "strict", "agrees", "strictly"),
    [
        (0.9, 0.905, 0.7, True, False),
        (0.9, 0.7, 0.9, False, True),
        (0.9, None, 0.895, True, True),
        (0.9, None, 0.7, False, False),
        (0.9, 0.9, None, True, None),
        (None, 0.9, 0.9, None, None),
        (0.9, None, None, None, None),
    ],
)
def test_what_a_row_says(
    printed: float | None,
    paper: float | None,
    strict: float | None,
    agrees: bool | None,
    strictly: bool | None,
) -> None:
    found = row(printed, paper, strict)
    assert (found.agrees, found.agrees_strictly) == (agrees, strictly)


def test_every_row_must_agree_and_every_claim_must_hold() -> None:
    good, bad = row(0.9, 0.9), row(0.9, 0.8)
    assert judged(good, good) == REPRODUCED
    assert judged(good, bad) == NOT
    assert judged(good, claims={"it grows": True}) == REPRODUCED
    assert judged(good, claims={"it grows": True, "it falls": False}) == NOT
    assert judged(claims={"it grows": True}) == REPRODUCED


def test_a_broken_guarantee_is_named_unless_strict_mode_reaches_the_figures_too() -> None:
    broken = "Raw rows are clustered."
    assert judged(row(0.9, 0.9, 0.8), broken=broken) == ASSUMING
    assert judged(row(0.9, 0.9), broken=broken) == ASSUMING
    assert judged(row(0.9, 0.9, 0.9), row(0.9, 0.9, 0.8), broken=broken) == ASSUMING
    assert judged(row(0.9, 0.9, 0.9), broken=broken) == REPRODUCED
    assert judged(row(0.9, None, 0.9), broken=broken) == REPRODUCED
    assert judged(row(0.9, 0.8, 0.9), broken=broken) == NOT
    assert judged(row(0.9, None, 0.8), broken=broken) == NOT


def test_figures_of_other_data_are_shown_and_not_judged() -> None:
    shown = Comparison("a row", 0.9, 0.1, 0.9, within=None)
    assert (shown.agrees, shown.agrees_strictly) == (None, None)
    assert judged(shown, claims={"it grows": True}) == REPRODUCED
    assert judged(shown) == NOT  # nothing speaks for it
    assert judged() == NOT
    assert judged(shown, row(0.9, 0.1)) == NOT
    assert judged(shown, claims={"it grows": False}) == NOT
    assert judged(shown, claims={"it grows": True}, broken="It fails.") == ASSUMING


def test_claims_alone_do_not_mend_a_broken_guarantee() -> None:
    assert judged(row(None, 0.9, 0.9), claims={"it grows": True}, broken="It fails.") == ASSUMING


@pytest.mark.parametrize("ours", [0.9, 0.1])
def test_a_quick_run_judges_nothing(ours: float) -> None:
    outcome = Outcome((row(0.9, ours),), {"it grows": ours > 0.5})
    for broken in (None, "It fails."):
        assert verdict_of(an_entry(broken), outcome, quick=True) == "quick run, too small to judge"


def test_a_figure_that_is_no_number_never_agrees() -> None:
    assert row(0.9, math.nan).agrees is False
    assert judged(row(0.9, math.nan)) == NOT


@pytest.mark.parametrize("name", ["5", "table", "table-", "chart-5", ""])
def test_an_entry_is_named_like_a_table_or_figure(name: str) -> None:
    with pytest.raises(InvalidInputError, match="table-N or figure-N"):
        Entry("kahm", name, "A table", lambda _: Outcome(()))


def test_what_entries_share_is_measured_once() -> None:
    setting, calls = Setting(), []
    for _ in range(3):
        assert setting.once("a", lambda: calls.append(1) or len(calls)) == 1
    assert setting.once("b", lambda: 7) == 7
    assert Setting().memory == {}
