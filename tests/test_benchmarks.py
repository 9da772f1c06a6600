"""Every number in the benchmark page comes from a kept JSON."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

SECONDS_EACH = "0.4"  # of CPU, so that a busy machine changes nothing
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
# What a benchmark may lack here: data sets, a GPU, packages of others.
NOT_HERE = ("SFUMATO_DATA", "FileNotFoundError", "CUDA", "ModuleNotFoundError")
TIME_WAS_UP = ("SIGXCPU", "SIGKILL")  # of a process that the script had started
REPRODUCTIONS = "reproduce_"  # shown on a page of their own


def test_the_page_is_what_the_results_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = pytest.importorskip("benchmarks.pages")
    kept = page_of(pages.RESULTS.parent)
    results = tmp_path / "results"
    results.mkdir()
    for path in pages.RESULTS.glob("*.json"):
        (results / path.name).write_text(path.read_text())
    monkeypatch.setattr(pages, "RESULTS", results)
    pages.rebuild()
    assert page_of(tmp_path) == kept
    drawn = re.findall(r"\]\((charts/[\w.-]+)\)", kept["README.md"])
    assert set(drawn) == {name for name in kept if name.startswith("charts/")}


def page_of(folder: Path) -> dict[str, str]:
    """Return the page and the charts of a folder by their paths."""
    paths = [folder / "README.md", *folder.glob("charts/*.svg")]
    return {str(path.relative_to(folder)): path.read_text() for path in paths}


def test_bars_of_losses_go_left() -> None:
    plots = pytest.importorskip("benchmarks.plots")
    drawn = plots.ratios("t", [("won", [4.0]), ("lost", [0.25])], ["better by"])
    assert "1 of 2 rows" in drawn
    lines = [float(x) for x in re.findall(r'<line x1="([\d.]+)"', drawn)]
    (won, _), (lost, width) = (
        (float(x), float(wide))
        for x, wide in re.findall(r'<rect x="([\d.]+)".*?width="([\d.]+)"', drawn)
    )
    assert won == pytest.approx(lines[0])
    assert lost + width == pytest.approx(lines[1])


def test_every_result_is_shown() -> None:
    pages = pytest.importorskip("benchmarks.pages")
    paths = pages.RESULTS.glob("*.json")
    kept = {path.stem for path in paths if not path.stem.startswith(REPRODUCTIONS)}
    assert kept == pages.SHOWN


def test_ratios_above_one_are_in_our_favour() -> None:
    rows = pytest.importorskip("benchmarks.peers.rows")
    few, many = {"value": 0.9, "cpu_s": 1.0}, {"value": 0.8, "cpu_s": 3.0}
    accuracy = rows.ratios("accuracy", rows.HIGHER, few, many)
    assert accuracy == {"times_better": 2.0, "times_faster": 3.0}
    assert rows.ratios("error", rows.LOWER, many, few)["times_better"] == pytest.approx(1.125)
    draws = rows.ratios("million draws a CPU second", rows.HIGHER, {"value": 8.0}, {"value": 2.0})
    assert draws == {"times_better": 4.0, "times_faster": None}
    silent = rows.ratios("accuracy", rows.HIGHER, few, {"failed": "no answer"})
    assert silent == {"times_better": None, "times_faster": None}


def test_kept_ratios_follow_from_kept_values() -> None:
    rows = pytest.importorskip("benchmarks.peers.rows")
    pages = pytest.importorskip("benchmarks.pages")
    record = json.loads((pages.RESULTS / "peers.json").read_text())
    assert record["numbers"]
    for row in record["numbers"]:
        found = rows.ratios(row["measure"], row["better"], row["ours"], row["peer"])
        assert {name: row[name] for name in found} == found


def test_marginals_and_bins_of_synthetic_tables() -> None:
    tables = pytest.importorskip("benchmarks.peers.tables")
    rng = np.random.default_rng(0)
    codes = np.column_stack([rng.integers(0, size, 500) for size in tables.sizes()])
    np.testing.assert_array_equal(tables.codes(tables.decoded(codes)), codes)
    assert tables.marginal_errors(codes, codes) == (0.0, 0.0)
    zeros, ones = (np.full((3, len(tables.sizes())), value) for value in (0, 1))
    assert tables.marginal_errors(zeros, ones) == (1.0, 1.0)
    half = np.concatenate([zeros, ones])  # both columns of a pair change together
    assert tables.marginal_errors(half, zeros) == pytest.approx((0.5, 0.5))


def test_a_package_that_is_nowhere_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asking = pytest.importorskip("benchmarks.peers.asking")
    monkeypatch.setenv("SFUMATO_PEERS_PYTHON", sys.executable)
    assert asking.python_with("numpy") == sys.executable
    assert asking.ask("no_such_package", "mean", epsilon=1.0) is None
    assert "no_such_package: passed over" in capsys.readouterr().err


def test_a_peer_that_fails_or_hangs_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = pytest.importorskip("benchmarks.peers.asking")
    (tmp_path / "from_numpy.py").write_text("raise OverflowError('too many columns')")
    (tmp_path / "from_scipy.py").write_text("import time\ntime.sleep(60)")
    monkeypatch.setattr(asking, "SCRIPTS", tmp_path)
    failed = asking.ask("numpy", "pca", epsilon=1.0, X=np.zeros((2, 2)))
    assert failed == {"version": version("numpy"), "failed": "OverflowError: too many columns"}
    assert asking.ask("scipy", "pca", epsilon=1.0, limit=1.0)["failed"] == "no answer in 1 s"


# Imports everything once; then each script is run by a child, for CPU seconds of its own.
BEGINS = """
import importlib, io, os, resource, runpy, signal, sys, traceback
for module in sys.argv[3].split():
    try:
        importlib.import_module(f"benchmarks.{module}")
    except ModuleNotFoundError as error:  # of another package, a peer say
        assert error.name.partition(".")[0] not in ("sfumato", "benchmarks"), (module, error)
