"""Tables in many files on the command line, and one read by a cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sfumato import Ledger, TableBounds
from sfumato.cli.jobs import pipeline as streaming
from sfumato.mechanisms.base import taped
from tests.cli.running import done, run
from tests.sums.sources import messy_table, table_bounds

SETTINGS = ("--target", "bought", "--epsilon", "1", "--model", "gaussian")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    table = messy_table(n_rows=200)
    (tmp_path / "visits").mkdir()
    for number in range(3):
        table.iloc[number::3].to_csv(tmp_path / "visits" / f"{number}.csv.gz", index=False)
    table_bounds("bought").write(tmp_path / "bounds.toml")
    return tmp_path


@pytest.fixture
def one_file(folder: Path) -> Path:
    """All rows as one Parquet file, with bounds of numbers too."""
    table = messy_table(n_rows=200)
    table.to_parquet(folder / "visits.parquet")
    return folder / "visits.parquet"


MODELS: dict[str, tuple[str, ...]] = {
    "fit, linear": ("fit", "--model", "linear", "--set", "n_steps=3"),
    "fit, additive": ("fit", "--model", "additive", "--set", "n_steps=3"),
    "fabricate": ("fabricate", "--rows", "50"),
}


def _command(name: str, table: Path | str, folder: Path, output: str) -> list[str]:
    first, *words = MODELS[name]
    bounds = ("--bounds", str(folder / "bounds.toml"), "--epsilon", "1")
    return [*first.split(), str(table), *bounds, *words, "-o", str(folder / output)]


@pytest.mark.parametrize("name", MODELS)
def test_a_long_file_is_not_read_as_a_whole(
    name: str, folder: Path, one_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same exact sums in batches, from a glob and a folder as from one file."""
    suffix = "parquet" if name == "fabricate" else "sfumato"
    with taped() as tape:
        done(*_command(name, one_file, folder, f"whole.{suffix}"))
    visits = folder / "visits"
    places: list[Path | str] = [one_file, visits / "*.csv.gz", visits]
    monkeypatch.setattr(streaming, "LONG", 100)
    for number, place in enumerate(places):
        with taped(playback=tape) as played:
            done(*_command(name, place, folder, f"{number}.{suffix}"))
        for mine, theirs in zip(tape.releases, played.releases, strict=True):
            np.testing.assert_array_equal(mine.statistic, theirs.statistic)


def test_labels_that_are_public_do_not_tell_that_a_file_is_long(
    folder: Path, one_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the number of rows is secret, an error from some number on would be a release."""
    monkeypatch.setattr(streaming, "LONG", 100)
    known = TableBounds.read(folder / "bounds.toml")
    target = replace(known.target, categories="public")
    replace(known, target=target).write(folder / "bounds.toml")
    done(*_command("fit, linear", one_file, folder, "a.sfumato"), "--relation", "add_or_remove_one")


def test_a_damaged_long_file_costs_nothing(
    folder: Path, one_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read once before the charge, also where the number of rows is secret."""
    monkeypatch.setattr(streaming, "LONG", 100)
    table = messy_table(n_rows=200)
    table.to_parquet(one_file, row_group_size=50, compression="none")
    content = bytearray(one_file.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 400] = bytes(400)
    one_file.write_bytes(content)
    budget = Ledger(folder / "ledger.db").create(
        "d", epsilon=10.0, delta=1e-4, relation="add_or_remove_one"
    )
    payer = ("--ledger", str(folder / "ledger.db"), "--relation", "add_or_remove_one")
    result = run(*_command("fit, linear", one_file, folder, "out.sfumato"), *payer)
    assert result.exit_code != 0
    assert not budget.history()
