"""The newcomer's path of the README, as it is written there."""

from __future__ import annotations

import csv
import re
import shlex
from pathlib import Path

import pytest

from tests.cli.running import done, typed

ROOT = Path(__file__).parents[2]


def commands(page: Path, language: str) -> list[list[str]]:
    """Return the commands of all blocks of one language that use the command line."""
    blocks = re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.DOTALL)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.strip()]


def test_the_newcomers_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = commands(ROOT / "README.md", "sh")
    steps = [words[1] for words in path if words[0] == "sfumato"]
    order = [step for step in steps if step not in ("datasets", "budget")]
    assert order[:4] == ["describe", "confirm", "fit", "predict"]
    assert order[-2:] == ["report", "certificate"]
    for words in path:
        if words[1] == "confirm":
            assert typed(*words[1:]).exit_code == 0
        else:
            done(*words[1:])
    with Path("predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    right = sum(row["readmitted"] == row["prediction"] for row in rows) / len(rows)
    assert len(rows) == 1500
    assert right > 0.68  # more than always saying "no", which is right for 65 %
    assert Path("report.html").stat().st_size > 10_000


def test_the_page_on_the_command_line_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "howto" / "command-line.md"
    for words in commands(page, "console"):
        if words[1] == "confirm":
            shown = re.search(r"```toml\n(.*?)```", page.read_text(), flags=re.DOTALL)
            assert shown is not None
            assert shown[1] in Path("bounds.toml").read_text()
            assert typed(*words[1:]).exit_code == 0
        else:
            done(*words[1:])
    code = re.search(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    assert code is not None
    exec(compile(code[1], "command-line.md", "exec"), {})
