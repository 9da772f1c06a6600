"""``sfumato federate``: a simulated federation, and the files of a real one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sfumato import load
from tests.cli.running import confirmed, done, patients, run

BUDGET = ("--epsilon", "20", "--delta", "1e-5")
QUICK = ("--set", "n_layers=1", "--set", "samples_per_gaussian=100")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return patients(tmp_path).relative_to(tmp_path)


def test_hulls_are_simulated(table: Path) -> None:
    print_lines = json.loads(
        done(
            *("federate", table, "--task", "hulls", *BUDGET, *QUICK, "--bounds", confirmed(table)),
            *("--parties", 3, "--scenario", "random", "--test", table, "-o", "global.sfumato"),
            *("--seed", 0, "--json"),
        )
    )
    assert len(print_lines["parties"]) == 3
    assert print_lines["score"] > 0.6
    assert print_lines["total"]["conditions"]
    assert load("global.sfumato").guarantee_.epsilon == print_lines["total"]["epsilon"]


@pytest.mark.parametrize(("model", "trust"), [("additive", "secure"), ("gaussian", "noisy")])
def test_sums_are_simulated(model: str, trust: str, table: Path) -> None:
    quick = ("--set", "n_steps=5") if model == "additive" else ()
    told = json.loads(
        done(
            *("federate", table, "--task", "sums", *BUDGET, *quick),
            *("--bounds", confirmed(table)),
            *("--model", model, "--trust", trust, "--parties", 4, "--test", table),
            *("-o", "global.sfumato", "--seed", 0, "--json"),
        )
    )
    assert told["trust"] == trust
    assert len(told["parties"]) == 4
    assert told["score"] > (0.5 if model == "additive" else 0.6)
    assert all(each["sent"] > 0 for each in told["sums"])
    assert load("global.sfumato").guarantee_.epsilon == told["total"]["epsilon"]


def test_a_model_that_is_no_sum_is_refused(table: Path) -> None:
    words = ("federate", table, "--task", "sums", *BUDGET)
    words += ("--bounds", confirmed(table), "--parties", 3)
    result = run(*words, "--model", "kernel")
    assert result.exit_code == 2
    assert "'gaussian'" in result.stderr  # it says what can be had
