"""Tables larger than memory and on a cluster of Dask: memory, CPU seconds, bits.

python -m benchmarks.bench_engines memory [FOLDER [4]]   6 GB of Parquet under a limit of 1 GiB,
                                                         with so many models at a time
python -m benchmarks.bench_engines cluster [FOLDER [4]]  20 (or 4) million rows on workers

The folder is filled with files of a million rows of 20 numbers and a label (168 MB each) as far as
they are needed: six different ones, and copies of them. The limit is one on the address space of a
process of its own (RLIMIT_AS), set before Sfumato is imported. Models: linear on all 20 columns,
additive and label tree on 3 of them, a density of 1; with 2 gradients, since each costs the same.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np

FILES, FEW_FILES = 36, 6
ROWS, WIDTH = 1_000_000, 20
LIMIT = 2**30
STEPS = 2
MODELS = ("density", "moments", "linear", "tree", "additive")


def files(folder: Path, n_files: int) -> str:
    """Write what is missing; return the paths of the first files as a glob."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    for number in range(n_files):
        path = folder / f"{number:02d}.parquet"
        if number >= FEW_FILES and not path.exists():
            shutil.copy(folder / f"{number % FEW_FILES:02d}.parquet", path)
        if not path.exists():
            rng = np.random.default_rng(number)
            columns: dict[str, Any] = {f"x{i}": rng.standard_normal(ROWS) for i in range(WIDTH)}
            columns["y"] = (columns["x0"] + columns["x1"] > 0).astype(np.int64)
            table = pa.table(columns)
            aside = path.with_suffix(".part")
            pq.write_table(
                table, aside, compression="none", use_dictionary=False, row_group_size=2**17
            )
            aside.rename(path)
    last = n_files - 1
    few = {3: "0[0-3]", 5: "0[0-5]", 19: "[01][0-9]", 35: "[0-3][0-9]"}[last]
    return str(folder / f"{few}.parquet")


