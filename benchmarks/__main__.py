"""Run the benchmarks and rebuild the tables: ``python -m benchmarks [--quick] [NAME ...]``.

With ``--quick`` each runs for about a minute at most, all of them within the hour, and its numbers
go to a folder that is thrown away: it says whether a benchmark still runs, not how well. How long
each ran is told, and kept by ``--keep-times`` as results/quick_runs.json.

Each benchmark runs in a process of its own and writes JSON to benchmarks/results/. Those that
need real data find it through SFUMATO_DATA (`curves` also through SFUMATO_TABLES) and are passed
over without it; those for a GPU are passed over where there is none. Other packages are compared
where SFUMATO_PEERS_PYTHON names Pythons that have them (see bench_peers). What fails is named at
the end and keeps its last numbers.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

from benchmarks.recording import RESULTS, write
from benchmarks.reproductions import rebuild as rebuild_reproductions
from benchmarks.tables import rebuild

# name: (module and arguments, needs real data, needs a GPU, threads)
BENCHMARKS = {
    "noise": (["bench_noise"], False, False, "1"),
    "hospital": (["bench_hospital"], False, False, "1"),
    "opacus": (["bench_opacus"], False, False, "1"),
    "budget-saved": (["bench_budget_saved"], False, False, "1"),
    "moments": (["bench_moments"], True, False, None),
    "hull-sizes": (["bench_hulls", "sizes"], False, False, "1"),
    "hull-oracle": (["bench_hulls", "oracle"], True, False, "1"),
    "hull-mnist": (["bench_hulls", "mnist", "growth"], True, False, None),
    "hull-rivals-digits": (["bench_hulls_rivals", "digits"], False, False, None),
    "hull-rivals-mnist": (["bench_hulls_rivals", "mnist"], True, False, None),
    "hull-gpu": (["bench_hulls_gpu"], True, True, None),
    "fabrication": (["bench_fabrication", "record", "learners", "local"], True, False, None),
    "fabrication-speed": (["bench_fabrication", "speed"], True, False, None),
    "fabrication-entry": (["bench_fabrication", "entry", "--device", "cuda"], True, True, None),
    "fabricated-tables": (["bench_fabricated_tables"], True, False, "1"),
    "fabricated-tries": (["bench_fabricated_tries"], True, False, "1"),
    "fabricated-peers": (["bench_fabricated_peers"], True, False, "1"),
    "fabrication-data": (["bench_fabrication_data"], True, False, None),
    "mappings": (["bench_mappings"], True, False, None),
    "transfer": (["bench_mappings_transfer"], True, False, None),
    "densities": (["bench_densities"], True, False, "1"),
    "functions": (["bench_functions"], False, False, "1"),
    "functions-utility": (["bench_functions_utility"], True, False, "1"),
    "densities-tries": (["bench_densities_tries"], True, False, "1"),
    "persons": (["bench_persons"], True, False, "1"),
    "engines-memory": (["bench_engines", "memory"], False, False, "1"),
    "engines-cluster": (["bench_engines", "cluster"], False, False, "1"),
    "engines-bits": (["bench_engines_bits"], False, False, "1"),
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
            *("--features", "mirrored", "random-process", "--ablation", "best without patches"),
            *("best without scattering", "best without net", "patches"),
            *("--name", "margins_frontier_cifar_parts"),
        ],
        True,
        False,
        None,
    ),
    "frontier-tries": (["bench_frontier_tries"], True, True, None),
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
    "linear-growth": (["bench_growth"], True, False, "1"),
    "margins": (["bench_margins"], True, False, "1"),
    "margins-peers": (["bench_margins_peers"], True, False, None),
    "large-margin": (["bench_large_margin"], True, False, "1"),
    "federated": (["bench_federated"], True, False, None),
    "parties": (["bench_parties"], True, False, None),
    "tables": (["bench_tables"], False, False, "1"),
    "tables-models": (["bench_tables_models"], True, False, "1"),
    "table-models": (["bench_table_models"], False, False, "1"),
    "table-promises": (["bench_table_promises"], True, False, "1"),
    "linear-regressor": (["bench_linear_regressor"], True, False, "1"),
    "fuzzed-tables": (["bench_fuzzed_tables"], False, False, "1"),
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
    "faults": (["bench_faults"], False, False, "1"),
    "service": (["bench_service"], False, False, "1"),
    "service-walk": (["bench_service_walk"], False, False, "1"),
    "auditing": (["bench_auditing", "density", "power", "matches"], True, False, "1"),
    "auditing-peers": (["bench_auditing_peers"], False, False, "1"),
    "peers": (["bench_peers"], True, False, "1"),
    "auditing-scores": (["bench_auditing", "scores", "--device", "cuda"], True, True, None),
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
    """Say what this machine does not have for a benchmark."""
    _, needs_data, needs_gpu, _ = BENCHMARKS[name]
    wanted = ["SFUMATO_DATA"] * needs_data + ["SFUMATO_TABLES"] * (name == "curves")
    for variable in wanted:
        if variable not in os.environ:
            return f"{variable} is not set"
    return "no GPU" if needs_gpu and not has_gpu() else None


def run_all(names: list[str], seconds: float | None = None) -> list[dict[str, Any]]:
    """Run benchmarks one after the other; give for each how it ended and after how long."""
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


def keep_times(rows: list[dict[str, Any]], seconds: float) -> None:
    """Keep how long quick runs took, beside those of other names."""
    path = RESULTS / "quick_runs.json"
    kept = json.loads(path.read_text())["numbers"]["rows"] if path.is_file() else []
    found = {row["name"]: row for row in [*kept, *rows]}
    ordered = [found[name] for name in BENCHMARKS if name in found]
    write("quick_runs", {"rows": ordered}, seed=None, cut_off_after_s=round(seconds, 1))


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description="Run the benchmarks.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="all, unless named")
    parser.add_argument("--quick", action="store_true", help="cut each off; keep no numbers")
    parser.add_argument(
        "--seconds", type=float, default=QUICK_SECONDS, help="of each, with --quick"
    )
    parser.add_argument(
        "--keep-times", action="store_true", help="with --quick, keep how long each ran"
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
        if asked.keep_times:
            keep_times(rows, asked.seconds)
    else:
        rows = run_all(names)
        rebuild()
        rebuild_reproductions()
    if failed := [row["name"] for row in rows if row["ended"] == FAILED]:
        raise SystemExit(f"These benchmarks failed: {', '.join(failed)}.")


if __name__ == "__main__":
    main()
