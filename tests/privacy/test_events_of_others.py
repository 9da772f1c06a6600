"""Events of others: DP-SGD with Poisson sampling, and kinds that are registered from outside."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from scipy.stats import norm

from sfumato import Guarantee, Ledger
from sfumato.exceptions import InvalidInputError, UnsupportedEventError
from sfumato.ledger.spending import Scale, Spending
from sfumato.privacy import delta_from_mu, epsilon_spent, pld_delta, to_dp_event
from sfumato.privacy.distributions import pld_curve
from sfumato.privacy.events import (
    RepeatedEvent,
    SubsampledGaussianEvent,
    event_from_dict,
)

ADD = "add_or_remove_one"


def literal_delta(sigma: float, q: float, epsilon: float) -> float:
    """Integrate max(0, P - e^eps Q) for one step, both directions."""
    x = np.linspace(-12 * sigma, 12 * sigma + 1, 100_001)
    none = norm.pdf(x, 0, sigma)
    mixed = (1 - q) * none + q * norm.pdf(x, 1, sigma)
    step = x[1] - x[0]
    return max(
        float(np.maximum(p - math.exp(epsilon) * other, 0).sum() * step)
        for p, other in ((mixed, none), (none, mixed))
    )


@pytest.mark.parametrize(("sigma", "q"), [(1.0, 0.01), (0.8, 0.1), (4.0, 1.0)])
def test_one_step_has_the_curve_of_its_densities(sigma: float, q: float) -> None:
    event = SubsampledGaussianEvent(noise_multiplier=sigma, sampling_probability=q)
    curve = pld_curve({event: 1})
    for epsilon in (0.0, 0.5, 1.5):
        literal = literal_delta(sigma, q, epsilon)
        found = curve(epsilon)
        assert literal - 1e-7 <= found <= literal * 1.02 + 1e-6


def test_a_training_run_is_charged_as_dp_accounting_counts_it() -> None:
    run = RepeatedEvent(SubsampledGaussianEvent(1.1, 256 / 60_000), 4690)
    budget = Ledger().create("digits", epsilon=3.0, delta=1e-5, relation=ADD)
    budget.charge(run)
    accountant = PLDAccountant()
    accountant.compose(
        dp_event.PoissonSampledDpEvent(256 / 60_000, dp_event.GaussianDpEvent(1.1)), 4690
    )
    assert math.isclose(budget.spent(), accountant.get_epsilon(1e-5), rel_tol=1e-3)
    renyi = RdpAccountant()
    renyi.compose(to_dp_event(Guarantee(1.0, 1e-5, relation=ADD, events=(run,))))
    assert budget.spent() < renyi.get_epsilon(1e-5) < 1.3 * budget.spent()


def test_without_sampling_it_is_gaussian() -> None:
    event = SubsampledGaussianEvent(3.0, 1.0)
    assert math.isclose(pld_delta({event: 1}, 0.5), delta_from_mu(1 / 3, 0.5), rel_tol=1e-3)


def test_one_measure_for_both_directions_is_never_below() -> None:
    """What a long ledger keeps bounds the exact figure, if less tightly."""
    event = SubsampledGaussianEvent(1.0, 0.05)
    scale = Scale.of(3.0, 1e-5)
    kept = Spending.of([RepeatedEvent(event, 100)], scale)
    assert kept.losses is not None
    for epsilon in (0.5, 1.0, 2.0):
        assert kept.losses.delta(epsilon, 0.0) >= pld_delta({event: 100}, epsilon) * (1 - 1e-3)


def test_another_relation_is_refused() -> None:
    event = SubsampledGaussianEvent(1.0, 0.01)
    with pytest.raises(UnsupportedEventError, match="add_or_remove_one"):
        epsilon_spent([event], 1e-5)
    budget = Ledger().create("digits", epsilon=3.0, delta=1e-5)
    with pytest.raises(UnsupportedEventError, match="add_or_remove_one"):
        budget.charge(RepeatedEvent(event, 3))
    assert budget.spent() == 0
    there = to_dp_event(event, "replace_one")
    assert isinstance(there, dp_event.UnsupportedDpEvent)
    for wrong in (0.0, 1.1):
        with pytest.raises(InvalidInputError):
            SubsampledGaussianEvent(1.0, wrong)


def test_what_nobody_knows_is_refused() -> None:
    with pytest.raises(UnsupportedEventError, match="Unknown"):
        event_from_dict({"kind": "nobody.knows"})
    with pytest.raises(UnsupportedEventError, match="no events"):
        to_dp_event(Guarantee(1.0))
