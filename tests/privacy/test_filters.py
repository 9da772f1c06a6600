"""Privacy filters against curves by hand, brute force over adaptive strategies, and other sums."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import brentq
from scipy.stats import norm, poisson

from sfumato.exceptions import InvalidInputError, UnsupportedEventError
from sfumato.privacy import composition
from sfumato.privacy.distributions import pld_epsilon
from sfumato.privacy.events import (
    ApproximateEvent,
    BoundedRangeEvent,
    EntryEvent,
    GaussianEvent,
    LaplaceEvent,
    NonPrivateEvent,
    ObjectivePerturbationEvent,
    PureEvent,
    RandomizedResponseEvent,
    SelectionEvent,
    flatten,
)
from sfumato.privacy.filters import Cost, PrivacyFilter, _binary_mu, _laplace_mu, _mu, _slack
from sfumato.privacy.gaussian import mu_from_budget
from sfumato.privacy.renyi import concentration


def curve(mu: np.ndarray | float, epsilon: np.ndarray | float) -> np.ndarray:
    """Delta of a Gaussian release, by SciPy alone; mu may be 0."""
    mu = np.maximum(mu, 1e-12)
    return norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


def adaptive_delta(first: float, second: object, epsilon: float) -> float:
    """Delta of two Gaussian releases, the second chosen by the loss of the first; on a grid."""
    z = np.linspace(-12, 12, 20_001)
    loss = first * z + first**2 / 2  # the privacy loss of the first output, under the first data
    chosen = np.array([second(x) for x in loss]) if callable(second) else second
    weight = norm.pdf(z) * (z[1] - z[0])
    # Data that give the larger density to what comes next: the curve at what is left of epsilon.
    return float(np.sum(weight * curve(chosen, epsilon - loss)))


class TestGaussian:
    @pytest.mark.parametrize("threshold", [-1.0, 0.0, 0.3, 1.0])
    @pytest.mark.parametrize("first", [0.3, 0.6])
    def test_what_is_chosen_after_a_look_stays_within_the_budget(
        self, threshold: float, first: float
    ) -> None:
        rest = math.sqrt(1.0 - first**2)
        for strategy in (
            lambda loss: rest if loss > threshold else 0.0,
            lambda loss: rest if loss < threshold else rest / 2,
            lambda loss: rest * abs(math.sin(5 * loss)),
        ):
            assert adaptive_delta(first, strategy, 1.0) <= float(curve(1.0, 1.0)) * (1 + 1e-6)

    def test_a_rule_that_keeps_only_the_average_would_not(self) -> None:
        """Negative control: the same sum on average, spent where the first output betrays most."""
        loss_mean = 0.6**2 / 2
        spend = math.sqrt(2 * (1.0 - 0.6**2))  # in half of the cases

        def strategy(loss: float) -> float:
            return spend if loss > loss_mean else 0.0

        assert adaptive_delta(0.6, strategy, 1.0) > float(curve(1.0, 1.0)) * 1.02

    @pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 3.0, 12.0])
    def test_pure_releases_are_bounded_by_their_normals_and_tightly(self, epsilon: float) -> None:
        losses = np.linspace(0, epsilon, 200)
        exact = (np.exp(epsilon) - np.exp(losses)) / (1 + np.exp(epsilon))
        rule = PrivacyFilter("gaussian", 100.0, 1e-6)
        laplace = 1 - np.exp((losses - epsilon) / 2)
        for event, right in (
            (PureEvent(epsilon), exact),
            (RandomizedResponseEvent(epsilon, 2), exact),
            (LaplaceEvent(epsilon), laplace),
            (EntryEvent(epsilon), laplace),
        ):
            mu = math.sqrt(rule.cost([event]).amount)
            assert np.all(curve(mu, losses) >= right - 1e-12)
            assert float(curve(mu, 0.0)) == pytest.approx(float(right[0]), rel=1e-6)

    @pytest.mark.parametrize("share", [0.5, 0.8, 0.97])
    def test_a_shift_in_two_numbers_is_hidden_better_than_in_one(self, share: float) -> None:
        """By adding up densities over the plane: 1e-5 is more than the grid is off by."""
        x, epsilon = np.linspace(-14, 16, 3001), 1.5
        p, q = np.exp(-np.abs(x)) / 2, [np.exp(-np.abs(x - a * epsilon)) / 2 for a in (share, 1)]
        other = np.exp(-np.abs(x - (1 - share) * epsilon)) / 2
        here, there = np.outer(p, p), np.outer(q[0], other)
        for loss in (-1.0, 0.0, 0.4, 1.2):
            both = np.maximum(here - np.exp(loss) * there, 0.0).sum() * 1e-4
            one = np.maximum(p - np.exp(loss) * q[1], 0.0).sum() * 1e-2
            assert both <= one + 1e-5
            assert both <= 1 - np.exp((loss - epsilon) / 2) + 1e-4

    def test_noise_calibrated_to_the_budget_fits_and_nothing_after_it(self) -> None:
        rule = PrivacyFilter("gaussian", 1.0, 1e-5)
        full = rule.cost([GaussianEvent(1 / mu_from_budget(1.0, 1e-5))])
        assert rule.admits(full)
        assert rule.spent(full) == pytest.approx(1.0, rel=1e-6)
        assert not rule.admits(full.plus(rule.cost([GaussianEvent(1e3)])))
        assert rule.left(full) == 0.0 or rule.left(full) < 1e-3


class TestRenyi:
    def test_adaptive_spending_keeps_the_order_fixed(self) -> None:
        """E_Q[(P/Q)^a] of a two-step strategy by integration, at the order of the filter."""
        rule = PrivacyFilter("renyi", 2.0, 1e-5)
        a = rule.order or 0.0
        limit = float(rule._limit())
        first = math.sqrt(limit / a)  # half of the limit
        z = np.linspace(-40, 40, 400_001)
        ratio = np.exp(a * (first * z - first**2 / 2))  # (p/q)^a under q
        mu = np.where(z > 1.0, first, 0.0)
        second = np.exp(a * (a - 1) * mu**2 / 2)
        moment = np.sum(norm.pdf(z) * ratio * second) * (z[1] - z[0])
        assert math.log(moment) / (a - 1) <= limit * (1 + 1e-9)

    def test_failures_are_kept_apart_and_end(self) -> None:
        rule = PrivacyFilter("renyi", 5.0, 1e-5)
        once = rule.cost([ApproximateEvent(0.1, 0.6e-6)])
        assert once.failure == Fraction("0.6e-6")
        assert rule.admits(once)
        assert not rule.admits(once.plus(once))
        left = 0.9e-5  # of delta, for what does not fail
        assert float(rule._limit()) == pytest.approx(5.0 - _slack(rule.order or 0.0, left))

    def test_a_search_and_an_objective_have_a_price(self) -> None:
        rule = PrivacyFilter("renyi", 8.0, 1e-5)
        search = SelectionEvent(((GaussianEvent(8.0),),), "poisson", 3.0, max_runs=30)
        cut = rule.cost([search])
        assert 0 < cut.failure < 1e-6
        assert rule.admits(cut)
        assert rule.admits(rule.cost([ObjectivePerturbationEvent(8.0, 0.1, 4)]))


class TestAnyKind:
    def test_a_tenth_ten_times_is_one(self) -> None:
        rule = PrivacyFilter("pure", 1.0)
        total = Cost()
        for _ in range(10):
            total = total.plus(rule.cost([LaplaceEvent(0.1)]))
        assert rule.admits(total)
        assert rule.left(total) == 0
        assert not rule.admits(total.plus(rule.cost([PureEvent(1e-12)])))

    @settings(max_examples=25, deadline=None)
    @given(
        st.lists(
            st.one_of(
                st.floats(2.0, 50.0).map(GaussianEvent),
                st.floats(0.01, 0.4).map(PureEvent),
                st.floats(0.01, 0.4).map(BoundedRangeEvent),
            ),
            min_size=1,
            max_size=5,
        )
    )
    def test_never_below_the_loss_distribution(self, events: list[object]) -> None:
        """A price that holds for every strategy holds for the one that does not look."""
        tight = pld_epsilon(flatten(events), 1e-5)
        for kind in ("gaussian", "renyi"):
            rule = PrivacyFilter(kind, 4.0, 1e-5)
            assert rule.spent(rule.cost(events)) >= tight * (1 - 2e-3) - 2e-3

    def test_what_is_not_bounded_is_refused(self) -> None:
        gaussian, pure = PrivacyFilter("gaussian", 1.0, 1e-5), PrivacyFilter("pure", 1.0)
        for rule, event in (
            (gaussian, ObjectivePerturbationEvent(8.0, 0.1, 4)),
            (gaussian, EntryEvent(0.1, 1e-9)),
            (gaussian, NonPrivateEvent()),
            (pure, GaussianEvent(10.0)),
            (PrivacyFilter("renyi", 2.0, 1e-5), NonPrivateEvent()),
        ):
            with pytest.raises(UnsupportedEventError, match="Nothing was charged"):
                rule.cost([event])

    @pytest.mark.parametrize(
        "words",
        [("zcdp", 1.0, 1e-5), ("pure", 1.0, 1e-5), ("gaussian", 1.0, 0.0), ("renyi", -1.0, 0.1)],
    )
    def test_words_that_make_no_filter(self, words: tuple[str, float, float]) -> None:
        with pytest.raises(InvalidInputError):
            PrivacyFilter(*words)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 5.0])
@pytest.mark.parametrize("kind", [PureEvent, BoundedRangeEvent])
def test_concentrations_are_the_least_ones(kind: type, epsilon: float) -> None:
    """``D_a <= rho a`` for all orders a, and nearly equal for a small epsilon; two outcomes."""
    orders = 1 + np.geomspace(1e-2, 1e4, 400)[:, None]
    high = np.array([epsilon])  # the losses of both outcomes, or of intervals around 0
    if kind is BoundedRangeEvent:
        high = np.linspace(0.01, 0.99, 99) * epsilon
    low = high - (2 * epsilon if kind is PureEvent else epsilon)
    q = -np.expm1(low) / (np.exp(high) - np.exp(low))  # of the high one, by the second law
    moment = np.logaddexp(np.log(q) + orders * high, np.log1p(-q) + orders * low)
    least, rho = np.max(moment / (orders - 1) / orders), concentration(kind(epsilon))
    assert least <= rho * (1 + 1e-6)
    assert epsilon > 0.1 or rho <= least * 1.01


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0])
@pytest.mark.parametrize("max_runs", [8, 30])
def test_a_cut_search_fails_on_both_sides_of_the_inequality(epsilon: float, max_runs: int) -> None:
    """``P <= e^eps Q + delta`` for the uncut laws, each off by tau: (1 + e^eps) tau in all."""
    rate = brentq(lambda r: r / -np.expm1(-r) - 5.0, 1e-6, 6.0, xtol=1e-15)
    tau = poisson.sf(max_runs, rate) / -np.expm1(-rate)
    event = SelectionEvent(((GaussianEvent(5.0),),), "poisson", 5.0, max_runs=max_runs)
    cost = PrivacyFilter("renyi", epsilon, 1e-3).cost([event])
    least = (1 + math.exp(epsilon)) * tau
    assert least <= float(cost.failure) <= least * (1 + 1e-6) + 1e-10


@given(st.integers(1, 10**12), st.integers(1, 10**12))
def test_mu_of_a_sum_is_rounded_up(above: int, below: int) -> None:
    amount = Fraction(above, below)
    assert amount <= Fraction(_mu(Cost(amount))) ** 2 <= amount * Fraction(1 + 1e-14)
    assert _mu(Cost()) == 0.0


@pytest.mark.parametrize("epsilon", [1e-9, 1e-4, 0.1, 1.0, 7.0, 30.0])
def test_mu_of_an_answer_is_rounded_up(epsilon: float) -> None:
    """``2 Phi⁻¹(1 / (1 + e^-eps))``, and of Laplace noise, to thirty digits."""
    with mpmath.workdps(40):
        tail = 1 / (1 + mpmath.exp(epsilon))
        exact = 2 * mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * tail)
        assert exact <= _binary_mu(epsilon) <= exact * (1 + 1e-11) + 2e-15
        exact = 2 * mpmath.sqrt(2) * mpmath.erfinv(1 - mpmath.exp(-mpmath.mpf(epsilon) / 2))
        assert exact <= _laplace_mu(epsilon) <= exact * (1 + 1e-11) + 2e-15


@given(st.floats(1.01, 4000), st.floats(1e-12, 0.1))
def test_the_conversion_of_divergences_is_the_one_of_the_literature(order, delta) -> None:
    exact = math.log(((order - 1) / order) ** (order - 1) / (order * delta)) / (order - 1)
    assert _slack(order, delta) == pytest.approx(exact, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("kind", ["pure", "gaussian", "renyi"])
def test_what_is_left_of_a_filter_fits_and_hardly_more(kind: str) -> None:
    delta = 0.0 if kind == "pure" else 1e-6
    filter_ = PrivacyFilter(kind, 2.0, delta)
    for spent in (Cost(), filter_.cost([PureEvent(0.1)])):
        left = filter_.left(spent)
        fits = []
        for share in (1 - 1e-4, 1.01):
            event = PureEvent(share * left)
            if kind != "pure":
                event = GaussianEvent(1 / mu_from_budget(share * left, delta))
            fits.append(filter_.admits(spent.plus(filter_.cost([event]))))
        assert fits == [True, False]


def test_mu_in_closed_form_is_rounded_up(monkeypatch: pytest.MonkeyPatch) -> None:
    noises, seen = np.random.default_rng(0).uniform(0.5, 90, (40, 5)).tolist(), []
    monkeypatch.setattr(composition, "added_epsilon", lambda *told: seen.append(told[2]) or 0.0)
    for row in noises:
        composition._simple_epsilon(flatten(map(GaussianEvent, row)), 1e-6)
        exact = sum(1 / Fraction(noise) ** 2 for noise in row)
        assert exact <= Fraction(seen[-1]) ** 2 <= exact * (1 + Fraction(1, 2**40))


def test_what_was_spent_of_a_filter_is_one_release_of_as_much() -> None:
    for kind, event, epsilon in (
        ("pure", PureEvent(0.25), 0.25),
        ("gaussian", GaussianEvent(1 / mu_from_budget(0.25, 1e-6)), 0.25),
    ):
        rule = PrivacyFilter(kind, 0.5, 1e-6 if kind == "gaussian" else 0.0)
        assert rule.spent(rule.cost([event])) == pytest.approx(epsilon, rel=1e-6)
        assert rule.spent(Cost()) == 0.0
        assert rule.left(Cost()) == pytest.approx(0.5, rel=1e-6)
    mu = mu_from_budget(0.5, 1e-6)  # below 1: of it, powers are smaller
    for noise, fits in ((1 / mu * (1 + 1e-9), True), (0.999 / mu, False)):
        rule = PrivacyFilter("gaussian", 0.5, 1e-6)
        assert rule.admits(rule.cost([GaussianEvent(noise)])) == fits
