"""Running the command line in tests: in this process, in another, and on a pseudo-terminal."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
from typer.testing import CliRunner

from sfumato.cli.main import app
from sfumato.tables import TableBounds
from sfumato.tables.files import write_table


def run(*words: object) -> Any:
    """Run a command in this process."""
    return CliRunner().invoke(app, [str(word) for word in words])


def done(*words: object) -> str:
    """Run a command that must succeed, and return its standard output."""
    result = run(*words)
    assert result.exit_code == 0, (result.output, result.exception)
    return str(result.stdout)


def typed(*words: object, answers: str = "yes\n" * 200) -> Any:
    """Run a command at whose questions a person types answers."""
    words = tuple(str(word) for word in words)
    with mock.patch("sfumato.cli.describe.at_terminal", return_value=True):
        return CliRunner().invoke(app, words, input=answers)


def refused(*words: object, code: int = 2) -> str:
    """Run a command that must fail, and return its one line of standard error."""
    result = run(*words)
    assert result.exit_code == code, (result.output, result.exception)
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    last = result.stderr.splitlines()[-1]
    assert last.startswith("sfumato: ")
    assert "Traceback" not in result.stderr
    return str(last)


def plain(shown: str) -> str:
    """Take colours, cursor moves and line ends of a terminal away."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).replace("\r\n", "\n")


def patients(folder: Path, name: str = "patients.csv", n: int = 400, **columns: Any) -> Path:
    """Write a table whose label can be learned; `columns` replace or add some."""
    rng = np.random.default_rng(0)
    age = rng.integers(18, 95, n)
    ward = rng.choice(["east", "west"], n)
    usual = {
        "id": [f"person {i}" for i in range(n)],
        "age": age,
        "pressure": np.round(rng.normal(80, 10, n), 1),
        "ward": ward,
        "smoker": rng.random(n) < 0.3,
        "ill": np.where((age > 55) == (ward == "east"), "yes", "no"),
    }
    table = {key: values for key, values in {**usual, **columns}.items() if values is not None}
    write_table(pa.table(table), folder / name)
    return folder / name


def confirmed(table: Path, target: str | None = "ill") -> Path:
    """Describe a table and confirm the proposal, as a person would in an editor."""
    path = table.with_suffix(".toml")
    words = () if target is None else ("--target", target)
    done("describe", table, *words, "-o", path)
    replace(TableBounds.read(path), confirmed=True).write(path)
    return path
