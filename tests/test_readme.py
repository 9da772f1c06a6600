"""What the README shows runs, and prints what it says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
README, HOME = ROOT / "README.md", ROOT / "docs" / "index.md"
RESULTS = ROOT / "benchmarks" / "results"


def kept(name: str, **which: Any) -> dict[str, Any]:
    """Return the one row of a kept result that has these values."""
    numbers = json.loads((RESULTS / f"{name}.json").read_text())["numbers"]
    (row,) = [row for row in numbers if which.items() <= row.items()]
    return row


def test_the_quickstart_runs_and_ends_with_the_guarantee(tmp_path: Path) -> None:
    code = re.search(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert code is not None
    done = subprocess.run(
        [sys.executable, "-c", code[1]], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    right, promise = done.stdout.strip().splitlines()
    shown = re.search(r"```text\n(right: .*?)```", README.read_text(), flags=re.DOTALL)
    assert shown is not None
    said, _, told = shown[1].partition("\n")
    assert len(told) > 100
    assert promise.startswith(" ".join(told.split()).removesuffix("..."))
    # Fits differ by a point or so; by 6 points, a standard deviation of which is below one, never.
    assert abs(int(right[7:-1]) - int(said[7:-1])) <= 6


def test_the_figures_of_readme_and_home_page_are_those_of_kept_results() -> None:
    hospital = [
        kept("hospital", model=model, epsilon=epsilon)["accuracy"]
        for model, epsilon in (
            ("PrivateAdditiveClassifier", 1.0),
            ("logistic regression", None),
            ("always no", None),
        )
    ]
    numbers = json.loads((RESULTS / "peers.json").read_text())["numbers"]
    linear = {"data": "Adult", "measure": "accuracy", "epsilon": 1.0, "relation": "replace_one"}
    same = [row for row in numbers if linear.items() <= row.items()]
    (adult,) = [row for row in same if row["ours"]["name"] == "PrivateLinearClassifier"]
    figures_of_adult = [adult[side]["value"] for side in ("ours", "peer")]
    images = {"data": "mnist", "features": "scattering", "relation": "replace_one"}
    mnist = [kept("margins_frontier", **images, epsilon=each)["accuracy"] for each in (1.0, 10.0)]
    rows = re.findall(r"^\| (?:hospital|UCI Adult|MNIST).*", HOME.read_text(), flags=re.MULTILINE)
    expected = (hospital, figures_of_adult, mnist)
    for row, figures in zip(rows, expected, strict=True):
        assert re.findall(r"0\.\d{3}", row) == [f"{figure:.3f}" for figure in figures]
    text = README.read_text()
    assert f'"no" is right {hospital[2]:.0%}'.replace("%", " %") in text
    assert f"without privacy, {hospital[1]:.0%}".replace("%", " %") in text
    drawn = re.search(r'alt="Accuracy against epsilon: CIFAR-10 ([\d., ]+) at 1, 3 and 8', text)
    assert drawn is not None
    cifar = [
        kept("accelerator", part="images", epsilon=each)["accuracy"] for each in (1.0, 3.0, 8.0)
    ]
    assert [float(each) for each in re.findall(r"0\.\d+", drawn[1])] == pytest.approx(
        cifar, abs=6e-4
    )
