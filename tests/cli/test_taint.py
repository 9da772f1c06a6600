"""The command line on other rows with the same released values: the same words, the same files."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sfumato.mechanisms.base import Tape, taped
from sfumato.mechanisms.entropy import seeded
from sfumato.tables import TableBounds
from tests.cli.running import run

BOUNDS = TableBounds.from_dict(
    {"age": (0, 90), "income": (0.0, 60.0), "town": ["a", "b"], "ill": ["no", "yes"]},
    target="ill",
    person="id",
    person_rows=3,
)
COMMANDS = (
    "fit table.csv -e 1 -o model.sfumato",
    "fit table.csv -e 1 -o gaussian.sfumato --model gaussian",
    "fabricate table.csv -e 2 -o private.parquet --model fabricator.sfumato",
    "release mean table.csv -e 1 -o mean.csv --column age",
    "guarantee model.sfumato",
    "report model.sfumato private.parquet -o report.json",
)
TIMES = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.]+\+00:00")


def table(n_rows: int, seed: int) -> pd.DataFrame:
    """Fifty persons, whatever the number of rows."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(0, 90, n_rows),
            "income": rng.normal(30, 10, n_rows).round(2),
            "town": rng.choice(["a", "b"], n_rows),
            "ill": rng.choice(["no", "yes"], n_rows),
            "id": np.arange(n_rows) % 50,
        }
    )


def everything(
    folder: Path, rows: pd.DataFrame, promise: list[str], tapes: list[Tape]
) -> dict[str, bytes]:
    """Run all commands, and return what they say and write."""
    for path in folder.iterdir():
        path.unlink()
    rows.to_csv("table.csv", index=False)
    BOUNDS.write("bounds.toml")
    found: dict[str, bytes] = {}
    recorded = list(tapes)
    for number, command in enumerate(COMMANDS):
        words = command.split()
        reads = words[0] in ("fit", "fabricate", "release")
        playback = recorded[number] if recorded else None
        with seeded(number), taped(playback=playback) as tape:
            result = run(*words, *(["--bounds", "bounds.toml", *promise] if reads else []))
        assert result.exit_code == 0, (command, result.output)
        found[command] = result.output.encode()
        tapes.append(tape)
    written = {path.name: path.read_bytes() for path in folder.iterdir()}
    del written["table.csv"]
    return {name: TIMES.sub(b"", content) for name, content in (found | written).items()}


@pytest.mark.parametrize(
    ("unit", "relation", "n_other"),
    [("record", "add_or_remove_one", 170), ("person", "replace_one", 230)],
)
@pytest.mark.filterwarnings("ignore")
def test_words_and_files_depend_on_released_values_alone(
    unit: str, relation: str, n_other: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the number of rows is secret: at unit person that of rows is, under any relation."""
    monkeypatch.chdir(tmp_path)
    promise, tapes = ["--unit", unit, "--relation", relation], []
    first = everything(tmp_path, table(200, 0), promise, tapes)
    again = everything(tmp_path, table(n_other, 1), promise, tapes[: len(COMMANDS)])
    assert first.keys() == again.keys()
    assert len(first) >= len(COMMANDS) + 7
    for name, content in first.items():
        assert again[name] == content, name
