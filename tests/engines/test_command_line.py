"""Tables in many files on the command line, and one read by a cluster."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from sfumato import load
from tests.engines.sources import messy_table, table_bounds
from tests.interfaces.running import done, run

SETTINGS = ("--target", "bought", "--epsilon", "1", "--model", "gaussian")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    table = messy_table(n_rows=200)
    (tmp_path / "visits").mkdir()
    for number in range(3):
        table.iloc[number::3].to_csv(tmp_path / "visits" / f"{number}.csv.gz", index=False)
    table_bounds("bought").write(tmp_path / "bounds.toml")
    return tmp_path


@pytest.mark.parametrize("name", ["visits/*.csv.gz", "visits"])
def test_a_glob_and_a_folder(name: str, folder: Path) -> None:
    bounds, output = str(folder / "bounds.toml"), str(folder / "model.sfumato")
    done("fit", str(folder / name), *SETTINGS, "--bounds", bounds, "-o", output)
    assert load(output).predict(messy_table(n_rows=20)).shape == (20,)


@pytest.mark.parametrize(
    ("engine", "words"), [("spark://host", "dask://host:port"), ("dask://127.0.0.1:1", "scheduler")]
)
def test_an_engine_that_is_none(engine: str, words: str, folder: Path) -> None:
    bounds, output = str(folder / "bounds.toml"), str(folder / "model.sfumato")
    pytest.importorskip("distributed", reason="needs Dask: pip install 'sfumato[dask]'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        words_of_command = ("--bounds", bounds, "-o", output, "--engine", engine)
        result = run("fit", str(folder / "visits"), *SETTINGS, *words_of_command)
    assert result.exit_code != 0
    assert words in result.stderr
