"""Tables of Spark, on two worker processes of this machine: the same bits, persons, faults."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from sfumato import PrivateLinearClassifier, PrivateMoments
from sfumato.exceptions import EngineError
from tests.sums.sources import messy_table, same_bits, table_bounds
from tests.sums.test_partitions import ESTIMATORS, PERSONS

pyspark = pytest.importorskip("pyspark", reason="needs Spark: pip install 'sfumato[spark]'")
pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(shutil.which("java") is None, reason="needs Java 17 or newer"),
]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    folder = tmp_path_factory.mktemp("spark")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = (
            SparkSession.builder.master("local[2,2]")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "3")
            .config("spark.local.dir", str(folder))
            .config("spark.sql.warehouse.dir", str(folder))
            .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={folder}")
            .getOrCreate()
        )
        found.sparkContext.setLogLevel("OFF")
        yield found
        found.stop()


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return messy_table(n_rows=600)


@pytest.fixture(scope="module")
def folder(table: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table")
    for number in range(3):
        table.iloc[number::3].to_parquet(path / f"{number}.parquet")
    return path


@pytest.mark.parametrize("name", ESTIMATORS)
def test_bits_do_not_depend_on_partitions(
    name: str, session: Any, table: pd.DataFrame, folder: Path
) -> None:
    frame = session.read.parquet(str(folder))
    sources = {"as read": frame}
    if name == "moments":
        sources |= {str(n): frame.repartition(n) for n in (1, 7)}
    same_bits(ESTIMATORS[name], table, sources)


def test_persons_are_moved_to_one_partition(
    session: Any, table: pd.DataFrame, folder: Path
) -> None:
    bounds = table_bounds("bought", **PERSONS)
    make = lambda: PrivateLinearClassifier(  # noqa: E731
        bounds=bounds, unit="person", delta=1e-5, n_steps=2
    )
    same_bits(make, table, {"persons": session.read.parquet(str(folder))})


def test_a_partition_that_cannot_be_read(session: Any, table: pd.DataFrame, tmp_path: Path) -> None:
    for number in range(2):
        table.iloc[number::2].to_parquet(tmp_path / f"{number}.parquet")
    frame = session.read.parquet(str(tmp_path))
    (tmp_path / "1.parquet").write_bytes(b"PAR1 secret cell 4711 PAR1")
    with pytest.raises(EngineError, match="not added up") as caught:
        PrivateMoments(bounds=table_bounds("bought"), delta=1e-5).fit(frame)
    assert "4711" not in str(caught.value)
