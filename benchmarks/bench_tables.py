"""``sfumato fit --model gaussian`` on a large Parquet file: one pass a release, little memory.

python -m benchmarks.bench_tables [GIGABYTES]
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.recording import write
from sfumato import load
from sfumato.tables.facts import Column, Target
from sfumato.tables.schema import TableBounds

FEATURES = 40
ROWS_A_PART = 500_000
# The command line, and then the most memory that this process alone has held (in kB).
COMMAND = """
import pathlib, sys
from sfumato.interfaces.cli.main import app
app(sys.argv[1:], standalone_mode=False)
status = pathlib.Path("/proc/self/status").read_text()
print(next(line for line in status.splitlines() if line.startswith("VmHWM")))
"""


def main() -> None:
    gigabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    with tempfile.TemporaryDirectory() as folder:
        table, bounds = Path(folder) / "rows.parquet", Path(folder) / "bounds.toml"
        n_rows = generate(table, gigabytes * 1e9)
        names = [f"x{i}" for i in range(FEATURES)]
        columns = tuple(Column(name, "double", lower=-4.0, upper=4.0) for name in names)
        TableBounds(columns, Target("label", "int64", (0, 1, 2)), confirmed=True).write(bounds)
        words = ["fit", str(table), "--epsilon", "1", "--bounds", str(bounds)]
        words += ["-o", str(Path(folder) / "model.sfumato")]
        start = time.perf_counter()
        ended = subprocess.run(
            [sys.executable, "-c", COMMAND, *words], check=True, capture_output=True, text=True
        )
        wall = time.perf_counter() - start
        model = load(Path(folder) / "model.sfumato")
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        numbers = {
            "file_gb": round(table.stat().st_size / 1e9, 2),
            "rows": n_rows,
            "features": FEATURES,
            "passes": len(model.guarantee_.events),
            "wall_s": round(wall, 1),
            "cpu_s": round(used.ru_utime + used.ru_stime, 1),
            "peak_gib": round(int(ended.stdout.split()[-2]) / 2**20, 2),
        }
    write("tables_passes", numbers, seed=0, model="gaussian", epsilon=1.0)


def generate(path: Path, n_bytes: float) -> int:
    """Write random rows of three classes until the file is large enough."""
    rng, means = np.random.default_rng(0), np.random.default_rng(1).normal(size=(3, FEATURES))
    n_rows = 0
    schema = pa.schema([*((f"x{i}", pa.float64()) for i in range(FEATURES)), ("label", pa.int64())])
    with pq.ParquetWriter(path, schema, use_dictionary=False, compression="none") as writer:
        while path.stat().st_size < n_bytes:
            labels = rng.integers(3, size=ROWS_A_PART)
            rows = means[labels] + rng.standard_normal((ROWS_A_PART, FEATURES))
            columns = [*rows.T, labels]
            writer.write_table(pa.table(columns, schema=schema), row_group_size=100_000)
            n_rows += ROWS_A_PART
    return n_rows


if __name__ == "__main__":
    main()
