"""Gaussian process noise: calibration, the grid, one charge for many coordinates."""

import math

import numpy as np
import pytest
from scipy.stats import kstest

from sfumato.exceptions import InvalidInputError, LedgerError
from sfumato.ledger.receipt import prepay
from sfumato.mechanisms import GaussianMechanism, GaussianProcessMechanism
from sfumato.mechanisms.base import add_on_grid, to_grid
from sfumato.mechanisms.entropy import seeded
from sfumato.mechanisms.gaussian import SLACK, CoordinateNoise
from sfumato.papers.functions.printed import printed_mechanism
from sfumato.privacy.composition import epsilon_spent
from sfumato.privacy.events import GaussianEvent, NonPrivateEvent


def calibrate(**changes):
    budget = {"sensitivity": 1.0, "epsilon": 1.0, "delta": 1e-5} | changes
    return GaussianProcessMechanism.calibrate(**budget)


@pytest.mark.parametrize(
    ("epsilon", "delta", "ratio"),
    [(1, 0.1, 0.444), (1, 0.01, 0.577), (1, 1e-5, 0.755), (0.5, 0.1, 0.318), (0.1, 1e-5, 0.622)],
)
def test_analytic_noise_against_the_printed_one(epsilon, delta, ratio):
    analytic = calibrate(epsilon=epsilon, delta=delta)
    printed = printed_mechanism(1.0, epsilon, delta)
    assert printed.noise_multiplier == pytest.approx(math.sqrt(2 * math.log(2 / delta)) / epsilon)
    assert analytic.noise_multiplier / printed.noise_multiplier == pytest.approx(ratio, abs=1e-3)
    for mechanism in (analytic, printed):
        assert epsilon_spent([mechanism.event()], delta) <= epsilon


def test_known_multipliers():
    assert calibrate(delta=0.1).noise_multiplier == pytest.approx(1.0859, abs=1e-3)
    assert calibrate().noise_multiplier == pytest.approx(3.7306, abs=1e-3)
    assert calibrate(sensitivity=3.0).sensitivity == 3.0 * (1 + SLACK)


def test_any_epsilon_is_calibrated_and_the_printed_noise_is_refused_above_one():
    assert calibrate(epsilon=20.0).noise_multiplier < 1
    assert calibrate(epsilon=math.inf).event() == NonPrivateEvent()
    with pytest.raises(InvalidInputError, match="at most 1"):
        printed_mechanism(1.0, 1.01, 1e-5)
    with pytest.raises(InvalidInputError, match="at most 1"):
        printed_mechanism(1.0, math.inf, 1e-5)
    with pytest.raises(InvalidInputError, match="delta"):
        printed_mechanism(1.0, 1.0, 0.0)


def test_it_is_a_gaussian_mechanism_on_coordinates():
    mechanism = calibrate()
    assert isinstance(mechanism, GaussianMechanism)
    assert mechanism.event() == GaussianEvent(mechanism.noise_multiplier)
    with seeded(3):
        noise = mechanism.release(np.zeros((300, 10)), ledger=None)
    scale = math.sqrt(mechanism.variance())
    assert kstest(noise.ravel() / scale, "norm").pvalue > 1e-6
    assert kstest(noise.ravel() / scale / 1.5, "norm").pvalue < 1e-6


def test_coordinates_one_by_one_have_the_same_law(seed):
    mechanism = calibrate()
    noise = mechanism.noise(limit=2**30, ledger=None)
    assert noise.scale == pytest.approx(math.sqrt(mechanism.variance()), rel=2e-2)
    assert noise.scale > math.sqrt(mechanism.variance())  # the rounding is paid for
    with seeded(seed):
        drawn = [noise.add(7.0, one) - 7.0 for one in noise.draw(3000)]
    assert kstest(np.array(drawn) / noise.scale, "norm").pvalue > 1e-6
    assert kstest(np.array(drawn) / noise.scale / 1.2, "norm").pvalue < 1e-6


def test_coordinates_lie_on_the_grid_whatever_was_hidden(rng):
    noise = calibrate().noise(limit=2**30, ledger=None)
    for value in rng.normal(size=200) * 10.0 ** rng.uniform(-12, 3, 200):
        released = noise.add(float(value), noise.draw(1)[0])
        assert released / noise.step == round(released / noise.step)
        cells = noise.draw(1)
        as_array = add_on_grid(to_grid(np.array([value]), noise.step), np.array(cells), 1.0)
        assert noise.add(float(value), cells[0]) == as_array[0]


def test_without_noise_nothing_is_rounded():
    noise = calibrate(epsilon=math.inf).noise(limit=100, ledger=None)
    assert noise.draw(2) == [0.0, 0.0]
    assert noise.add(0.1, 0.0) == 0.1


def test_a_function_that_is_not_finite_is_refused():
    noise = CoordinateNoise(step=2.0**-20, scale=1.0)
    with pytest.raises(InvalidInputError, match="finite"):
        noise.add(math.nan, 0.0)


def test_one_charge_covers_every_coordinate_and_no_second_release():
    mechanism = calibrate()
    receipt = prepay(None, mechanism.event())
    mechanism.noise(limit=5, ledger=receipt)
    assert receipt.unused() == ()
    with pytest.raises(LedgerError):
        mechanism.noise(limit=5, ledger=receipt)
