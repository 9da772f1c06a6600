"""The pages of the papers: every item is listed, symbols exist, commands run, results are kept."""

from __future__ import annotations

import contextlib
import json
import math
import re
import shlex
import zlib
from pathlib import Path
from pydoc import locate
from typing import Any

import pytest

from sfumato import Bounds
from sfumato.exceptions import InvalidInputError
from sfumato.papers import data, entries_of
from sfumato.papers.cdmma import digits, office
from sfumato.papers.feddpdr import PrintedDPML, experiments as feddpdr
from sfumato.papers.functions import PrintedDensity
from sfumato.papers.kahm import (
    EntryHullClassifier,
    PrintedAffineHullClassifier,
    experiments as kahm,
)
from sfumato.papers.large_margin import PrintedLargeMarginClassifier
from sfumato.privacy import record_level_guarantee
from sfumato.privacy.events import EntryEvent
from sfumato.privacy.guarantee import Status
from tests.cli.running import done

pages = pytest.importorskip("benchmarks.reproductions")

# What each paper numbers, and up to which number, or which numbers.
ITEMS = {
    "kahm": {"Definition": 15, "Theorem": 6, "Result": 1, "Remark": 7}
    | {"Algorithm": 1, "Table": 11, "Figure": 17},
    "cdmma": {"Definition": 17, "Result": 2, "Remark": 1}
    | {"Algorithm": 6, "Table": 16, "Figure": 6},
    "functions": {"Definition": [1, 10], "Lemma": [2], "Proposition": range(3, 9), "Figure": 3}
    | {"Corollary": [9], "Remark": 2, "Section": ["3.2", "4.1", "4.2", "4.3", "5"]},
    "large-margin": {"Definition": 1, "Theorem": 3, "Lemma": 4, "Equation": 8, "Section": [3]},
    "feddpdr": {"Definition": ["3.1"], "Theorem": ["3.1"], "Lemma": ["4.1"], "Algorithm": 3}
    | {"Equation": 6, "Table": 3, "Figure": 5},
}


def rows_of(paper: str) -> list[list[str]]:
    """Return the cells of the table of items."""
    _, _, below = (pages.PAGES / f"{paper}.md").read_text().partition("\n## Items\n")
    lines = below.partition("\n## ")[0].splitlines()
    rows = [line.strip("|").split("|") for line in lines if "|" in line]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def commands(*papers: str) -> list[str]:
    found = [command for paper in papers for row in rows_of(paper) for command in _code(row[2])]
    return list(dict.fromkeys(found))


def _code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@pytest.mark.parametrize("paper", ITEMS)
def test_every_item_is_listed_once_and_has_a_symbol_or_a_reason(paper: str) -> None:
    listed = []
    for items, symbols, command, why in rows_of(paper):
        listed += re.findall(r"[A-Z][a-z]+ [\d.]+", items)
        names = _code(symbols)
        assert names or why.startswith("absent: "), items
        assert bool(command) is (items.startswith(("Table", "Figure")) and names != []), items
        assert [name for name in names if locate(name) is None] == []
    numbered = [
        f"{kind} {n}"
        for kind, given in ITEMS[paper].items()
        for n in (range(1, given + 1) if isinstance(given, int) else given)
    ]
    assert sorted(listed) == sorted(numbered)


# What README says holds of each paper.
HOLDS = {
    "kahm": "for one number of a row, where the rows' clusters are private too",
    "cdmma": "per pixel; ε = 78 per image",
    "large-margin": "refuted: the noise cancels between classes",
    "functions": "proved, with more noise than necessary; `PrivateDensity` is another estimator",
    "feddpdr": "under conditions, and ε is spent once per class",
}


