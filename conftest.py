"""Which tests run where, and a count of those that were skipped.

Tests that need more than Python are in a group, by marker: `torch`, `browser`, `servers`, `spark`.
Without what they need they are skipped. SFUMATO_REQUIRE names groups that must run
("torch,browser"): then a skipped test of theirs, or none that ran, is a failure.

Every test and every shared fixture draws its noise by its own name, so equal code gives equal
verdicts, in any order and on any number of workers. SFUMATO_FRESH=1 leaves the operating system's.
"""

from __future__ import annotations

import gc
import os
import random
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parent
GROUPS = ("torch", "browser", "servers", "spark")
ON_GPU = ("cuda", "on_gpu")  # import PyTorch too, if only to see that there is no device
# What `make check` runs: a minute of two cores. All other modules are marked `slow`.
QUICK = (
    "tests/ledger/test_ledger.py",
    "tests/ledger/test_ledger_chain.py",
    "tests/models/test_features.py",
    "tests/models/test_least_squares.py",
    "tests/mechanisms/test_mechanisms.py",
    "tests/models/test_moments.py",
    "tests/sums/test_persons.py",
    "tests/sums/test_sums.py",
    "tests/sums/test_terms.py",
    "tests/test_architecture.py",
    "tests/core/test_atomic_file.py",
    "tests/test_bounds.py",
    "tests/privacy/test_guarantee.py",
    "tests/test_public_api.py",
)


collect_ignore_glob = [] if find_spec("flwr") else ["src/sfumato/federated/flower.py"]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import slow modules where they are left out."""
    if "not slow" not in config.option.markexpr or collection_path.is_dir():
        return None
    return not collection_path.relative_to(ROOT).as_posix().startswith(QUICK) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of slow modules, and begin with those that wait for servers.

    One worker has all tests of PyTorch, so that no other must import it.
    """
    for item in items:
        if not item.nodeid.startswith(QUICK):
            item.add_marker("slow")
        if item.get_closest_marker("torch") or any(word in item.nodeid for word in ON_GPU):
            item.add_marker(pytest.mark.xdist_group("torch"))
    items.sort(key=lambda item: item.get_closest_marker("servers") is None)


def pytest_collection_finish() -> None:
    """Take what was imported out of the garbage collector's walks: a tenth of all CPU time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


# Noise ------------------------------------------------------------------------------------------

FRESH = bool(os.environ.get("SFUMATO_FRESH"))
PROCESS = os.getpid()
streams = [random.Random(0)]  # noqa: S311 - reproducible, on purpose


def _random_bytes(count: int) -> bytes:
    """Stand in for `os.urandom`; a forked child draws what the operating system gives."""
    return os.urandom(count) if os.getpid() != PROCESS else streams[-1].randbytes(count)


def _draw_by(name: str) -> random.Random:
    """Return the noise of a name; the last stream stands for the operating system."""
    if not FRESH and (entropy := sys.modules.get("sfumato.mechanisms.entropy")) is not None:
        entropy.os = SimpleNamespace(urandom=_random_bytes)  # type: ignore[attr-defined]
    named = f"{os.environ.get('SFUMATO_SEEDS', '')} {name.partition('@')[0]}"
    return random.Random(named)  # noqa: S311


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin the noise of a test."""
    streams[:] = [_draw_by(item.nodeid)]


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Iterator[None]:
    """Draw the noise of a shared fixture apart from that of the test which happens to need it."""
    if fixturedef.scope == "function":
        return (yield)
    number = getattr(request, "param_index", 0)
    streams.append(_draw_by(f"{fixturedef.baseid} {fixturedef.argname} {number}"))
    try:
        return (yield)
    finally:
        streams.pop()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail where a required group did not run."""
    gc.unfreeze()
    if _failures_to_run(session.config) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Count skipped tests by reason, after everything else."""
    reasons = Counter(_reason(report) for report in _reports(config, "skipped"))
    if reasons:
        listed = "; ".join(f"{count} × {reason}" for reason, count in reasons.most_common())
        terminalreporter.write_line(f"Skipped {reasons.total()}: {listed}")
    for sentence in _failures_to_run(config):
        terminalreporter.write_line(sentence, red=True)


def _failures_to_run(config: pytest.Config) -> list[str]:
    asked = os.environ.get("SFUMATO_REQUIRE", "")
    required = [group for group in asked.replace(",", " ").split() if group]
    if not required or config.option.collectonly or hasattr(config, "workerinput"):
        return []
    found = [f"'{group}' is no group of tests." for group in required if group not in GROUPS]
    for group in required:
        skipped = [r for r in _reports(config, "skipped") if group in getattr(r, "keywords", ())]
        if skipped:
            found.append(f"{len(skipped)} tests of the group '{group}' were skipped.")
        elif not any(group in report.keywords for report in _reports(config, "passed")):
            found.append(f"No test of the group '{group}' ran.")
    return found


def _reports(config: pytest.Config, outcome: str) -> list[Any]:
    reporter: Any = config.pluginmanager.getplugin("terminalreporter")
    return [] if reporter is None else list(reporter.stats.get(outcome, []))


def _reason(report: Any) -> str:
    where = report.longrepr
    text = where[2] if isinstance(where, tuple) else str(where)
    return str(text).removeprefix("Skipped: ")
