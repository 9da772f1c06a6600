"""The figures of the paper on functions against formulas written out here."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.audit.testing import seeded_noise
from sfumato.papers import Setting, verdict_of
from sfumato.papers.functions import figures
from sfumato.papers.functions.figures import densities, machines
from sfumato.papers.functions.printed import printed_mechanism

QUICK = Setting(quick=True, runs=1)
GRID = np.linspace(0, 1, 201)


def bumps(*centres: float, width: float = 0.08) -> np.ndarray:
    return np.asarray(sum(np.exp(-((GRID - c) ** 2) / (2 * width**2)) for c in centres))


def test_the_printed_noise_is_that_of_the_printed_formulas() -> None:
    # n = 100, h = 0.1, alpha = 1, beta = 0.1: c = 2.4477, sensitivities 0.05642 and 0.12633.
    assert figures.printed_noise("gaussian") == pytest.approx(0.1381, abs=1e-4)
    assert figures.printed_noise("sobolev") == pytest.approx(2.4477 * 0.12633, rel=1e-4)
    # n = 1000, lambda = 0.01, beta = 1e-5: sensitivity 0.1, c = 4.9409.
    assert figures.printed_machine_noise() == pytest.approx(0.49409, abs=1e-5)
    gap = printed_mechanism(0.1, 1.0, 0.1, share=1.01)  # the guarantee covers it, the noise stays
    assert gap.sensitivity == pytest.approx(0.101, rel=2e-3)
    assert gap.variance() ** 0.5 == pytest.approx(0.24477, rel=2e-3)


# 1.0859 times the sensitivity for (1, 0.1); in the Sobolev space that is computed.
@pytest.mark.parametrize(("space", "strict"), [("gaussian", 0.06127), ("sobolev", 0.0735)])
def test_releases_scatter_as_much_as_is_said(space: str, strict: float) -> None:
    with seeded_noise(0):
        found = densities(Setting(runs=1), space)
    assert found["paper"].shape == (100, 1000)
    for mode, noise in (("paper", figures.printed_noise(space)), ("strict", strict)):
        measured = (found[mode] - found["estimate"]).std()
        assert measured == pytest.approx(noise, rel=0.15)


@pytest.mark.parametrize(
    ("number", "releases", "holds"),
    [
        (1, bumps(0.5), [False, True]),  # two peaks, smooth
        (2, bumps(0.3, 0.7), [False]),  # rough
        (1, bumps(0.3, 0.7) + 0.2 * np.where(np.arange(201) % 2, 1, -1), [True, False]),
        (2, bumps(0.3, 0.7) + 0.2 * np.where(np.arange(201) % 2, 1, -1), [True]),
    ],
)
def test_claims_and_noise_of_a_density_can_fail(
    monkeypatch: pytest.MonkeyPatch, number: int, releases: np.ndarray, holds: list[bool]
) -> None:
    found = dict.fromkeys(("paper", "strict"), np.tile(releases, (4, 1)))
    found |= {"grid": GRID, "estimate": bumps(0.3, 0.7)}
    monkeypatch.setattr(figures, "densities", lambda *_: found)
    entry = figures.ENTRIES[number - 1]
    outcome = entry.run(QUICK)
    assert list(outcome.claims.values()) == holds
    assert outcome.comparisons[0].agrees is False
    assert verdict_of(entry, outcome, quick=False) == "not reproduced"


def test_noise_and_decisions_of_a_machine_are_compared_with_the_machine_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Fake:
        def __init__(self, noise: float) -> None:
            self.noise, self.score = noise, lambda X, y: 0.5

        def decision_function(self, X: np.ndarray) -> np.ndarray:
            return X[:, 0] - 0.5 + self.noise

        def predict(self, X: np.ndarray) -> np.ndarray:
            return self.decision_function(X) > 0

    kinds = {"not private": 0.0, "paper": 0.49409, "strict": -0.1}
    monkeypatch.setattr(figures, "machines", lambda _: {k: Fake(n) for k, n in kinds.items()})
    outcome = figures.figure_3(Setting(quick=True, runs=2))
    assert (outcome.comparisons[0].paper, outcome.comparisons[0].strict) == (0.49409, 0.1)
    assert outcome.comparisons[0].agrees is True
    assert list(outcome.claims.values()) == [False]


def test_the_machines_are_one_machine_with_different_noise() -> None:
    with seeded_noise(3):
        found = machines(0)
    assert found["not private"].noise_std_ == 0
    assert found["paper"].noise_std_ == pytest.approx(figures.printed_machine_noise(), rel=0.02)
    assert found["strict"].noise_std_ < found["paper"].noise_std_
    assert found["strict"].guarantee_.epsilon == pytest.approx(1.0)
