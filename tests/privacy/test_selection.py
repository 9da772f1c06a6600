"""The price of a search: exact laws, brute force, another library, and what it must not be."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.stats import norm

from sfumato.exceptions import InvalidInputError
from sfumato.mechanisms.entropy import seeded
from sfumato.mechanisms.selection import RunLaw
from sfumato.privacy.distributions import pld_delta, profile_masses
from sfumato.privacy.events import GaussianEvent, PureEvent, RepeatedEvent, SelectionEvent
from sfumato.privacy.renyi import (
    ORDERS,
    cut_probability,
    run_tails,
    selection_delta,
    selection_divergence,
    selection_epsilon,
    selection_mu,
    with_max_runs,
    worst_options,
)

LAWS = [
    ("poisson", 3.0, 0.0),
    ("poisson", 10.0, 0.0),
    ("negative_binomial", 10.0, 0.0),
    ("negative_binomial", 4.0, 1.0),
    ("negative_binomial", 6.0, -0.5),
    ("negative_binomial", 5.0, 3.0),
]


def search(event: Any, runs: str, mean: float, shape: float, cut: int | None = None) -> Any:
    return SelectionEvent(((event,),), runs, mean, shape, cut)


def run_probabilities(event: Any) -> np.ndarray:
    """Return P(K = 1), P(K = 2), ... as far as they matter."""
    tails = [Decimal(1), *run_tails(event, 100_000, 1e-20)]
    return np.array([float(before - after) for before, after in itertools.pairwise(tails)])


# Brute force -------------------------------------------------------------------------------------


def winners(law: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Return the exact law of the best of K, outputs in increasing order: f(Q<=y) - f(Q<y)."""
    below = np.concatenate([[0.0], np.cumsum(probabilities)]).clip(0, 1)
    k = np.arange(1, len(law) + 1)
    return np.diff([float(law @ q**k) for q in below])


