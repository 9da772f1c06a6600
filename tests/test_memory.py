"""Memory is asked for before a ledger is charged; what fails after the charge leaves it whole."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import sfumato
from sfumato import (
    Bounds,
    Ledger,
    PrivateGaussianClassifier,
    PrivateLargeMarginGaussianClassifier,
    PrivateLinearClassifier,
    PrivatePCA,
)
from sfumato.audit.testing import seeded_noise
from sfumato.audit.testing.inspection import leaves
from sfumato.models.curves import PrivateMeanCurve
from sfumato.models.kernel import PrivateKernelClassifier
from tests.storage.stored_models import MODELS
from tests.test_common import CASES

BOX = Bounds(lower=0.0, upper=1.0, labels=[0, 1, 2])
PRIVATE = {"epsilon": 1.0, "delta": 1e-4, "bounds": BOX}

WIDE = """
import json, resource, sys, warnings
import numpy as np
import sfumato
from sfumato import Bounds, Ledger
from sfumato.exceptions import NotEnoughMemoryError
warnings.simplefilter("ignore")
resource.setrlimit(resource.RLIMIT_AS, (4 * 10**9, 4 * 10**9))
X = np.random.default_rng(0).uniform(size=(20, 100_000))
y = np.arange(20) % 2
box = Bounds(lower=0.0, upper=1.0, labels=[0, 1])
found = {}
for number, (name, options) in enumerate(json.loads(sys.argv[2])):
    budget = Ledger(sys.argv[1]).create(f"wide {number}", epsilon=100.0, delta=1e-3)
    model = getattr(sfumato, name)(epsilon=1.0, delta=1e-4, bounds=box, ledger=budget, **options)
    try:
        model.fit(X, y)
        outcome = "fitted"
    except NotEnoughMemoryError as error:
        outcome = "refused"
    except Exception as error:
        outcome = repr(error)[:200]
    found[f"{name} {options}"] = [outcome, len(budget.events())]
print(json.dumps(found))
"""
ESTIMATORS: list[tuple[str, dict[str, Any]]] = [
    ("PrivatePCA", {}),
    ("PrivateMoments", {}),
    ("PrivateGaussianClassifier", {}),
    ("PrivateGaussianClassifier", {"n_components": None}),
    ("PrivateGaussianClassifier", {"relation": "add_or_remove_one"}),
    ("GaussianFabricator", {}),
    ("PrivateAffineHullClassifier", {}),
    ("PrivateTransferClassifier", {}),
    ("PrivateLargeMarginGaussianClassifier", {}),
    ("PrivateLargeMarginGaussianClassifier", {"n_components": 5}),
    ("PrivateLinearClassifier", {"n_components": 5}),
    ("PrivateLinearClassifier", {"n_steps": 2}),
]


def test_what_memory_cannot_hold_is_refused_before_the_charge(tmp_path):
    """20 rows of 100,000 numbers under 4 GB: six estimators used to charge and then die."""
    command = [sys.executable, "-c", WIDE, str(tmp_path / "l.db"), json.dumps(ESTIMATORS)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(run.stdout.splitlines()[-1])
    charged_and_failed = {k: v for k, v in found.items() if v[1] and v[0] != "fitted"}
    assert not charged_and_failed
    assert {outcome for outcome, _ in found.values()} <= {"fitted", "refused"}
    assert sum(outcome == "refused" for outcome, _ in found.values()) >= 10
    assert found["PrivateLinearClassifier {'n_steps': 2}"][0] == "fitted"  # it needs no matrix


# Every allocation fails once ------------------------------------------------------------------

ALLOCATING = ("array", "asarray", "column_stack", "concatenate", "empty", "eye", "ones", "zeros")


class FailingOnce:
    """NumPy's functions that allocate, of which the call number `fails` finds no memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fails: int) -> None:
        self.calls, self.fails = 0, fails
        for name in ALLOCATING:
            monkeypatch.setattr(np, name, self._counted(getattr(np, name)))

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **options: Any) -> Any:
            if sys._getframe(1).f_globals.get("__name__", "").startswith("sfumato."):
                self.calls += 1
                if self.calls == self.fails:
                    raise MemoryError
            return function(*args, **options)

        return counted


