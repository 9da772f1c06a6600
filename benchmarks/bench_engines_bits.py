"""Every algorithm on every kind of records: whether exact sums and models are equal to the bit.

python -m benchmarks.bench_engines_bits

Files in several formats and batches, a URL, DuckDB, Polars, a pool of threads, Dask with
1, 2 and 7 partitions on a cluster of two processes, Ray and Spark where they are installed. The
table and the comparison are those of the tests (`tests/engines`).
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from benchmarks.recording import write
from tests.engines.ray_parts import engines_of_the_page
from tests.engines.sources import ThreadParts, in_parts, messy_table, same_bits, write_files
from tests.engines.test_same_bits import ESTIMATORS


def local_sources(table: Any, folder: Path) -> dict[str, Any]:
    found = {f"files, {name}": path for name, path in write_files(table, folder).items()}
    glob = found["files, glob"]
    found["URL"] = (folder / "part1.parquet").parent.as_uri() + "/part*.parquet"
    found["DuckDB"] = duckdb.sql(f"select * from '{glob}'")
    found["Polars"] = pl.scan_parquet(glob)
    found["threads"] = ThreadParts(in_parts(table, 7))
    return found


def dask_sources(table: Any, stack: ExitStack) -> dict[str, Any]:
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
    )
    stack.enter_context(Client(stack.enter_context(cluster)))
    return {f"Dask, {n}": dd.from_pandas(table, npartitions=n) for n in (1, 2, 7)}


def ray_sources(glob: str, stack: ExitStack) -> dict[str, Any]:
    if not find_spec("ray"):
        return {}
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    stack.callback(ray.shutdown)
    folder, _, name = glob.rpartition("/")
    parts = engines_of_the_page()["RayParts"](sorted(Path(folder).glob(name)))
    return {"Ray": parts}


def spark_sources(glob: str, stack: ExitStack) -> dict[str, Any]:
    if not (find_spec("pyspark") and shutil.which("java")):
        return {}
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    build = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = build.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    stack.callback(session.stop)
    return {"Spark": session.read.parquet(glob)}


@contextmanager
def all_sources(table: Any) -> Iterator[dict[str, Any]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        found = local_sources(table, folder)
        glob = str(found["files, glob"])
        found |= dask_sources(table, stack)
        found |= ray_sources(glob, stack) | spark_sources(glob, stack)
        yield found


def equal(name: str, table: Any, place: str, source: Any) -> str:
    try:
        same_bits(ESTIMATORS[name], table, {place: source})
    except AssertionError:
        return "NO"
    return "yes"


def main() -> None:
    warnings.simplefilter("ignore")
    table = messy_table()
    found: list[dict[str, Any]] = []
    with all_sources(table) as sources:
        for name in ESTIMATORS:
            record: dict[str, Any] = {"algorithm": name}
            for place, source in sources.items():
                record[place] = equal(name, table, place, source)
            found.append(record)
            print(record, flush=True)
    write("engines_bits", found, seed=0, unit="record", relation="both")


if __name__ == "__main__":
    main()
