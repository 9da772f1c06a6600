"""What samplers are asked for is the noise of the theorem: no draw is needed to see one too small.

`test_mechanisms.py` does the same for mechanisms that release sums.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from sfumato.exceptions import InvalidInputError
from sfumato.mechanisms import GaussianMechanism, GaussianProcessMechanism, GaussianShareMechanism
from sfumato.mechanisms.objective import GammaObjectiveMechanism, GaussianObjectiveMechanism

SIZE = 9
ROUNDING = 1 + 2.0**-6  # more than grids enlarge any noise


class Asked(list[float]):
    """Samplers that note the scale they are asked for, and draw nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: str, *samplers: str) -> None:
        super().__init__()
        for name in samplers:
            monkeypatch.setattr(f"sfumato.mechanisms.{module}.{name}", self.sampler)

    def sampler(self, *arguments: Any) -> np.ndarray:
        *_, scale, size = arguments
        self.append(scale)
        return np.zeros(size)


def test_coordinates_of_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(monkeypatch, "process", "rounded_noise")
    mechanism = GaussianProcessMechanism.calibrate(sensitivity=2.0, epsilon=1.0, delta=1e-5)
    noise = mechanism.noise(limit=1000)
    noise.draw(SIZE)
    least = 2.0 * mechanism.noise_multiplier
    assert least <= asked[0] * noise.step <= least * ROUNDING


@pytest.mark.parametrize("n_shares", [1, 3, 100])
def test_shares(monkeypatch: pytest.MonkeyPatch, n_shares: int) -> None:
    asked = Asked(monkeypatch, "shares", "discrete_gaussian")
    share = GaussianShareMechanism(GaussianMechanism(2.0, 5.0), n_shares)
    share.release(np.zeros(SIZE), ledger=None)
    share.release_symmetric(np.zeros((3, 3)), ledger=None)
    least = 10.0 / math.sqrt(n_shares)
    for cells, factor in zip(asked, (1.0, 1.0, math.sqrt(0.5)), strict=True):
        assert factor * least <= cells * share.step(SIZE) <= factor * least * ROUNDING


def test_gaussian_objectives(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(monkeypatch, "objective", "rounded_noise")
    mechanism = GaussianObjectiveMechanism(2.0, 0.1, 3.0, noise_multiplier=4.0, dimension=2)
    mechanism._linear_term((SIZE,))
    mechanism._with_output_noise(np.ones(SIZE))
    assert asked[0] * mechanism._step(SIZE) == pytest.approx(8.0, rel=1e-12)
    missed = 2 * 2.0**-20 * 2.0 / 3.0  # 2 τ / Λ, hidden by the noise of mu = 2⁻¹⁰ / r
    step, _ = mechanism._output_grid(SIZE)
    assert missed * 4.0 * 2**10 <= asked[1] * step <= missed * 4.0 * 2**10 * ROUNDING


def test_gamma_objectives(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(monkeypatch, "objective", "rounded_spherical_noise")
    steps: list[float] = []
    monkeypatch.setattr(
        "sfumato.mechanisms.objective.to_grid", lambda t, step: steps.append(step) or t
    )
    mechanism = GammaObjectiveMechanism(2.0, 0.1, 3.0, epsilon=1.0, size=SIZE)
    mechanism._linear_term((SIZE,))
    mechanism._with_output_noise(np.ones(SIZE))
    rate = (1.0 - 2.0**-7 - 0.1) / 2.0  # epsilon but for the share of the output, less kappa
    assert asked[0] * mechanism._step(SIZE) == pytest.approx(1 / rate, rel=1e-12)
    least = 2 * 2.0**-15 * 2.0 / 3.0 * 2**7
    assert least <= asked[1] * steps[0] <= least * ROUNDING


def test_long_linear_terms_are_refused_where_epsilon_is_small_alone() -> None:
    """The norm of 40,000 numbers is too long to be drawn at epsilon 0.01, and not at 100."""
    GammaObjectiveMechanism(2.0, 0.0, 3.0, epsilon=100.0, size=40_000)
    with pytest.raises(InvalidInputError, match="too little"):
        GammaObjectiveMechanism(2.0, 0.0, 3.0, epsilon=0.01, size=40_000)