@pytest.mark.parametrize(
    "model",
    [
        PrivatePCA(2, **PRIVATE),
        PrivateGaussianClassifier(2, **PRIVATE),
        PrivateLinearClassifier(n_steps=2, **PRIVATE),
    ],
    ids=lambda model: type(model).__name__,
)
def test_every_allocation_that_fails_leaves_all_or_nothing(tmp_path, monkeypatch, model):
    """What is left: nothing charged; or all of it charged, nothing released, and no promise."""
    X, y = np.random.default_rng(0).uniform(size=(40, 4)), np.arange(40) % 3
    with monkeypatch.context() as patch:
        allocations = FailingOnce(patch, 0)
        model.fit(X, y)
    full, n_calls = len(model.guarantee_.events), allocations.calls
    ledger = Ledger(tmp_path / "l.db")
    left = {"nothing charged": 0, "charged, nothing released": 0}
    for fails in range(1, n_calls + 1, max(1, n_calls // 25)):
        model.ledger = ledger.create(f"{fails}", epsilon=100.0, delta=1e-3)
        with monkeypatch.context() as patch:
            FailingOnce(patch, fails)
            with pytest.raises(MemoryError):
                model.fit(X, y)
        spent = model.ledger.events()
        assert len(spent) in (0, full)
        left["charged, nothing released" if spent else "nothing charged"] += 1
        if spent:
            assert not hasattr(model, "guarantee_")
    assert all(left.values()), left
    Ledger(tmp_path / "l.db").verify()
    model.ledger = None
    assert model.fit(X, y).guarantee_.epsilon == 1.0  # it works again


# Single precision -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", [f"{name}-0" for name in CASES])
def test_rows_of_single_precision_give_the_same_bits_as_doubles(name):
    estimator, (rows, *others) = MODELS[name]
    found = []
    for dtype in (np.float32, np.float64):
        given = rows.astype(np.float32).astype(dtype)
        with seeded_noise(0), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(clone(estimator).fit(given, *others))
    for before, after in zip(leaves(found[0]), leaves(found[1]), strict=True):
        np.testing.assert_array_equal(before[1], after[1])


BLOCKS = {  # made small, so that what is left grows with the rows
    "sums.records.CACHED_ROWS": 64,
    "sums.records.HELD_ROWS": 256,
    "papers.large_margin.private.BLOCK": 64,
    "models.solvers.BLOCK": 2**12,
    "models.solvers.KEPT": 0,
    "models.features.BLOCK": 2**12,
    "papers.large_margin.ellipsoids.BLOCK": 256,
    "papers.large_margin.ellipsoids.GROUP": 2,
    "papers.large_margin.ellipsoids.MAX_CACHED": 0,
}
UNLABELLED = {**PRIVATE, "bounds": Bounds(lower=0.0, upper=1.0)}
NOISELESS = {**PRIVATE, "epsilon": np.inf}  # calibrated in no time
SLIM = [
    PrivateLinearClassifier(n_steps=1, **PRIVATE),
    PrivateGaussianClassifier(5, **PRIVATE),
    PrivatePCA(5, **PRIVATE),
    PrivateKernelClassifier(n_fourier=32, **PRIVATE),
    PrivateLargeMarginGaussianClassifier(5, regularization=100.0, **NOISELESS),
    PrivateMeanCurve(**UNLABELLED),
    sfumato.GaussianFabricator(n_components=5, **PRIVATE),
    sfumato.PrivateTransferClassifier(n_components=5, **PRIVATE),
]


def peak_of_fit(model: Any, X: np.ndarray) -> int:
    y = None if model.bounds.labels is None else np.arange(len(X)) % 3
    tracemalloc.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("model", SLIM, ids=lambda model: type(model).__name__)
def test_a_fit_takes_little_more_than_its_rows(monkeypatch, model, dtype):
    """The linear classifier took 4 to 5 times its rows, and 10 times those of single precision."""
    for name, size in BLOCKS.items():
        monkeypatch.setattr(f"sfumato.{name}", size)
    X = np.random.default_rng(0).uniform(size=(2_500, 20)).astype(dtype)
    peak_of_fit(model, X[:300])  # what is imported or cached once is not counted
    few = X[:1000]
    grows = peak_of_fit(model, X) - peak_of_fit(model, few)
    assert grows / (X.nbytes - few.nbytes) <= 1.5


@pytest.mark.parametrize(
    "model",
    [
        PrivateLinearClassifier(n_steps=2, relation="add_or_remove_one", **PRIVATE),
        PrivateLargeMarginGaussianClassifier(3, relation="add_or_remove_one", **PRIVATE),
    ],
    ids=lambda model: type(model).__name__,
)
def test_short_memory_changes_the_time_and_nothing_else(monkeypatch, model):
    """What is kept to save time is computed anew: no error tells of a secret number of rows."""
    X, y, found = np.random.default_rng(0).uniform(size=(500, 5)), np.arange(500) % 3, []
    for free in (1e12, 1e6):
        monkeypatch.setattr("sfumato.sums.grid.SMALL_BYTES", 0)
        monkeypatch.setattr("sfumato.sums.grid.fits_in_memory", lambda n, f=free: n <= f / 1e3)
        with seeded_noise(0):
            found.append(model.fit(X, y).decision_function(X))
    np.testing.assert_array_equal(*found)
