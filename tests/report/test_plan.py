"""What a budget means: exact figures, each against the mechanism that would draw the noise."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

from sfumato import TableBounds
from sfumato.mechanisms import GaussianMechanism
from sfumato.report import epsilon_needed, plan, rows_needed
from sfumato.sums.statistics import CountTables
from tests.cli.running import done, run

BUDGET = {"epsilon": 1.0, "delta": 1e-5}


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_noise_is_that_of_the_mechanism(relation: str) -> None:
    found = plan(1000, 4, **BUDGET, relation=relation, ranges={"age": (0, 100), "x": (0, 1)})
    corners = [np.array(c) for c in itertools.product((-0.5, 0.5), repeat=4)]
    pairs = itertools.product(corners, corners)
    moved = max(np.linalg.norm(a - b if relation == "replace_one" else a) / 1000 for a, b in pairs)
    means = GaussianMechanism.calibrate(sensitivity=float(moved), **BUDGET)
    assert math.isclose(found.mean_noise, means.variance() ** 0.5, rel_tol=1e-9)
    assert math.isclose(found.column_noise["x"], found.mean_noise)
    assert math.isclose(found.column_noise["age"], 100 * found.mean_noise)
    counts = CountTables((5,), ((0,),)).sensitivity(relation, 1000)
    histogram = GaussianMechanism.calibrate(sensitivity=counts, **BUDGET)
    assert math.isclose(found.count_noise, histogram.variance() ** 0.5, rel_tol=1e-9)


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_what_is_needed_is_what_a_plan_gives(relation: str) -> None:
    needed = rows_needed(0.01, 3, **BUDGET, relation=relation)
    assert plan(needed, 3, **BUDGET, relation=relation).mean_noise <= 0.01
    assert plan(needed - 1, 3, **BUDGET, relation=relation).mean_noise > 0.01
    epsilon = epsilon_needed(0.01, needed, 3, delta=1e-5, relation=relation)
    assert epsilon == pytest.approx(1.0, rel=0.01)


def test_the_command_speaks_in_the_units_of_the_columns(tmp_path: Path) -> None:
    day = {"lower": "2019-01-01", "upper": "2025-01-01", "parts": ["year", "month"]}
    facts = {"age": (0, 100), "town": ["a", "b"], "day": day, "pay": (0, 5000)}
    TableBounds.from_dict(facts, target="town").write(tmp_path / "bounds.toml")
    words = ["plan", "--rows", 500, "--bounds", tmp_path / "bounds.toml", "--epsilon", 1]
    told = json.loads(done(*words, "--error", 0.01, "--json"))
    assert set(told["column_noise"]) == {"age", "pay"}
    assert told["column_noise"]["pay"] == pytest.approx(50 * told["column_noise"]["age"])
    assert told["needed"]["rows"] > 0
    assert "noise of the mean of pay" in done(*words, "--error", 0.01)
    assert "noise of each count" in done("plan", "--rows", 200, "--epsilon", 1)
    assert run("plan", "--rows", 200, "--epsilon", 1, "--error", 0).exit_code == 2
