"""The verdict follows from the figures, and from nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest

from sfumato.papers import Comparison, Entry, Outcome, verdict_of
from sfumato.papers.entry import compare_runs, decided

REPRODUCED = "reproduced"
ASSUMING = "reproduced only under an assumption that breaks the guarantee"
NOT = "not reproduced"


def row(printed: float | None, paper: float | None, strict: float | None = None) -> Comparison:
    return Comparison("a row", printed, paper, strict, within=0.01)


def test_a_claim_is_decided_beyond_two_standard_errors() -> None:
    gaps = np.array([-1.0, 1.0])  # of standard error 1
    cases = gaps + 1.9, gaps + 2.1, gaps - 2.1, [1.0]
    assert [decided(each) for each in cases] == [None, True, False, None]
    assert compare_runs("a row", None, gaps).paper_sd == pytest.approx(2**0.5)


OTHER = Comparison("a row", 0.9, 0.1, 0.9, within=None)  # of other data
GOOD, BAD, HOLDS, FAILS = row(0.9, 0.9), row(0.9, 0.8), {"it grows": True}, {"it falls": False}
BROKEN = "Raw rows are clustered."


@pytest.mark.parametrize(
    ("rows", "claims", "broken", "verdict"),
    [
        ([GOOD, GOOD], {}, None, REPRODUCED),
        ([GOOD, BAD], {}, None, NOT),
        ([row(0.9, math.nan)], {}, None, NOT),
        ([row(0.9, 1.0)], {}, None, NOT),
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
        ([OTHER], HOLDS, None, REPRODUCED),  # shown and not judged
        ([OTHER], {}, None, "not decided"),
        ([OTHER], HOLDS, BROKEN, ASSUMING),
    ],
)
def test_the_verdict(
    rows: list[Comparison], claims: Mapping[str, bool], broken: str | None, verdict: str
) -> None:
    entry = Entry("kahm", "table-1", "A table", lambda _: Outcome(()), broken)
    outcome = Outcome(tuple(rows), claims)
    assert verdict_of(entry, outcome, quick=False) == verdict
    assert verdict_of(entry, outcome, quick=True) == "quick run, too small to judge"
