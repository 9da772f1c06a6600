"""The figures of the paper on functions against formulas written out here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sfumato.audit.testing import seeded_noise
from sfumato.papers import Setting, verdict_of
from sfumato.papers.functions import figures
from sfumato.papers.functions.figures import densities, machines

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


@pytest.mark.parametrize(
    ("space", "printed", "strict"),
    # strict: 1.0859 times the sensitivity for (1, 0.1); in the Sobolev space that is computed.
    [("gaussian", 0.1381, 1.0859 * 0.056419), ("sobolev", 0.3092, 0.0735)],
)
def test_releases_scatter_as_much_as_is_said(space: str, printed: float, strict: float) -> None:
    with seeded_noise(0):
        found = densities(Setting(runs=1), space, 0.1)
    assert found["paper"].shape == (100, 1000)
    for mode, noise in (("paper", printed), ("strict", strict)):
        measured = (found[mode] - found["estimate"]).std()
        assert measured == pytest.approx(noise, rel=0.15)


def fake_densities(releases: np.ndarray) -> Any:
    def found(setting: Setting, space: str, h: float) -> dict[str, np.ndarray]:
        return {
            "grid": GRID,
            "estimate": bumps(0.3, 0.7),
            "paper": releases,
            "strict": releases,
        }

    return found


@pytest.mark.parametrize(
    ("run", "releases"),
    [
        (figures.figure_1, np.tile(bumps(0.5), (4, 1))),
        (figures.figure_2, np.tile(bumps(0.3, 0.7), (4, 1))),
    ],
)
def test_claims_and_noise_of_a_density_can_fail(
    monkeypatch: pytest.MonkeyPatch, run: Any, releases: np.ndarray
) -> None:
    monkeypatch.setattr(figures, "densities", fake_densities(releases))
    outcome = run(QUICK)
    assert not all(outcome.claims.values())
    assert outcome.comparisons[0].agrees is False
    entry = figures.ENTRIES[0]
    assert verdict_of(entry, outcome, quick=False) == "not reproduced"


def test_a_rough_release_is_not_called_smooth(monkeypatch: pytest.MonkeyPatch) -> None:
    rough = bumps(0.3, 0.7) + 0.2 * np.where(np.arange(len(GRID)) % 2, 1, -1)
    monkeypatch.setattr(figures, "densities", fake_densities(np.tile(rough, (4, 1))))
    claims = figures.figure_1(QUICK).claims
    assert claims["the released curve is as smooth as the estimate"] is False
    assert all(figures.figure_2(QUICK).claims.values())


def test_the_machines_are_one_machine_with_different_noise() -> None:
    with seeded_noise(3):
        found = machines(0)
    assert found["not private"].noise_std_ == 0
    assert found["paper"].noise_std_ == pytest.approx(figures.printed_machine_noise(), rel=0.02)
    assert found["strict"].noise_std_ < found["paper"].noise_std_
    assert found["strict"].guarantee_.epsilon == pytest.approx(1.0)
