"""The verdict follows from the figures, and from nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.papers import Comparison, Entry, Outcome, verdict_of
from sfumato.papers.entry import decided

REPRODUCED = "reproduced"
ASSUMING = "reproduced only under an assumption that breaks the guarantee"
NOT = "not reproduced"
figures = st.floats(-10, 10)


def row(printed: float | None, paper: float | None, strict: float | None = None) -> Comparison:
    return Comparison("a row", printed, paper, strict, within=0.01)


@given(figures, figures, st.floats(0, 5))
def test_agreement_is_a_distance(printed: float, ours: float, near: float) -> None:
    agrees = Comparison("a row", printed, ours, None, near).agrees
    assert agrees == (abs(ours - printed) <= near)


def test_a_claim_is_decided_beyond_two_standard_errors() -> None:
    gaps = np.array([-1.0, 1.0])  # of standard error 1
    assert [decided(gaps + shift) for shift in (1.9, 2.1, -2.1)] == [None, True, False]
    assert decided([1.0]) is None


def other_data(paper: float) -> Comparison:
    return Comparison("a row", 0.9, paper, 0.9, within=None)


GOOD, BAD, HOLDS, FAILS = row(0.9, 0.9), row(0.9, 0.8), {"it grows": True}, {"it falls": False}
BROKEN = "Raw rows are clustered."


@pytest.mark.parametrize(
    ("rows", "claims", "broken", "verdict"),
    [
        ([GOOD, GOOD], {}, None, REPRODUCED),
        ([GOOD, BAD], {}, None, NOT),
        ([row(0.9, math.nan)], {}, None, NOT),
        ([GOOD], HOLDS | FAILS, None, NOT),
        ([], HOLDS, None, REPRODUCED),
        ([], {}, None, "not decided"),  # nothing speaks for it or against it
        ([row(0.9, 0.9, 0.8)], {}, BROKEN, ASSUMING),
        ([GOOD], {}, BROKEN, ASSUMING),
        ([row(0.9, 0.9, 0.9), row(0.9, 0.9, 0.8)], {}, BROKEN, ASSUMING),
        ([row(0.9, 0.9, 0.9)], {}, BROKEN, REPRODUCED),  # strict mode reaches the figures too
        ([row(0.9, None, 0.9)], {}, BROKEN, REPRODUCED),
        ([row(0.9, 0.8, 0.9)], {}, BROKEN, NOT),
        ([row(0.9, None, 0.8)], {}, BROKEN, NOT),
        ([other_data(0.1)], HOLDS, None, REPRODUCED),  # shown and not judged
        ([other_data(0.1)], {}, None, "not decided"),
        ([other_data(0.1)], FAILS, None, NOT),
        ([other_data(0.1)], HOLDS, BROKEN, ASSUMING),
    ],
)
def test_the_verdict(
    rows: list[Comparison], claims: Mapping[str, bool], broken: str | None, verdict: str
) -> None:
    entry = Entry("kahm", "table-1", "A table", lambda _: Outcome(()), broken)
    outcome = Outcome(tuple(rows), claims)
    assert verdict_of(entry, outcome, quick=False) == verdict
    assert verdict_of(entry, outcome, quick=True) == "quick run, too small to judge"
