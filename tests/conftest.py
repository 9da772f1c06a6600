"""Data, seeds and read-only arrays shared by the tests."""

from __future__ import annotations

import gc
import multiprocessing
import os
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from sklearn.datasets import load_digits

from sfumato.audit.testing import seeded_noise

# No test asserts a time, and equal runs give equal verdicts.
settings.register_profile("sfumato", deadline=None, derandomize=True)
settings.load_profile("sfumato")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One seed here, a range of them when SFUMATO_SEEDS asks ("0-99"): no test may be lucky."""
    if "seed" in metafunc.fixturenames:
        first, _, last = os.environ.get("SFUMATO_SEEDS", "42").partition("-")
        metafunc.parametrize("seed", range(int(first), int(last or first) + 1))


@pytest.fixture(scope="module", autouse=True)
def _freeze() -> None:
    """Spare the garbage collector what was imported: half of the time would go into walking it."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def noise(seed: int) -> Iterator[None]:
    """Noise by the seed: for tests of utility, whose verdict a lucky draw could decide."""
    with seeded_noise(seed):
        yield


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture(scope="session")
def digits() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    X, y = X / 16.0, y.astype(np.int64)
    X.flags.writeable = y.flags.writeable = False
    return X, y


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data sets, where there is one."""
    folder = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("no real data sets: set SFUMATO_DATA to their folder")
    return folder


SECONDS = 900  # a busy machine is waited for
# Headless, as root too, and silent: a browser that is looked through asks nobody anything.
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A Chromium of this machine, or the one that playwright has fetched."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    system = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    with playwright.sync_playwright() as driver:
        try:
            found = driver.chromium.launch(
                executable_path=system, args=CHROMIUM_FLAGS, timeout=SECONDS * 1000
            )
        except playwright.Error:
            pytest.skip(
                "no Chromium: make test-browser fetches one (Debian: apt-get install chromium)"
            )
        open_context = found.new_context

        def patient(**options: Any) -> Any:
            context = open_context(**options)
            context.set_default_timeout(SECONDS * 1000)
            return context

        found.new_context = patient
        yield found
        found.close()


def _report(call: Any, answers: Any) -> None:
    try:
        answers.put(repr(call()))
    except Exception as error:
        answers.put(f"{type(error).__name__}: {error}")


@pytest.fixture
def start_child() -> Any:
    """Start a function in a forked child and return the process."""
    context = multiprocessing.get_context("fork")

    def start(target: Any, *args: Any) -> Any:
        child = context.Process(target=target, args=args)
        with warnings.catch_warnings():  # newer Pythons warn of forks beside the runner's threads
            warnings.simplefilter("ignore", DeprecationWarning)
            child.start()
        return child

    return start


@pytest.fixture
def in_child(start_child: Any) -> Any:
    """Run a call in a forked child; return the repr of its result, or its error as text."""

    def run(call: Any) -> Any:
        answers = multiprocessing.get_context("fork").SimpleQueue()
        child = start_child(_report, call, answers)
        answer = answers.get()
        child.join()
        return answer

    return run
