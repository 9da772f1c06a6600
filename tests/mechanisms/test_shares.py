"""Noise in shares: the law of a share, the law of a total, and what a total hides."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from sfumato.exceptions import InvalidInputError
from sfumato.mechanisms import GaussianMechanism, gaussian
from sfumato.mechanisms.entropy import seeded
from sfumato.mechanisms.gaussian import GaussianShareMechanism
from sfumato.mechanisms.sampling import _chance_of_loss, _exact, discrete_gaussian
from sfumato.privacy.gaussian import delta_from_mu
from tests.every import for_each

FALSE_ALARM = 1e-6
WIDE = np.arange(-60, 61)


def discrete(scale: float) -> np.ndarray:
    """The law of the discrete Gaussian on `WIDE`, from its definition."""
    masses = np.exp(-(WIDE**2) / (2 * scale**2))
    return masses / masses.sum()


def leftover(scale: float) -> float:
    """e(h): what Poisson's sum formula leaves over."""
    return 2 * sum(math.exp(-2 * (math.pi * scale * n) ** 2) for n in range(1, 9))


@for_each([0.4, 1.0])
def test_the_discrete_gaussian_has_the_probabilities_of_its_definition(scale: float) -> None:
    with seeded(1):
        draws = discrete_gaussian(scale, 10_000)
    expected = discrete(scale) * draws.size
    observed = np.array([(draws == cell).sum() for cell in WIDE])
    common = expected >= 10
    assert observed[~common].sum() < 120
    expected = expected[common] * observed[common].sum() / expected[common].sum()
    assert chisquare(observed[common], expected).pvalue > FALSE_ALARM
    assert chisquare(np.roll(observed[common], 1), expected).pvalue < FALSE_ALARM


@for_each([(0.4, 1), (1.7, 4), (2.0**19, 2**20), (2.0**41, 2**43 + 7)])
def test_the_coin_is_the_ratio_of_the_laws(case: tuple[float, int]) -> None:
    scale, cell = case
    with _exact.workprec(400):
        t = _exact.mpf(scale)
        density = lambda k: _exact.exp(-((k / t) ** 2) / 2)  # noqa: E731
        below = lambda k: _exact.erf(k / (t * _exact.sqrt(2)))  # noqa: E731
        half = _exact.mpf(0.5)
        ratio = density(cell) / (below(cell + half) - below(cell - half))
        at_zero = density(0) / (below(half) - below(-half))
        chance = _chance_of_loss(_exact, scale, cell)
        assert abs(chance - (1 - ratio / at_zero)) < _exact.mpf(2) ** -200
        assert 0 < chance <= (_exact.mpf(cell) / t**2) ** 2 / 8  # the bound of the quick path
        assert _chance_of_loss(_exact, scale, 0) == 0


@for_each([(0.45, 2), (0.6, 3), (0.8, 5), (1.2, 8)])
def test_a_sum_of_discrete_gaussians_is_nearly_one(case: tuple[float, int]) -> None:
    """The theorem of the sheet, and that it is no looser than a factor of ten where it bites."""
    scale, n_shares = case
    total, bound = discrete(scale), 0.0
    for k in range(1, n_shares):
        total = np.convolve(total, discrete(scale), mode="same")
        left = leftover(scale * math.sqrt(k / (k + 1)))
        bound += math.log((1 + left) / (1 - left))
    near = np.abs(WIDE) <= 12  # beyond, the cut of the convolution shows
    distance = np.abs(np.log(total[near] / discrete(scale * math.sqrt(n_shares))[near])).max()
    assert distance <= bound + 1e-12
    assert n_shares > 2 or distance > bound / 10


@for_each([(3.0, 3, 1), (4.0, 2, 4), (6.0, 5, 3)])
def test_a_total_is_as_private_as_the_gaussian_of_less_variance(
    case: tuple[float, int, int],
) -> None:
    """Exact delta of the total against the curve of ``N(0, t² - r²)``, r = 1: no approximation."""
    scale, n_shares, shift = case
    total = discrete(scale / math.sqrt(n_shares))
    for _ in range(n_shares - 1):
        total = np.convolve(total, discrete(scale / math.sqrt(n_shares)), mode="same")
    moved = np.roll(total, shift)
    mu = shift / math.sqrt(scale**2 - 1)
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
        delta = np.maximum(total - math.exp(epsilon) * moved, 0).sum()
        assert delta <= delta_from_mu(mu, epsilon) + 5 * leftover(1.0) * math.exp(epsilon)
    # and not of one of much more variance: the test can fail
    assert np.maximum(total - moved, 0).sum() > delta_from_mu(0.8 * shift / scale, 0.0)


def test_every_share_has_the_variance_that_the_proof_asks_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of all m shares together t² and 64 cells² more; off the diagonal half as much."""
    asked: list[Fraction] = []

    def noted(scale: float, size: int) -> np.ndarray:
        asked.append(Fraction(scale))
        return np.zeros(size)

    monkeypatch.setattr(gaussian, "discrete_gaussian", noted)
    share = GaussianShareMechanism(GaussianMechanism(1.0, 2.0), 3)
    share.release(np.zeros(9), ledger=None)
    share.release_symmetric(np.zeros((3, 3)), ledger=None)
    step, scale = share.grid(9)
    assert GaussianShareMechanism(share.whole, 2**14).n_shares == 2**14
    for each, part in zip(asked, (1, 1, 2), strict=True):
        assert 64 <= 3 * part * each**2 - (Fraction(scale) / Fraction(step)) ** 2 < 2**20


def test_what_is_rounded_to_the_grid_is_the_exact_sum() -> None:
    share = GaussianShareMechanism(GaussianMechanism(1.0, 1.0), 1)
    value = np.array([0.0, -3.25, 1e6])
    with seeded(5):
        noisy = share.release(value, ledger=None)
    with seeded(5):
        noise = share.release(np.zeros(3), ledger=None)
    assert np.array_equal((noisy - noise) * share.grid(3)[0], value)
    assert np.abs(noisy).max() <= share.largest(3, 1e6)
    assert GaussianShareMechanism(share.whole, 4).variance() == share.whole.variance() / 4
    with pytest.raises(InvalidInputError, match="square"):
        share.release_symmetric(np.ones((2, 3)), ledger=None)
    with pytest.raises(InvalidInputError, match="n_shares"):
        GaussianShareMechanism(share.whole, 2**14 + 1)
