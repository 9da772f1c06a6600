"""The finite way out: plain numbers, any number of questions, one charge before the draw."""

import json
import math

import numpy as np
import pytest

from sfumato import Bounds, Ledger
from sfumato.exceptions import BudgetExceededError, InvalidInputError
from sfumato.mechanisms import GaussianProcessMechanism
from sfumato.mechanisms.base import taped
from sfumato.mechanisms.entropy import drawing_from, seeded
from sfumato.models.functions import (
    FourierFeatures,
    KnotFeatures,
    ReleasedFunction,
    TaylorFeatures,
    release_function,
)
from sfumato.models.functions.periodic import PeriodicFeatures
from sfumato.models.kernels import ExponentialKernel, GaussianKernel, KernelExpansion

UNIT = Bounds(lower=0.0, upper=1.0)
KERNEL = GaussianKernel(0.2)


def calibrate(epsilon=1.0):
    return GaussianProcessMechanism.calibrate(sensitivity=0.01, epsilon=epsilon, delta=1e-5)


def density(rng, outputs=None):
    weights = np.full(200, 1 / 200) if outputs is None else rng.uniform(size=(200, outputs)) / 200
    return KernelExpansion(KERNEL, rng.uniform(size=(200, 1)), weights)


def release(f, **options):
    options = {"kernel": KERNEL, "mechanism": calibrate(), "domain": UNIT} | options
    return release_function(f, form="features", **options)


def test_without_noise_it_is_the_function(rng):
    x = rng.uniform(size=(50, 1))
    for f in (density(rng), density(rng, outputs=3)):
        released = release(f, mechanism=calibrate(math.inf))
        np.testing.assert_allclose(released(x), f(x), atol=1e-12)


def test_noise_on_the_function_is_that_of_its_coordinates(rng):
    f = density(rng)
    with seeded(0), taped() as tape:
        released = release(f)
    (entry,) = tape.releases
    assert entry.statistic.shape == (released.features.size,)
    x = rng.uniform(size=(20, 1))
    moved = released.features.transform(x) @ (entry.output - entry.statistic)
    np.testing.assert_allclose(released(x) - f(x), moved, atol=1e-9)
    with taped(playback=tape):
        again = release(density(rng))  # other rows, the same released values
    assert (again(x) == released(x)).all()


def test_it_answers_without_state_and_comes_back_from_plain_values(rng):
    released = release(density(rng))
    x = rng.uniform(size=(20, 1))
    told = released(x)
    assert (released(x) == told).all()
    plain = json.loads(json.dumps(released.to_dict(), default=np.ndarray.tolist))
    for record in (released.to_dict(), plain):
        assert (ReleasedFunction.from_dict(record)(x) == told).all()
    size = released.features.size
    assert repr(released) == f"ReleasedFunction({size} coordinates, status 'conditional')"


def test_no_raw_row_is_kept(rng):
    f = density(rng)
    released = release(f)
    kept = json.dumps(released.to_dict(), default=np.ndarray.tolist)
    assert not any(repr(float(row[0])) in kept for row in f.centres)


def test_any_function_on_public_knots(rng):
    kernel = ExponentialKernel(3.0)
    knots = KnotFeatures(kernel, np.linspace(0, 1, 100))
    released = release(
        lambda X: X[:, 0] ** 2, kernel=kernel, features=knots, mechanism=calibrate(math.inf)
    )
    x = rng.uniform(size=30)
    np.testing.assert_allclose(released(x), x**2, atol=2e-3)


@pytest.mark.parametrize(
    ("features", "kernel", "word"),
    [
        (KnotFeatures(GaussianKernel(0.3), np.linspace(0, 1, 40)), KERNEL, "another kernel"),
        (KnotFeatures(KERNEL, np.linspace(0, 1, 40)), ExponentialKernel(20.0), "another kernel"),
        (TaylorFeatures(GaussianKernel(0.3), UNIT, 1), KERNEL, "another kernel"),
        (PeriodicFeatures(GaussianKernel(0.3), UNIT, 1), KERNEL, "another kernel"),
        (TaylorFeatures(GaussianKernel(0.3), UNIT, 1), GaussianKernel(0.3), "expansion of another"),
        (FourierFeatures(KERNEL, 100, n_features=1), KERNEL, "kernel of their own"),
    ],
)
def test_features_of_another_space_are_refused(tmp_path, rng, features, kernel, word):
    """Coordinates in one space may move far more than a sensitivity stated in another."""
    budget = Ledger(tmp_path / "budget.db").create("rows", epsilon=1.0, delta=1e-5)
    with pytest.raises(InvalidInputError, match=word):
        release_function(
            density(rng),
            form="features",
            kernel=kernel,
            features=features,
            mechanism=calibrate(),
            domain=UNIT,
            ledger=budget,
        )
    assert budget.events() == ()


def test_why_another_space_is_refused(rng):
    """Two neighbours, features of another kernel: seven times the stated sensitivity."""
    rows = rng.uniform(size=(100, 1))
    other = rows.copy()
    other[0] = 1 - rows[0]
    kernel = ExponentialKernel(20.0)
    knots = np.linspace(0, 1, 40)[:, None]
    stated = math.sqrt(2) / 100

    def moved(of):
        features, weights = KnotFeatures(of, knots), np.full(100, 1 / 100)
        here, there = (KernelExpansion(kernel, r, weights) for r in (rows, other))
        return np.linalg.norm(features.coordinates(here) - features.coordinates(there))

    assert moved(kernel) <= stated < moved(GaussianKernel(0.3)) / 5


def test_charged_before_the_draw(tmp_path, rng):
    budget = Ledger(tmp_path / "budget.db").create("rows", epsilon=1.0, delta=1e-5)
    f = density(rng)
    release(f, ledger=budget)
    assert budget.events() == (calibrate().event(),)

    def no_words(count):
        raise AssertionError("noise was drawn")

    for how in ("features", "batch"):
        with drawing_from(no_words), pytest.raises(BudgetExceededError):
            release_function(
                f,
                kernel=KERNEL,
                mechanism=calibrate(),
                form=how,
                points=[0.5],
                domain=UNIT,
                ledger=budget,
            )


def test_seeded_noise_is_marked(rng):
    with seeded(0):
        assert release(density(rng)).status == "testing"
    # Sensitivity and rounding of f are the caller's word.
    assert release(density(rng)).status == "conditional"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"domain": None}, "domain"),
        ({"kernel": ExponentialKernel(1.0)}, "KnotFeatures"),
        ({"kernel": GaussianKernel(0.3)}, "KnotFeatures"),
    ],
)
def test_what_cannot_be_released(options, message, rng):
    with pytest.raises(InvalidInputError, match=message):
        release(density(rng), **options)
