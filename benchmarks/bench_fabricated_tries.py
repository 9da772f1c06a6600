"""What was tried for the label tree on Adult, all of it by this script.

One setting differs from what is taken; `TRIES` names them. Settings are judged on training rows
alone ("chosen"): fabricated from four fifths of them, learners scored on the fifth. The figures of
test rows ("shown") are for the reader. One record added or removed, delta 1e-5. Run as
``python -m benchmarks.bench_fabricated_tries [NUMBER ...]``: numbers of the tries, all by default;
``keep FILE ...`` takes over what other machines have measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks import bench_fabricated_tables as ours
from benchmarks.peers import tables as adult_tables
from benchmarks.recording import keep_tries
from sfumato.fabrication import table_cells, tree_masses, tree_plan

SEED, RUNS = 0, {"chosen": 10, "shown": 5}
NAME = "fabricated_tables_tries"


@dataclass(frozen=True)
class Try:
    """One setting: constants of the plan, and what is done after the release."""

    epsilon: float
    cells: str  # "bins" are public, "knots" released
    tried: str
    constants: dict[str, Any] = field(default_factory=dict)
    shrunk: str = "chosen"  # by estimated risk; or "always", or "never"
    joined: bool = False  # public bins joined to fewer in pairs, as released ones are


def _shares(share: float) -> dict[str, Any]:
    return {"MARGIN_SHARE": share, "NOISY_MARGIN_SHARE": share}


EIGHT = {"LEVELS_BY_SIGNAL": ((5000.0, 5), (40.0, 3))}
FOUR = {"LEVELS_BY_SIGNAL": ((5000.0, 5), (40.0, 2))}
TRIES = (
    Try(0.1, "bins", "as taken: pairs shrunk, .8 for columns"),
    Try(0.1, "bins", "pairs as they are, .7 for columns (before)", _shares(0.7), shrunk="never"),
    Try(0.1, "bins", "pairs shrunk whatever their risk", shrunk="always"),
    Try(0.1, "bins", "pairs as they are, .8 for columns", _shares(0.8), shrunk="never"),
    Try(0.1, "bins", "half for columns", _shares(0.5)),
    Try(0.1, "bins", ".7 for columns", _shares(0.7)),
    Try(0.1, "bins", ".9 for columns", _shares(0.9)),
    Try(0.1, "bins", "a twentieth for the tree", {"TREE_SHARE": 0.05}),
    Try(0.1, "bins", "a fifth for the tree", {"TREE_SHARE": 0.2}),
    Try(0.1, "bins", "pairs of at most eight cells a column", EIGHT, joined=True),
    Try(0.1, "bins", "pairs of at most four cells a column", FOUR, joined=True),
    Try(0.1, "knots", "as taken"),
    Try(0.1, "knots", "pairs as they are, .7 for columns (before)", _shares(0.7), shrunk="never"),
    Try(1.0, "bins", "as taken: pairs shrunk, half for columns"),
    Try(1.0, "bins", "pairs shrunk whatever their risk", shrunk="always"),
    Try(1.0, "bins", "pairs as they are (before)", shrunk="never"),
    Try(1.0, "knots", "as taken"),
    Try(1.0, "knots", ".6 for columns", _shares(0.6)),
    Try(1.0, "knots", ".75 for columns", _shares(0.75)),
    Try(1.0, "knots", "a tenth for edges", {"CUT_SHARE": 0.1}),
    Try(1.0, "knots", "a fortieth for edges", {"CUT_SHARE": 0.025}),
    Try(1.0, "knots", "columns halved once more by themselves", {"FINE_LEVELS": 3}),
    Try(1.0, "knots", "columns halved once less by themselves", {"FINE_LEVELS": 1}),
)


def set_up(each: Try) -> ExitStack:
    """Put the setting of a try in place until the stack is closed."""
    stack = ExitStack()
    for name, value in each.constants.items():
        stack.enter_context(patch.object(tree_plan, name, value))
    if each.shrunk == "never":
        stack.enter_context(patch.object(tree_masses, "_shrunk", lambda shares, *_: shares))
    if each.shrunk == "always":
        stack.enter_context(patch.object(tree_masses, "_shrunk", _shrunk))
    if each.joined:
        number = table_cells._number
        joined = lambda *facts: replace(number(*facts), is_fine=True)  # noqa: E731
        stack.enter_context(patch.object(table_cells, "_number", joined))
    return stack


def _shrunk(shares: np.ndarray, expected: np.ndarray, variance: float) -> np.ndarray:
    difference = shares - expected
    length = np.maximum(np.square(difference).sum(axis=(0, 1)), 1e-300)
    return expected + np.maximum(0.0, 1 - difference[..., 0].size * variance / length) * difference


def parts() -> Iterator[tuple[str, Any, Any]]:
    """Rows to fabricate from and rows to score learners on: of training rows, then test rows."""
    whole = adult_tables.adult("data")
    order = np.random.default_rng(SEED).permutation(len(whole))
    cut = len(whole) * 4 // 5
    train, held = (whole.iloc[p].reset_index(drop=True) for p in (order[:cut], order[cut:]))
    yield "chosen", train, held
    yield "shown", whole, adult_tables.adult("test")


def measured(each: Try) -> dict[str, Any]:
    bins = {n: [edge + 0.5 for edge in e] for n, (_, e) in adult_tables.EDGES.items()}
    options = {"bins": bins} if each.cells == "bins" else {}
    answer: dict[str, Any] = {"epsilon": each.epsilon, "cells": each.cells, "tried": each.tried}
    for part, train, test in parts():
        real, sizes = adult_tables.codes(train), adult_tables.sizes()
        rows = []
        for run in range(RUNS[part]):
            with set_up(each):
                made, _ = ours.fabricated(
                    *(train, ours.adult_facts(), adult_tables.LABEL, each.epsilon),
                    random_state=run,
                    **options,
                )
            coded = adult_tables.codes(made)
            errors = [ours.margins(coded, real, sizes, k) for k in (1, 2, 3)]
            learned = adult_tables.scores(made[[*train.columns]], train, test)
            rows.append([*errors, *list(learned.values())[:2]])
        mean, spread = np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1) / np.sqrt(len(rows))
        answer[part] = {
            "runs": len(rows),
            "margins": np.round(mean[:3], 4).tolist(),
            "forest": round(float(mean[3]), 4),
            "logistic": round(float(mean[4]), 4),
            "standard_errors": np.round(spread, 4).tolist(),
        }
    print(answer, flush=True)
    return answer


if __name__ == "__main__":
    keep_tries(NAME, TRIES, measured, ("epsilon", "cells", "tried"), seed=SEED)
