"""Every number in the benchmark page comes from a kept JSON."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SECONDS_EACH = "0.1"  # of CPU, so that a busy machine changes nothing
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


def test_every_result_is_shown() -> None:
    pages = pytest.importorskip("benchmarks.pages")
    paths = pages.RESULTS.glob("*.json")
    kept = {path.stem for path in paths if not path.stem.startswith(REPRODUCTIONS)}
    assert kept == pages.SHOWN


def test_figures_of_pages_are_those_of_results() -> None:
    """And a digit that is changed in any line, or a figure of no result, is noticed."""
    figures = pytest.importorskip("benchmarks.figures")
    for page, lines in figures.PAGES.items():
        text = (figures.ROOT / page).read_text()
        assert figures.compare(page, text) == ([], []), page
        plain = figures.CODE.sub("", text).replace("**", "")
        for line in lines():
            wrong = re.sub(r"\d(?=\D*$)", lambda digit: str(9 - int(digit[0])), line)
            assert line in figures.compare(page, plain.replace(line, wrong))[0], line
        assert figures.compare(page, text + "\nreaches .987 there") == ([], [".987"])


def test_kept_ratios_follow_from_kept_values() -> None:
    rows = pytest.importorskip("benchmarks.peers.rows")
    pages = pytest.importorskip("benchmarks.pages")
    record = json.loads((pages.RESULTS / "peers.json").read_text())
    assert record["numbers"]
    for row in record["numbers"]:
        found = rows.ratios(row["measure"], row["better"], row["ours"], row["peer"])
        assert {name: row[name] for name in found} == found


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
