"""Sums of kernels plus a random process: oracle, sensitivities by brute force, rounding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.neighbors import KernelDensity

from sfumato import Bounds, Ledger
from sfumato.exceptions import SfumatoError
from sfumato.mechanisms.base import taped
from sfumato.models.features import Domain
from sfumato.papers.functions import (
    PrintedDensity,
    ProcessDensity,
    sobolev_density_sensitivity,
    sobolev_norm,
)
from sfumato.papers.functions.spaces import SobolevSpace, sobolev_inner_product, sobolev_sensitivity

BOX = Bounds(lower=0.0, upper=1.0)


@pytest.mark.parametrize("d", [1, 2])
def test_without_noise_it_is_scikit_learns(d: int, rng: np.random.Generator) -> None:
    X, queries = rng.uniform(size=(300, d)), rng.uniform(size=(50, d))
    ours = ProcessDensity(0.15, epsilon=np.inf, bounds=BOX).fit(X).raw_density(queries)
    oracle = np.exp(KernelDensity(bandwidth=0.15).fit(X).score_samples(queries))
    np.testing.assert_allclose(ours, oracle, rtol=1e-9)
    if d == 1:
        rough = ProcessDensity(0.15, space="sobolev", epsilon=np.inf, bounds=BOX).fit(X)
        np.testing.assert_allclose(rough.raw_density(queries), oracle, atol=2e-2)


@pytest.mark.parametrize("bandwidth", [0.1, 3.0])
@pytest.mark.parametrize("space", ["gaussian", "sobolev"])
@pytest.mark.parametrize("kind", [ProcessDensity, PrintedDensity])
def test_neighbours_stay_within_the_sensitivity(kind, space, bandwidth, rng) -> None:
    model, shares = kind(bandwidth, space=space, delta=1e-3, bounds=BOX), []
    for pair in [((0.32,), (0.65,)), ((0.0,), (1.0,)), *rng.uniform(size=(20, 2, 1))]:
        X, found = rng.uniform(size=(20, 1)), []
        for row in pair:
            with taped() as tape:
                model.fit(np.vstack([X, row]))
            found.append(tape.releases[-1])
        moved = np.linalg.norm(found[0].statistic - found[1].statistic)
        shares.append(moved / found[0].mechanism.sensitivity)
    assert max(shares) <= 1
    assert kind is PrintedDensity or max(shares) > 0.95


@pytest.mark.parametrize(("bandwidth", "n"), [(0.1, 2000), (1000.0, 30_000)])
def test_rounding_errors_of_wide_bumps_are_covered(bandwidth, n, rng) -> None:
    """The same rows in another order: all that moves is rounding, which whitening magnifies."""
    space = SobolevSpace(bandwidth, Domain(BOX, 1))
    X = rng.uniform(size=(n, 1))
    here, there = (space.statistic(each) for each in (X, rng.permutation(X)))
    moved, bound = np.linalg.norm(here - there), space.rounding(n)
    assert bound / 1e6 < moved < bound
    with taped() as tape:
        ProcessDensity(bandwidth, space="sobolev", delta=1e-5, bounds=BOX).fit(X)
    share = np.linalg.norm(here) / np.linalg.norm(tape.releases[-1].statistic)
    covered, alone = share * tape.releases[-1].mechanism.sensitivity, space.sensitivity()
    assert covered >= (alone + bound) * (1 - 1e-9)
    assert covered <= max(alone * (1 + 2**-10), alone + bound) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("change", "width", "why"),
    [
        ({"space": "sobolev"}, 4, "one feature"),
        ({"space": "sobolev", "bandwidth": 1e6}, 1, "narrower"),
        ({"space": "sobolev", "bandwidth": np.eye(2) * 0.01}, 2, "may be a square matrix"),
        ({"bandwidth": 1e-9}, 2, "exact features"),
        ({}, 4, "exact features"),
    ],
)
@pytest.mark.parametrize("kind", [ProcessDensity, PrintedDensity])
def test_nothing_is_charged_for_a_space_that_cannot_be_built(
    kind: Any, change: dict[str, object], width: int, why: str
) -> None:
    budget = Ledger().create("rows", epsilon=1.0, delta=1e-3)
    model = kind(0.02, delta=1e-5, bounds=BOX, ledger=budget).set_params(**change)
    with pytest.raises(SfumatoError, match=why):
        model.fit(np.full((50, width), 0.5))
    assert budget.events() == ()


@pytest.mark.parametrize(("a", "b"), [(0.0, 9.9), (3.2, 6.5), (0.5, 0.8)])
def test_inner_product_is_the_printed_norm(a: float, b: float) -> None:
    """Equation (9) on a grid, in units of the bandwidth (γ = 1)."""

    def difference(x: np.ndarray) -> np.ndarray:
        return norm.pdf(10 * x[:, 0], a) - norm.pdf(10 * x[:, 0], b)

    pairs = ((a, a, 1), (b, b, 1), (a, b, -2))
    ours = sum(sign * float(sobolev_inner_product(*np.array(z), 10.0)) for *z, sign in pairs)
    assert ours == pytest.approx(sobolev_norm(difference, 10.0, n_knots=4097) ** 2, rel=1e-5)


@pytest.mark.parametrize("width", [0.5, 2.0, 10.0])
def test_sobolev_sensitivity_is_certified_and_tight(width: float) -> None:
    grid = np.linspace(0, width, 401)
    a, b = np.meshgrid(grid, grid)
    square = sobolev_inner_product(a, a, width) + sobolev_inner_product(b, b, width)
    largest = math.sqrt((square - 2 * sobolev_inner_product(a, b, width)).max())
    bound = sobolev_sensitivity(width)
    assert largest <= bound <= largest * 1.01 + 0.004
    assert bound < sobolev_density_sensitivity(1, 1.0)