@pytest.mark.filterwarnings("ignore::sfumato.exceptions.RefutedGuaranteeWarning")
def test_what_the_readme_says_of_each_paper_is_what_its_systems_state() -> None:
    readme = (pages.PAGES.parents[1] / "README.md").read_text()
    shown = re.findall(r"`(sfumato reproduce .*) --quick`", readme)
    assert len(shown) == len({*shown}.intersection(commands(*HOLDS))) == 1
    assert "Every definition, theorem, algorithm, table and figure [is listed]" in readme
    lines = [line for line in readme.splitlines() if re.match(r"\| \[.*/reproductions/", line)]
    rows = [re.split(r" *\| *", line) for line in lines]
    assert [row[3] for row in rows] == list(HOLDS.values())
    assert all(f"reproductions/{name}.md" in row[1] for name, row in zip(HOLDS, rows, strict=True))
    X, y = data.digits().X[:200], data.digits().y[:200] % 2
    cube, ball = Bounds(lower=0.0, upper=1.0, labels=[0, 1]), Bounds(norm=1.0, labels=range(10))
    given: dict[str, Any] = {"epsilon": 0.1, "delta": 1e-5, "bounds": cube}
    hulls = [
        PrintedAffineHullClassifier(5, fabricate=False, **given),  # Definition 12
        EntryHullClassifier(5, **given),
        PrintedAffineHullClassifier(5, **given),  # Definition 15: clusters of raw rows
    ]
    stated = [hull.fit(X, y).guarantee_ for hull in hulls]
    assert [each.status for each in stated] == [Status.PROVED, Status.PROVED, Status.REFUTED]
    assert [each.unit for each in stated] == ["entry"] * 3
    pixel = EntryEvent(0.1, delta=0.0, entry_bound=1.0)
    assert record_level_guarantee(pixel, n_entries=784).pure_epsilon == pytest.approx(78.4)
    with contextlib.suppress(InvalidInputError):  # every other time it has no minimiser
        printed = PrintedLargeMarginClassifier(bounds=cube)
        printed.fit(X[:, :2], y)
    assert printed.guarantee_.status is Status.REFUTED
    curve = PrintedDensity(0.1, **{**given, "epsilon": 1.0}).fit(X[:, :1]).guarantee_
    assert (curve.status, curve.epsilon) == (Status.PROVED, pytest.approx(0.735, abs=1e-3))
    machines = PrintedDPML(5, epsilon=1.0, delta=1e-5, bounds=ball).fit(X, data.digits().y[:200])
    assert machines.guarantee_.status is Status.CONDITIONAL
    assert len(machines.guarantee_.events) == 1 + 10
    assert machines.guarantee_.epsilon > 3 * machines.guarantee_.claimed_epsilon


@pytest.mark.parametrize("paper", ITEMS)
def test_every_entry_has_a_command(paper: str) -> None:
    given = " ; ".join(commands(paper)) + " "
    for entry in entries_of(paper):
        kind, _, number = entry.name.partition("-")
        assert f"sfumato reproduce {paper} --{kind} {number} " in given


def test_every_figure_is_of_at_least_five_runs_at_full_size() -> None:
    found = [(each, row.runs) for each in entries_of("all") for row in pages.result_of(each).rows]
    assert not {f"{each.paper} {each.name}" for each, runs in found if runs < 5}


def test_printed_figures_are_those_that_were_read_in_the_papers() -> None:
    """They were compared with the texts, row by row; a digit that is changed is noticed."""
    hulls = ("PRIVATE", "TWICE", "CENTRAL", "SCENARIOS", "TABLE_10", "GROCERIES", "MEANS")
    modules = {
        kahm: (*hulls, "TABLE_11", "FIGURE_13", "FIGURE_15"),
        digits: ("TABLE_1", "TABLE_2", "TABLE_2_DEVIATION", "TABLE_3"),
        office: ("PRINTED",),
        feddpdr: ("PRINTED_SECONDS",),
    }
    printed = [getattr(module, name) for module, names in modules.items() for name in names]
    assert zlib.crc32(repr(printed).encode()) == 1_170_518_856


@pytest.mark.parametrize("command", commands(*ITEMS))
def test_a_command_runs_in_its_quick_form(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a quarter of the digits: finite figures, JSON and a picture."""
    whole = data.digits()
    few = data.Split(whole.X[::4], whole.y[::4], whole.X_test[::4], whole.y_test[::4])
    for module in (data, office):
        monkeypatch.setattr(module, "digits", lambda: few)
    monkeypatch.delenv("SFUMATO_DATA", raising=False)
    done(*shlex.split(command)[1:], "--quick", "-o", tmp_path)
    kept, *pictures = sorted(tmp_path.iterdir())
    found = json.loads(kept.read_text())
    assert [p.read_bytes()[:4] for p in pictures] == [b"\x89PNG"] * bool(found["series"])
    assert found["verdict"] == "quick run, too small to judge"
    assert found["comparisons"] or found["claims"]
    ours = [row[name] for row in found["comparisons"] for name in ("paper", "strict")]
    assert all(math.isfinite(value) for value in ours if value is not None)
    assert not found["comparisons"] or any(value is not None for value in ours)


def test_the_results_are_those_that_are_kept(tmp_path: Path) -> None:
    pages.rebuild(tmp_path)
    made = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert made == {name: (pages.PAGES / name).read_text() for name in made}
    assert {path.name for path in pages.PAGES.iterdir()} == {*made, "index.md"}
    shown = "".join(made.values())
    runs = {path.stem for path in pages.RESULTS.glob("reproduce_*.json")}
    assert all(f"`{name}`" in shown for name in runs)