def fit(name: str, glob: str) -> dict[str, Any]:
    """Fit a model in this process, under the limit."""
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    import sfumato
    from sfumato.models.density import PrivateDensity
    from sfumato.tables import TableBounds

    def bounds(n_columns: int, target: str | None) -> Any:
        columns: dict[str, Any] = {f"x{i}": (-4.0, 4.0) for i in range(n_columns)}
        return TableBounds.from_dict(
            {**columns, **({"y": [0, 1]} if target else {})}, target=target
        )

    make: dict[str, Callable[[], Any]] = {
        "moments": lambda: sfumato.PrivateMoments(bounds=sfumato.Bounds(norm=6.0), delta=1e-8),
        "density": lambda: PrivateDensity(bounds=bounds(1, None), delta=1e-8),
        "linear": lambda: sfumato.PrivateLinearClassifier(
            bounds=bounds(20, "y"), delta=1e-8, n_steps=STEPS
        ),
        "additive": lambda: sfumato.PrivateAdditiveClassifier(
            bounds=bounds(3, "y"), delta=1e-8, n_steps=STEPS, interactions=False
        ),
        "tree": lambda: sfumato.Fabricator(bounds=bounds(3, "y"), delta=1e-8),
    }
    wall, cpu = time.perf_counter(), time.process_time()
    make[name]().fit(glob)
    return {
        "cpu_s": round(time.process_time() - cpu, 1),
        "wall_s": round(time.perf_counter() - wall, 1),
        "peak_rss_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }


def plain_sums(glob: str) -> dict[str, Any]:
    """The same 231 plain sums by DuckDB: products of 20 columns and the label."""
    import duckdb

    names = [*(f"x{i}" for i in range(WIDTH)), "y"]
    sums = ", ".join(f"sum({a} * {b})" for i, a in enumerate(names) for b in names[: i + 1])
    connection = duckdb.connect()
    connection.execute("set threads = 1")
    wall, cpu = time.perf_counter(), time.process_time()
    connection.execute(f"select {sums} from '{glob}'").fetchall()
    return {
        "cpu_s": round(time.process_time() - cpu, 1),
        "wall_s": round(time.perf_counter() - wall, 1),
    }


def in_a_process(*words: str) -> Any:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
    environment["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # others reserve addresses ahead
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.bench_engines", *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1:]}
    return json.loads(done.stdout.splitlines()[-1])


def memory(folder: Path, at_once: str = "1") -> None:
    """Measure what is not in the results yet, and write after each size of the table."""
    from concurrent.futures import ThreadPoolExecutor

    from benchmarks.recording import RESULTS, write

    kept = RESULTS / "engines_memory.json"
    found = json.loads(kept.read_text())["numbers"] if kept.exists() else []
    for place, n_files in enumerate((FEW_FILES, FILES)):
        glob = files(folder, n_files)
        if len(found) == place:
            n_bytes = sum(p.stat().st_size for p in sorted(folder.glob("*.parquet"))[:n_files])
            found.append({"rows": n_files * ROWS, "gigabytes": round(n_bytes / 1e9, 2)})
        record = found[place]
        record["limit_gib"] = LIMIT / 2**30
        missing = [name for name in ("duckdb, plain sums", *MODELS) if name not in record]
        words = [("fit", name, glob) if name in MODELS else ("sums", glob) for name in missing]
        with ThreadPoolExecutor(int(at_once)) as pool:  # a process each
            record |= zip(missing, pool.map(lambda each: in_a_process(*each), words), strict=True)
        for name in missing:
            if "cpu_s" in record[name]:
                record[name]["cpu_s_per_gb"] = round(record[name]["cpu_s"] / record["gigabytes"], 2)
        write("engines_memory", found, seed=None, unit="record", relation="replace_one")


def cluster(folder: Path, n_files: str = "20") -> None:
    """Measure moments in one process and on workers, and ways that were tried to be as quick."""
    from benchmarks.recording import write
    from sfumato.mechanisms.base import taped

    glob = files(folder, int(n_files))
    _moments().fit(files_of(glob)[0])  # libraries are loaded
    with taped() as tape:
        alone = _timed(lambda: _moments().fit(glob))
    found = {"rows": int(n_files) * ROWS, "columns": WIDTH, "one process": alone}
    for name, way in WAYS.items():
        spent, statistic = _on_workers(glob, **way)
        spent["same bits"] = bool(np.array_equal(statistic, tape.releases[0].statistic))
        spent["cpu_over_one_process"] = round(spent["cpu_s"] / alone["cpu_s"], 2)
        found[name] = spent
        print(name, spent, flush=True)
    found["two_faster_than_one_by"] = round(
        found["1 worker"]["wall_s"] / found["2 workers"]["wall_s"], 2
    )
    write("engines_cluster", [found], seed=None, unit="record", relation="add_or_remove_one")


# The first two are what a user gets; the others are what was tried.
WAYS: dict[str, dict[str, Any]] = {
    "1 worker": {"n_workers": 1},
    "2 workers": {"n_workers": 2},
    "2 workers, memory given back at once, as Dask sets it": {"n_workers": 2, "reuse": False},
    "2 workers, Dask started without that setting": {"n_workers": 2, "reuse": False, "trim": 2**25},
    "1 worker, 2 threads": {"n_workers": 1, "n_threads": 2},
}


def files_of(pattern: str) -> list[str]:
    return sorted(glob(pattern))  # noqa: PTH207


def _moments() -> Any:
    from sfumato import Bounds, PrivateMoments

    return PrivateMoments(bounds=Bounds(norm=6.0), delta=1e-8, relation="add_or_remove_one")


def _on_workers(
    glob: str,
    n_workers: int,
    n_threads: int = 1,
    *,
    reuse: bool = True,
    trim: int = 2**16,
) -> tuple[dict[str, Any], Any]:
    """Return seconds, and the exact statistic."""
    import dask
    import dask.dataframe as dd
    import psutil
    from distributed import Client, LocalCluster

    from sfumato.mechanisms.base import taped

    dask.config.set({"distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": trim})
    with (
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=n_threads,
            dashboard_address=None,
            host="127.0.0.1",
        ) as local,
        Client(local) as client,
    ):
        client.run(_prepared, files_of(glob)[0], reuse)
        parts = dd.read_parquet(files_of(glob))
        _moments().fit(dd.read_parquet(files_of(glob)[:1]))  # libraries are loaded here too
        workers = [psutil.Process(pid) for pid in client.run(os.getpid).values()]
        before = sum(sum(each.cpu_times()[:2]) for each in workers)
        with taped() as tape:
            spent = _timed(lambda: _moments().fit(parts))
        spent["cpu_s"] += sum(sum(each.cpu_times()[:2]) for each in workers) - before
        rounded = {name: round(value, 1) for name, value in spent.items()}
        return rounded, tape.releases[0].statistic


def _prepared(path: str, reuse: bool) -> None:
    """Load libraries on a worker, and leave its memory to Dask where that is asked for."""
    from sfumato.sums import dask as engine

    if not reuse:
        engine.TRIM_THRESHOLD = "NOBODY"
    _moments().fit(path)


def _timed(task: Callable[[], Any]) -> dict[str, Any]:
    wall, cpu = time.perf_counter(), time.process_time()
    task()
    return {
        "cpu_s": round(time.process_time() - cpu, 1),
        "wall_s": round(time.perf_counter() - wall, 1),
    }


def main() -> None:
    what, *words = sys.argv[1:]
    if what == "fit":
        print(json.dumps(fit(*words)))
    elif what == "sums":
        print(json.dumps(plain_sums(*words)))
    else:
        folder = Path(words[0] if words else "build/engines")
        {"memory": memory, "cluster": cluster}[what](folder, *words[1:])


if __name__ == "__main__":
    main()
