"""Entries of the hull paper whose numbers are in benchmarks of the same experiment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from benchmarks.reproductions.recorded import Recorded, machine_of, read
from sfumato.papers import Comparison
from sfumato.papers.kahm.federation import (
    BY_EPSILON,
    BY_PARTIES,
    CENTRAL_16,
    TOLERANCE as NEAR,
    WITHIN,
)
from sfumato.papers.kahm.private import (
    DEFINITIONS,
    FIGURE_13,
    MODES,
    OPEN,
    TABLE_5,
    TOLERANCE,
    within,
)

SCORES, ACCURACIES, FEDERATED = "auditing_scores", "fabrication_entry", "federated_hulls"


def table_5() -> Recorded:
    """Accuracies of `fabrication_entry`, membership scores of `auditing_scores`."""
    accuracies, scores = read(ACCURACIES), read(SCORES)
    rows = [
        *_by_definition(accuracies["numbers"], "accuracy", "accuracy", place=0),
        *_by_definition(scores["numbers"], "score", "mis", place=2),
    ]
    minutes = sum(row["runs"] * row["fit_wall_s"] for row in accuracies["numbers"]) / 60
    minutes += sum(row["fit_wall_s"] + row["score_wall_s"] for row in scores["numbers"]) / 60
    told = f"{minutes:.0f} min of fits, several at once"
    return Recorded(
        tuple(rows),
        (ACCURACIES, SCORES),
        told,
        machine_of(accuracies),
        remarks=(OPEN, TOLERANCE),
        covers=f"{len(rows)} of {4 * len(TABLE_5)} figures",
    )


def _by_definition(
    numbers: Sequence[dict[str, Any]], name: str, unit: str, place: int
) -> list[Comparison]:
    known = {(n["epsilon"], n["definition"], n["mode"]): n[name] for n in numbers}
    rows = []
    for (epsilon, n), printed in TABLE_5.items():
        for i, definition in enumerate(DEFINITIONS):
            if n != 20 or (epsilon, definition, "paper") not in known:
                continue
            paper, strict = (known[epsilon, definition, mode] for mode in MODES)
            what = f"epsilon {epsilon:g}, n {n}, Definition {definition}"
            figure = printed[place + i]
            rows.append(Comparison(what, figure, paper, strict, within(unit, figure), unit=unit))
    return rows


def figure_12() -> Recorded:
    """The same numbers as Table 5; what they are there to show, at the largest epsilon."""
    table = table_5()
    known = {(row.unit, row.what): row.paper for row in table.comparisons}

    def gap(unit: str, epsilon: int) -> float:
        a, b = (known[unit, f"epsilon {epsilon}, n 20, Definition {d}"] for d in DEFINITIONS)
        assert a is not None
        assert b is not None
        return b - a

    claims = {
        "fabricated rows lower the membership score at epsilon 4, 16 and 32": all(
            gap("mis", epsilon) > 0 for epsilon in (4, 16, 32)
        ),
        "they change the accuracy by less than 0.02": all(
            abs(gap("accuracy", epsilon)) < 0.02 for epsilon in (1, 2, 4, 8, 16)
        ),
    }
    return replace(table, time="as Table 5", claims=claims)


def figure_13() -> Recorded:
    """Scores without privacy and with fabricated rows at epsilon 16."""
    kept = read(SCORES)
    found = {(n["epsilon"], n["definition"], n["mode"]): n for n in kept["numbers"]}
    plain = found[None, 7, "no privacy"]
    paper, strict = (found[16, 15, mode] for mode in MODES)
    rows = []
    for which, (name, unit) in enumerate((("score", "mis"), ("accuracy", "accuracy"))):
        first, second = (figures[which] for figures in FIGURE_13)
        near = within(unit, first), within(unit, second)
        rows += [
            Comparison("hulls of training rows", first, plain[name], None, near[0], unit=unit),
            Comparison(
                "hulls of fabricated rows", second, paper[name], strict[name], near[1], unit=unit
            ),
        ]
    claims = {"fabricated rows hide membership better": paper["score"] < plain["score"]}
    seconds = sum(n["fit_wall_s"] + n["score_wall_s"] for n in (plain, paper, strict))
    remarks = (OPEN, TOLERANCE, "The paper does not say at which epsilon; 16 here.")
    told = f"{seconds / 60:.1f} min of fits"
    return Recorded(tuple(rows), (SCORES,), told, machine_of(kept), claims, remarks)


ONE_RUN = (
    "Parties of the library refuse mode paper, so that the benchmark ran strict mode alone, once."
)


def _federated(
    rows: list[Comparison], kept: dict[str, Any], covers: str, *remarks: str
) -> Recorded:
    minutes = sum(n["fit"]["wall_s"] for n in kept["numbers"]) / 60
    told = f"{minutes:.0f} min of fits with the other tables"
    machine = f"{machine_of(kept)}; {kept['note']}"
    return Recorded(
        tuple(rows),
        (FEDERATED,),
        told,
        machine,
        remarks=(OPEN, NEAR, ONE_RUN, *remarks),
        covers=f"strict mode, {covers}",
    )


def _accuracies() -> tuple[dict[tuple[str, int], float], dict[str, Any]]:
    kept = read(FEDERATED)
    return {(n["scenario"], n["parties"]): n["accuracy"] for n in kept["numbers"]}, kept


def _by_epsilon(scenario: str, n_parties: int) -> Recorded:
    known, kept = _accuracies()
    printed = BY_EPSILON[scenario][-1]
    row = Comparison(
        "epsilon 16, distributed", printed, None, known[scenario, n_parties], within=WITHIN
    )
    return _federated([row], kept, "1 of 16 figures")


def table_10() -> Recorded:
    """Images dealt to parties at random."""
    known, kept = _accuracies()
    printed = {1: CENTRAL_16, **BY_PARTIES}
    rows = [
        Comparison(
            f"{q} parties" if q > 1 else "1 party", figure, None, known["random", q], within=WITHIN
        )
        for q, figure in printed.items()
    ]
    return _federated(rows, kept, "all figures", "One deal; the paper has ten.")


def figure_16() -> Recorded:
    """The numbers of Tables 8, 9 and 10."""
    _, kept = _accuracies()
    rows = [
        Comparison(f"{name}, {row.what}", row.printed, row.paper, row.strict, WITHIN)
        for name, table in (("Scenario 1", table_8), ("Scenario 2", table_9))
        for row in table().comparisons
    ]
    return _federated([*rows, *table_10().comparisons], kept, "9 of 23 figures")


def table_8() -> Recorded:
    """Every class at one party."""
    return _by_epsilon("one-class-each", 10)


def table_9() -> Recorded:
    """Every class shared by two parties."""
    return _by_epsilon("two-per-class", 20)


RECORDED: dict[str, Callable[[], Recorded]] = {
    "table-5": table_5,
    "table-8": table_8,
    "table-9": table_9,
    "table-10": table_10,
    "figure-12": figure_12,
    "figure-13": figure_13,
    "figure-16": figure_16,
}
