"""Attacks on fabricated tables: closeness tells nothing about who was in; a planted leak shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato.audit import reidentification
from sfumato.tables.encoder import TableEncoder
from tests.synthetic.test_label_tree import BOUNDS, fabricator, people
from tests.synthetic.test_linked import LINKED, clinic, fabricator as linked_fabricator

ROWS = 1000
# Every interval is drawn at this confidence: a test raises a false alarm less than once in 10^6.
CONFIDENCE = 1 - 1e-6


def closeness(made: Any, members: Any, others: Any, bounds: Any = BOUNDS) -> Any:
    encoder = TableEncoder(bounds)
    rows, inside, outside = (encoder.transform(each) for each in (made, members, others))
    generator = np.random.default_rng(0)
    sources = generator.permutation(len(inside))[: len(rows)]
    found = reidentification(
        inside,
        rows[: len(sources)],
        sources=sources,
        non_members=outside,
        confidence=CONFIDENCE,
    )
    assert found.closeness is not None
    return found


def fabricated(**parameters: Any) -> tuple[Any, Any, Any]:
    members, others = people(ROWS, seed=21), people(ROWS, seed=22)
    rows, labels = fabricator(**parameters).fit(members).fabricate()
    return rows.assign(ill=labels), members, others


@pytest.mark.parametrize("method", ["tree", "moments"])
def test_fabricated_rows_are_no_nearer_to_members(method: str) -> None:
    """Both intervals hold chance; an attacker who knows all candidates."""
    found = closeness(*fabricated(method=method))
    assert found.closeness.auc.lower <= 0.5 <= found.closeness.auc.upper
    assert found.rate.lower <= found.chance


def test_fabricated_people_are_no_nearer_to_members() -> None:
    members, others = (LINKED.joined(*clinic(ROWS, seed)) for seed in (31, 32))
    rows, labels = linked_fabricator().fit(members).fabricate()
    found = closeness(rows.assign(ill=labels), members, others, LINKED.bounds)
    assert found.closeness.auc.lower <= 0.5 <= found.closeness.auc.upper


def test_a_planted_leak_is_found() -> None:
    """A third of the rows handed out are raw ones."""
    made, members, others = fabricated()
    leaking = pd.concat([members.iloc[: ROWS // 3], made.iloc[ROWS // 3 :]])
    assert closeness(leaking, members, others).closeness.auc.lower > 0.5
