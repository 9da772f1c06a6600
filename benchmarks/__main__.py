"""Run the benchmarks and rebuild their page: ``python -m benchmarks [--quick] [NAME ...]``.

With ``--quick`` each runs for about a minute at most, all of them within the hour, and its numbers
go to a folder that is thrown away: it says whether a benchmark still runs, not how well.

Each benchmark runs in a process of its own and writes JSON to benchmarks/results/. Those that
need real data find it through SFUMATO_DATA and are passed over without it; those for a GPU are
passed over where there is none. Other packages are compared where SFUMATO_PEERS_PYTHON names
Pythons that have them (see bench_peers). What fails is named at the end and keeps its last numbers.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

from benchmarks.pages import rebuild
from benchmarks.reproductions import rebuild as rebuild_reproductions

# name: (module and arguments, needs real data, needs a GPU, threads)
BENCHMARKS = {
    "noise": (["bench_noise"], False, False, "1"),
    "terms": (["bench_terms"], False, False, "1"),
    "hospital": (["bench_hospital"], False, False, "1"),
    "moments": (["bench_moments"], True, False, None),
    "hull-sizes": (["bench_hulls", "sizes"], False, False, "1"),
    "hull-oracle": (["bench_hulls", "oracle"], True, False, "1"),
    "hull-mnist": (["bench_hulls", "mnist", "growth"], True, False, None),
    "hull-rivals-digits": (["bench_hulls_rivals", "digits"], False, False, None),
    "hull-rivals-mnist": (["bench_hulls_rivals", "mnist"], True, False, None),
    "fabrication": (["bench_fabrication", "record", "learners"], True, False, None),
    "fabrication-speed": (["bench_fabrication", "speed"], True, False, None),
    "fabricated-tables": (["bench_fabricated_tables"], True, False, "1"),
    "mappings": (["bench_mappings"], True, False, None),
    "transfer": (["bench_mappings_transfer"], True, False, None),
    "densities": (["bench_densities"], True, False, "1"),
    "large-margin-mixtures": (["bench_large_margin"], True, False, "1"),
    "functions-utility": (["bench_functions_utility"], True, False, "1"),
    "persons": (["bench_persons"], True, False, "1"),
    "engines-memory": (["bench_engines", "memory"], False, False, "1"),
    "engines-cluster": (["bench_engines", "cluster"], False, False, "1"),
    "frontier": (["bench_frontier"], True, True, None),
    "frontier-cifar": (
        [
            *("bench_frontier", "--data", "cifar10", "--epsilons", "1", "3", "8"),
            *("--features", "best", "--name", "margins_frontier_cifar"),
        ],
        True,
        False,
        None,
    ),
    "frontier-cifar-parts": (
        [
            *("bench_frontier", "--data", "cifar10", "--epsilons", "1", "3", "8"),
            *("--features", "mirrored", "random-process", "--relations", "add_or_remove_one"),
            *("--name", "margins_frontier_cifar_parts"),
        ],
        True,
        False,
        None,
    ),
    "frontier-steps": (
        [
            *("bench_frontier", "--data", "mnist", "--epsilons", "1", "10", "--held-out"),
            *("--relations", "add_or_remove_one", "--steps", "60", "120", "240"),
            *("--name", "margins_frontier_steps"),
        ],
        True,
        False,
        None,
    ),
    "federated": (["bench_federated"], True, False, None),
    "parties": (["bench_parties"], True, False, None),
    "tables-models": (["bench_tables_models"], True, False, "1"),
    "table-models": (["bench_table_models"], False, False, "1"),
    "table-promises": (["bench_table_promises"], True, False, "1"),
    "fuzzed-cells": (["bench_fuzzed_cells"], False, False, "1"),
    "search": (["bench_search"], True, False, "1"),
    "memory": (["bench_memory"], False, False, "1"),
    "speed": (["bench_speed"], True, False, "1"),
    "speed-scattering": (
        ["bench_speed", "scattering", "--rows", "60000", "--name", "speed_scattering"],
        True,
        False,
        "1",
    ),
    "accelerator": (["bench_accelerator"], True, True, None),
    "service": (["bench_service"], False, False, "1"),
    "auditing": (["bench_auditing", "density", "power", "matches"], True, False, "1"),
    "peers": (["bench_peers"], True, False, "1"),
    "statistics": (["bench_statistics"], True, False, "1"),
}


def has_gpu() -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


QUICK_SECONDS = 3400 / len(BENCHMARKS)  # all within the hour
FAILED = "failed"


def run(command: list[str], environment: dict[str, str], seconds: float | None) -> str:
    """Run a command and say how it ended; being cut off after its time is no failure."""
    child = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        return "finished" if child.wait(seconds) == 0 else FAILED
    except subprocess.TimeoutExpired:
        return "cut off"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)  # with all that it has started
        child.wait()


def lacking(name: str) -> str | None:
    """Return what this machine does not have for a benchmark."""
    _, needs_data, needs_gpu, _ = BENCHMARKS[name]
    if needs_data and "SFUMATO_DATA" not in os.environ:
        return "SFUMATO_DATA is not set"
    return "no GPU" if needs_gpu and not has_gpu() else None


def run_all(names: list[str], seconds: float | None = None) -> list[dict[str, Any]]:
    """Run benchmarks one after the other; return for each how it ended and after how long."""
    rows = []
    for name in names:
        (module, *arguments), *_, threads = BENCHMARKS[name]
        begun = time.monotonic()
        if (missing := lacking(name)) is None:
            print(f"{name}: running", flush=True)
            environment = os.environ | ({"OMP_NUM_THREADS": threads} if threads else {})
            command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
            ended = run(command, environment, seconds)
        else:
            ended = f"passed over, {missing}"
        took = round(time.monotonic() - begun, 1)
        print(f"{name}: {ended}" + ("" if missing else f" after {took} s"), flush=True)
        rows.append({"name": name, "ended": ended, "wall_s": took})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description="Run the benchmarks.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="all, unless named")
    parser.add_argument("--quick", action="store_true", help="cut each off; keep no numbers")
    parser.add_argument(
        "--seconds", type=float, default=QUICK_SECONDS, help="of each, with --quick"
    )
    asked = parser.parse_args()
    names = asked.names or list(BENCHMARKS)
    if unknown := sorted(set(names) - set(BENCHMARKS)):
        parser.error(
            f"no benchmark is called {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}"
        )
    if asked.quick:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["SFUMATO_RESULTS"] = folder
            rows = run_all(names, asked.seconds)
    else:
        rows = run_all(names)
        rebuild()
        rebuild_reproductions()
    if failed := [row["name"] for row in rows if row["ended"] == FAILED]:
        raise SystemExit(f"These benchmarks failed: {', '.join(failed)}.")


if __name__ == "__main__":
    main()
