"""What there is, in order, and clear words about what there is not."""

from __future__ import annotations

import pytest

from sfumato.exceptions import InvalidInputError
from sfumato.papers import PAPERS, entries_of, entry_of, unrun_of

# Every table and figure that public data allow, by paper.
EXPECTED = {
    "kahm": "table-5 table-8 table-9 table-10 table-11 figure-4 figure-6 figure-8 figure-12 "
    "figure-13 figure-16 figure-17",
    "functions": "figure-1 figure-2 figure-3",
    "large-margin": "table-1",
    "cdmma": "table-1 table-2 table-3",
    "feddpdr": "table-3 figure-2 figure-3 figure-4 figure-5",
}


@pytest.mark.parametrize("paper", EXPECTED)
def test_every_table_and_figure_has_its_entry(paper: str) -> None:
    names = [entry.name for entry in entries_of(paper)]
    assert set(EXPECTED[paper].split()) <= set(names)
    assert len(names) == len(set(names))
    assert all(entry.paper == paper for entry in entries_of(paper))


def test_entries_are_in_order_and_all_means_all() -> None:
    assert [entry.name for entry in entries_of("kahm")] == EXPECTED["kahm"].split()
    each = [entry for paper in PAPERS for entry in entries_of(paper)]
    assert entries_of("all") == each
    assert list(PAPERS) == list(EXPECTED)


def test_an_entry_is_found_by_name() -> None:
    assert entry_of("kahm", "table-5").name == "table-5"


def test_a_wrong_name_is_told_what_there_is() -> None:
    with pytest.raises(InvalidInputError, match=r"one of kahm, functions, .*, or all\. Got 'hull'"):
        entries_of("hull")
    with pytest.raises(InvalidInputError, match=r"no table-99 of 'kahm'\. There are: table-5, "):
        entry_of("kahm", "table-99")
    with pytest.raises(InvalidInputError, match="name one paper"):
        entry_of("all", "table-5")


def test_what_cannot_be_run_says_why_and_is_no_entry() -> None:
    lacking = unrun_of("all")
    assert {each.name for each in lacking} >= {"table-3", "table-4", "table-6", "table-7"}
    for each in lacking:
        assert each.why
        assert each.nearest
        with pytest.raises(InvalidInputError, match="It cannot be run"):
            entry_of(each.paper, each.name)
    assert unrun_of("functions") == []


@pytest.mark.parametrize("entry", entries_of("all"), ids=lambda e: f"{e.paper}-{e.name}")
def test_every_entry_says_what_it_is(entry) -> None:
    assert entry.title[0].isupper()
    assert not entry.title.endswith(".")
    assert entry.data
    assert entry.minutes
    assert entry.broken is None or entry.broken.endswith(".")