for line in sys.argv[4:]:
    child = os.fork()
    if child == 0:
        os.setsid()
        sys.stdout = sys.stderr = io.StringIO()
        signal.setitimer(signal.ITIMER_PROF, float(sys.argv[1]))  # ends it by a signal
        signal.alarm(int(sys.argv[2]))  # where it waits for others
        module, *sys.argv[1:] = line.split()
        code = 0
        try:
            runpy.run_module(f"benchmarks.{module}", run_name="__main__", alter_sys=True)
        except BaseException as error:
            code = 1 if getattr(error, "code", 1) else 0
            words = traceback.format_exc().strip().rpartition("\\n")[2]
            code and os.write(1, f"{line}: {words}\\n".encode())
        os._exit(code)
    os.waitpid(child, 0)
    try:
        os.killpg(child, signal.SIGKILL)  # with all that the script has started
    except ProcessLookupError:
        pass
"""


def test_every_benchmark_begins_its_work(tmp_path: Path) -> None:
    """Each script is run as `make bench` does, for some CPU seconds after its imports.

    One that ends early must end well, or ask for data that this machine does not have. What they
    do later `make bench-quick` finds out.
    """
    main = pytest.importorskip("benchmarks.__main__")
    scripts = {path.stem for path in Path(main.__file__).parent.glob("bench_*.py")}
    named = {module for (module, *_), *_ in main.BENCHMARKS.values()}
    assert named == scripts
    assert len(main.BENCHMARKS) * main.QUICK_SECONDS <= 3600
    (tmp_path / "results").mkdir()
    environment = os.environ | {"SFUMATO_RESULTS": str(tmp_path / "results"), **ONE_THREAD}
    environment["TMPDIR"] = str(tmp_path)  # what is left of a script goes with the test
    environment.setdefault("SFUMATO_DATA", str(tmp_path))
    started = {parts[0]: " ".join(parts) for parts, *_ in main.BENCHMARKS.values()}
    started.pop("bench_service")  # started by tests of the service
    told = subprocess.run(
        [sys.executable, "-c", BEGINS, SECONDS_EACH, "10", " ".join(scripts), *started.values()],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0, told.stderr
    assert not [
        line
        for line in told.stdout.splitlines()
        if not any(word in line for word in NOT_HERE + TIME_WAS_UP)
    ]


def test_a_quick_run_names_what_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    main = pytest.importorskip("benchmarks.__main__")
    slow = [sys.executable, "-c", "import time; time.sleep(600)"]
    assert main.run(slow, {}, 0.2) == "cut off"
    assert main.run([sys.executable, "-c", "raise SystemExit(1)"], {}, 600) == "failed"
    assert main.run([sys.executable, "-c", ""], {}, 600) == "finished"
    monkeypatch.delenv("SFUMATO_DATA", raising=False)
    row = {"name": "peers", "ended": "passed over, SFUMATO_DATA is not set"}
    assert main.run_all(["peers"], 1.0) == [row | {"wall_s": 0.0}]
