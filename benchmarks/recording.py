"""What the benchmarks share: data, clocks and the results file."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import platform
import resource
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

# A quick run keeps its numbers apart: they are of a first minute, not of a benchmark.
KEPT = Path(__file__).parent / "results"
RESULTS = Path(os.environ.get("SFUMATO_RESULTS") or KEPT)
PACKAGES = ("numpy", "scipy", "scikit-learn")


def mnist(name: str = "mnist") -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return rows in [0, 1] and labels to train and to test; also of "fashion-mnist"."""
    folder = Path(os.environ.get("SFUMATO_DATA", "")) / name
    if "SFUMATO_DATA" not in os.environ or not folder.is_dir():
        raise SystemExit(f"Set SFUMATO_DATA to the folder that has {name}/ in it.")

    def read(name: str, offset: int) -> np.ndarray:
        return np.frombuffer(gzip.decompress((folder / name).read_bytes()), np.uint8, offset=offset)

    parts = []
    for part in ("train", "t10k"):
        images = read(f"{part}-images-idx3-ubyte.gz", 16).reshape(-1, 784)
        parts += [images / np.float32(255), read(f"{part}-labels-idx1-ubyte.gz", 8)]
    return tuple(parts)


def timed(task: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """Return the answer of a task with its wall and CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    answer = task()
    seconds = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
    return answer, {name: round(value, 4) for name, value in seconds.items()}


def best_of(repeats: int, task: Callable[[], Any]) -> dict[str, float]:
    """Return the least times of several runs; the first also warms the libraries up."""
    runs = [timed(task)[1] for _ in range(repeats)]
    return {name: min(run[name] for run in runs) for name in runs[0]}


def peak_gib() -> float:
    """Largest memory of this process so far."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)


def _versions() -> dict[str, str]:
    """Versions of what is installed, and of the source that runs."""
    from sfumato import __version__  # clocks and data serve peers without it

    found = {"sfumato": __version__}
    for package in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def write(name: str, numbers: Any, *, seed: int | None, **context: Any) -> None:
    """Print the numbers and keep them with machine and versions."""
    from sfumato.papers.running import processor  # clocks and data serve peers without it

    record = {
        "benchmark": name,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "seed": seed,
        "machine": {
            "processor": processor(),
            "cores": os.cpu_count(),
            "threads": os.environ.get("OMP_NUM_THREADS", "all"),
            "load_at_end": round(os.getloadavg()[0], 2),
        },
        "python": platform.python_version(),
        "versions": _versions(),
        **context,
        "numbers": numbers,
    }
    text = json.dumps(record, indent=2) + "\n"
    print(text)
    path = RESULTS / f"{name}.json"
    aside = path.with_suffix(".part")
    aside.write_text(text)
    aside.replace(path)