def pairs(event: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return laws of one run on neighbours that use all of its epsilon, in several orders."""
    if isinstance(event, GaussianEvent):
        edges = np.linspace(-4, 4, 41)
        laws = [
            np.diff(norm.cdf(np.concatenate([[-np.inf], edges, [np.inf]]), centre))
            for centre in (0.0, 1 / event.noise_multiplier)
        ]
        return [(laws[0], laws[1]), (laws[1], laws[0])]
    kept = math.exp(event.epsilon)
    low = np.array([1.0, kept]) / (1 + kept)
    three = np.array([kept, 1.0, 1.0]) / (2 + kept)
    return [(low, low[::-1]), (low[::-1], low), (three, np.roll(three, 1)), (three, three[::-1])]


@pytest.mark.parametrize("event", [PureEvent(0.1), PureEvent(0.5), GaussianEvent(4.0)])
@pytest.mark.parametrize(("runs", "mean", "shape"), LAWS)
def test_no_search_costs_more_than_its_price(
    event: Any, runs: str, mean: float, shape: float
) -> None:
    price = search(event, runs, mean, shape)
    law = run_probabilities(price)[:4000]
    for p, q in pairs(event):
        winner, other = winners(law, p), winners(law, q)
        for epsilon in np.linspace(0, 2, 21):
            true = np.maximum(winner - math.exp(epsilon) * other, 0).sum()
            assert true <= selection_delta(price, float(epsilon)) + 1e-12
        a = ORDERS[::20]
        divergence = [math.log((winner**o * other ** (1 - o)).sum()) / (o - 1) for o in a if o < 50]
        assert (divergence <= selection_divergence(price)[::20][: len(divergence)] + 1e-9).all()


# Budgets -----------------------------------------------------------------------------------------


HEAVY = [("negative_binomial", 5.0, -0.9), ("negative_binomial", 10.0, -0.8)]
CUTS = [*LAWS, *HEAVY, ("negative_binomial", 3000.0, 0.5), ("negative_binomial", 40.0, 1e-30)]


def series(runs: str, mean: float, shape: float, cut: int) -> mpmath.mpf:
    """Return P(K > cut) to thirty digits, from the terms after the cut alone."""
    with mpmath.workdps(50):
        if runs == "poisson":
            rate = mpmath.findroot(lambda m: m / (1 - mpmath.exp(-m)) - mean, mean)
            return mpmath.gammainc(cut + 1, 0, rate, regularized=True) / (1 - mpmath.exp(-rate))
        eta = mpmath.mpf(shape)

        def gap(log: mpmath.mpf) -> mpmath.mpf:
            gamma = mpmath.exp(log)
            if eta == 0:
                return (1 / gamma - 1) / -log - mean
            return eta * (1 - gamma) / (gamma * (1 - mpmath.exp(eta * log))) - mean

        log = mpmath.findroot(gap, (-35, -0.1), solver="anderson", tol=1e-20, maxsteps=500)
        x, first = -mpmath.expm1(log), cut + 1
        weight = -log if eta == 0 else mpmath.expm1(-eta * log) / eta
        product = mpmath.gammaprod([first + eta], [1 + eta, first + 1])
        term = x**first * product / weight
        if x > 0.999:  # too many terms; their ratios are x (k + eta) / (k + 1)
            return term * mpmath.hyp2f1(1, first + eta, first + 1, x)
        total, k = mpmath.mpf(0), first
        while term > total * mpmath.mpf(10) ** -40:
            total += term
            term *= x * (k + eta) / (k + 1)
            k += 1
        return total


@pytest.mark.parametrize(("runs", "mean", "shape"), CUTS)
@pytest.mark.parametrize("cut", [1, 30, 2000, 100_000])
def test_the_tail_of_the_law_against_many_digits(runs, mean, shape, cut) -> None:
    """Never below, and above by rounding only: of the law, of its parameter, of 64 bits."""
    found = cut_probability(search(PureEvent(1.0), runs, mean, shape, cut))
    exact = series(runs, mean, shape, cut)
    assert exact * (1 - 1e-9) <= found <= exact * (1 + 1e-9) + cut * 2.0**-63


@pytest.mark.parametrize(("runs", "mean", "shape"), [LAWS[0], LAWS[4], HEAVY[1]])
def test_the_number_of_runs_that_is_drawn_has_the_law(runs, mean, shape, seed: int) -> None:
    """Six numbers of 20,000 draws, each beyond 5.5 deviations in one of 10⁷ runs."""
    law = RunLaw(search(PureEvent(1.0), runs, mean, shape, 12))
    with seeded(seed):
        numbers = np.array([law.number() for _ in range(20_000)])
    assert (numbers.min(), numbers.max()) == (1, 12)
    for cut in (1, 2, 3, 5, 8, 11):
        share = float(series(runs, mean, shape, cut))
        error = math.sqrt(share * (1 - share) / 20_000)
        assert abs(np.mean(numbers > cut) - share) < 5.5 * error


def test_heavy_tails_are_refused_and_not_forgotten() -> None:
    """Of a law that has 3e-6 beyond a hundred thousand runs, no cut may cost nothing."""
    for runs, mean, shape in HEAVY:
        law = search(GaussianEvent(1.0), runs, mean, shape)
        assert series(runs, mean, shape, 100_000) > 1e-6
        with pytest.raises(InvalidInputError, match="more than 100,000 runs"):
            with_max_runs(law, 1e-6, 1.0)
        with pytest.raises(InvalidInputError, match="largest value"):
            RunLaw(law).number()
        cut = search(GaussianEvent(9.0), runs, mean, shape, 100_000)
        assert selection_epsilon(cut, 1e-6) == math.inf
    assert cut_probability(search(GaussianEvent(9.0), "negative_binomial", 1e12, 1.0, 30)) == 1.0
    for mean, shape in ((100.0, -0.9), (1e9, 1.0), (1 + 1e-12, 0.0)):
        with pytest.raises(InvalidInputError, match="mean_runs"):
            with_max_runs(search(GaussianEvent(1.0), "negative_binomial", mean, shape), 1e-6, 1.0)


def test_of_many_options_the_worst_is_paid_for() -> None:
    options = tuple((GaussianEvent(s), RepeatedEvent(GaussianEvent(3 * s), 4)) for s in (8, 6, 9))
    (worst,) = worst_options(options)
    assert isinstance(worst[0], GaussianEvent)
    squares = 1 / 6**2 + 4 / 18**2
    assert math.isclose(worst[0].noise_multiplier, squares**-0.5, rel_tol=1e-12)
    for noises in np.random.default_rng(0).uniform(1, 50, (60, 3)).tolist():
        (((one,),)) = worst_options((tuple(map(GaussianEvent, noises)),))
        exact = sum(1 / Fraction(noise) ** 2 for noise in noises)
        assert 1 / Fraction(one.noise_multiplier) ** 2 >= exact
    mixed = worst_options((*options, (PureEvent(0.1),)))
    event = SelectionEvent(mixed, "poisson", 3.0)
    assert selection_epsilon(event, 1e-5) >= selection_epsilon(
        SelectionEvent((worst,), "poisson", 3.0), 1e-5
    )


@pytest.mark.parametrize(("runs", "mean", "shape"), LAWS)
def test_the_price_of_a_winner_is_that_of_the_theorems(
    runs: str, mean: float, shape: float
) -> None:
    """Theorems 2 and 6 of Papernot and Steinke for one Gaussian, in many digits."""
    mu, orders = mpmath.mpf("0.5"), [mpmath.mpf(float(order)) for order in ORDERS]
    one = [order * mu**2 / 2 for order in orders]
    if runs == "poisson":
        rate = mpmath.findroot(lambda r: r / (1 - mpmath.exp(-r)) - mean, mean)
        chosen = [mpmath.log(order / (order - 1)) for order in orders]
        extra = [
            rate * (mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu))
            for e in chosen
        ]
    else:

        def mean_of(stop: Any) -> Any:
            if shape == 0:
                return (1 / stop - 1) / mpmath.log(1 / stop)
            return shape * (1 - stop) / (stop * (1 - stop**shape))

        stop = mpmath.findroot(lambda g: mean_of(g) - mean, (1e-6, 0.999), solver="anderson")
        least = min(
            (1 - 1 / order) * each - mpmath.log(stop) / order
            for each, order in zip(one, orders, strict=True)
        )
        extra = [(1 + shape) * least] * len(orders)
    prices = [
        float(each + more + mpmath.log(mean) / (order - 1))
        for each, more, order in zip(one, extra, orders, strict=True)
    ]
    expected = np.minimum.accumulate(prices[::-1])[::-1]
    found = selection_divergence(search(GaussianEvent(2.0), runs, mean, shape))
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_the_curve_of_masses_is_nowhere_below() -> None:
    event = search(GaussianEvent(7.0), "poisson", 5.0, 0.0, 30)
    epsilons = np.arange(400) * 0.01
    deltas = np.array([selection_delta(event, float(e)) for e in epsilons])
    places, masses, infinite = profile_masses(epsilons, deltas)
    assert math.isclose(masses.sum() + infinite, 1.0, rel_tol=1e-9)
    hull = [infinite + masses @ np.maximum(0, 1 - np.exp(e - places)) for e in epsilons]
    # Not above the points, and convex: chords of points bound a convex curve.
    assert (np.array(hull) <= deltas + 1e-12).all()
    assert (np.diff(np.diff(hull) / np.diff(np.exp(epsilons))) > -1e-9).all()
    assert pld_delta({event: 1}, 1.0) >= hull[100] * (1 - 1e-6)


@pytest.mark.parametrize("epsilon", [50.0, 1e3, 1e6])
def test_large_budgets_are_no_error(epsilon: float) -> None:
    """Probes far beyond the budget would overflow; where K is cut, nothing is proved there."""
    event = SelectionEvent(((GaussianEvent(1.0),),), "poisson", 2.0, max_runs=30)
    mu = selection_mu(event, epsilon, 1e-3)
    found = SelectionEvent(((GaussianEvent(1 / mu),),), "poisson", 2.0, max_runs=30)
    assert selection_epsilon(found, 1e-3) <= epsilon
    assert selection_delta(found, 1e4) == 1.0


@pytest.mark.parametrize("max_runs", [10, 25])
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 5.0])
def test_the_cut_of_the_runs_costs_on_both_sides_of_the_inequality(
    max_runs: int, epsilon: float
) -> None:
    """The law that is drawn is off by tau under both neighbours: (1 + e^eps) tau is added."""
    event = search(GaussianEvent(4.0), "negative_binomial", 4.0, 1.0)
    tau = (1 - 1 / 4.0) ** max_runs  # a geometric law of mean 4
    cut = search(GaussianEvent(4.0), "negative_binomial", 4.0, 1.0, max_runs)
    least = selection_delta(event, epsilon) + (1 + math.exp(epsilon)) * tau
    assert selection_delta(cut, epsilon) == pytest.approx(min(1.0, least), rel=1e-6)
    found = selection_epsilon(cut, delta := 0.2)
    assert found == math.inf or selection_delta(event, found) + (1 + math.exp(found)) * tau <= delta


def test_a_search_is_cut_where_both_sides_cost_a_hundredth_of_delta() -> None:
    event = search(GaussianEvent(4.0), "negative_binomial", 4.0, 1.0)
    for epsilon in (0.5, 3.0):
        cut = with_max_runs(event, 1e-5, epsilon)
        allowed = 1e-2 * 1e-5 / (1 + math.exp(epsilon))
        assert 0.75 ** int(cut.max_runs) < allowed
        assert 0.75 ** (int(cut.max_runs) - 2) >= allowed
