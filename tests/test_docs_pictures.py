"""Pictures of the README and the home page: small, described, and what their scripts draw."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"


def script(name: str) -> dict[str, Any]:
    return runpy.run_path(str(PICTURES / f"{name}.py"))


def test_pictures_of_the_readme_are_small_and_described() -> None:
    shown = re.findall(r"!\[(.*?)\]\((docs/pictures/\w+\.png)\)", (ROOT / "README.md").read_text())
    assert {Path(path).stem for _, path in shown} == {"frontier"}
    for words, path in shown:
        assert len(words) > 80
        assert (ROOT / path).stat().st_size < 200_000
        assert (ROOT / path).with_suffix(".py").is_file()


@pytest.mark.parametrize("form", ["wide", "tall"])
def test_the_picture_of_the_idea_is_what_its_script_draws(form: str) -> None:
    assert (PICTURES / f"idea_{form}.svg").read_text() == script("idea")[form]()


def test_round_numbers_stand_at_an_axis() -> None:
    drawing = pytest.importorskip("benchmarks.drawing")
    assert drawing.ticks(0.0, 1.0) == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert drawing.ticks(0.01, 1000.0, log=True) == [0.01, 1.0, 100.0]
    assert [drawing.short(value) for value in (0.0, -2.0, 1e-5, 2e6)] == [
        "0",
        "−2",
        "10⁻⁵",
        "2·10⁶",
    ]


def test_the_picture_of_the_idea_tells_its_story_without_eyes() -> None:
    drawn = script("idea")["wide"]()
    assert 'role="img"' in drawn
    assert "<title>" in drawn
    assert "ledger is charged" in drawn
    assert "#" not in re.sub(r"var\([^)]*\)", "", drawn)  # colours follow the theme


def test_the_frontier_is_drawn_from_what_is_there(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    names = script("frontier")
    assert names["numbers"]("no_such_benchmark") == []
    (points,) = [names["frontier"]()[0]["linear, scattering"]]
    assert [epsilon for epsilon, _ in points] == [0.1, 1.0, 3.0, 10.0]
    ours, peers = names["beside_peers"]("adult")
    assert "PrivateLinearClassifier" in ours
    assert any("diffprivlib" in name for name in peers)
    assert names["beside_peers"]("nobody") == ({}, {})


def test_the_frontier_can_be_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("PIL")
    names = script("frontier")
    monkeypatch.setitem(names["draw"].__globals__, "HERE", tmp_path)
    names["draw"]()
    assert 5_000 < (tmp_path / "frontier.png").stat().st_size < 200_000
