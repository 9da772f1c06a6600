"""The demo: a table, a report, and the guarantee in plain words."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sfumato.cli import demo
from sfumato.cli.main import app


def test_demo_prints_a_table_and_writes_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "RUNS", 1)
    target = tmp_path / "digits.html"
    result = CliRunner().invoke(app, ["demo", "-o", str(target)])
    assert result.exit_code == 0, result.output
    flat = " ".join(result.output.split())
    assert "replacing any one record" in flat
    assert "no privacy" in flat
    assert "warning" not in flat
    assert target.read_text().count("Gaussian classifier") >= 3


@pytest.mark.usefixtures("seed")  # noise must not be seeded where a promise is shown
def test_accuracy_of_the_demo_lies_below_the_ceiling_and_above_chance() -> None:
    *_, report = demo.demonstrate((3.0,))
    (row,) = report.results
    assert 0.5 < row.metrics["accuracy"] < report.ceiling["accuracy"]
    assert row.guarantee.is_private
