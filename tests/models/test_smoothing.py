"""Smoothed cells: what is counted, what is chosen after the release, and what it answers."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays
from scipy.integrate import quad
from scipy.stats import norm

from sfumato import Bounds, TableBounds
from sfumato.audit.testing import seeded_noise
from sfumato.mechanisms.base import taped
from sfumato.models.density import PrivateDensity
from sfumato.models.features import Domain
from sfumato.models.smoothing import Cells, _best_blocks, density_threshold, smooth
from sfumato.privacy.events import LaplaceEvent

BOX = Bounds(lower=0.0, upper=1.0, labels=["a", "b"])
FINE = np.linspace(0, 1, 1001)


def two_normals(n: int, rng: np.random.Generator) -> np.ndarray:
    side = rng.random(n) < 0.5
    return np.where(side, rng.normal(0.3, 0.07, n), rng.normal(0.7, 0.07, n))[:, None]


def law_of_two_normals(x: np.ndarray) -> np.ndarray:
    return (norm.cdf(x, 0.3, 0.07) + norm.cdf(x, 0.7, 0.07)) / 2


# The release --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("relation", "bound"), [("replace_one", 2), ("add_or_remove_one", 1)])
def test_one_release_of_pure_epsilon(relation: str, bound: float) -> None:
    model = PrivateDensity(epsilon=0.7, delta=1e-5, relation=relation, bounds=BOX)
    with taped() as tape:
        model.fit(np.full((50, 1), 0.4))
    (release,) = tape.releases
    assert release.mechanism.sensitivity == bound
    assert model.guarantee_.events == (LaplaceEvent(0.7),)
    assert 0.6999 < model.guarantee_.epsilon <= 0.7
    assert model.noise_variance_ == pytest.approx(2 * (bound / 0.7) ** 2)


@pytest.mark.parametrize("most", [2, 3, 5, 7, 20, 73, 74, 75, 400])
def test_cells_of_whole_numbers_hold_equally_many(most: int) -> None:
    """Whole numbers from 17 to 90: 74 values, however they are cut."""
    domain = Domain(Bounds(lower=17.0, upper=90.0), 1)
    cells = Cells.of(domain, (most,), (1.0,))
    held = np.bincount(cells(np.arange(17.0, 91)[:, None])[:, 0].astype(int))
    assert len(held) <= min(most, 74)
    assert len(set(held[:-1])) <= 1
    assert held[-1] <= held[0]
    assert Cells.of(domain, cells.shape, (1.0,)) == cells  # a stored release is cut the same way


# After the release --------------------------------------------------------------------------------


def test_smooth_signals_are_smoothed_and_atoms_are_kept(rng: np.random.Generator) -> None:
    masses = np.full(50, 0.8 / 50)
    masses[20] += 0.2
    shares = masses + rng.laplace(0, 0.003, 50)
    found = smooth(shares, 2 * 0.003**2, 1e6)
    assert np.nonzero(found.apart)[0].tolist() == [20]
    assert found.masses[20] == pytest.approx(shares[20], abs=0.003)
    others = np.delete(found.masses - masses, 20)
    assert np.abs(others).mean() < 0.3 * np.abs(np.delete(shares - masses, 20)).mean()
    plain = smooth(np.full(50, 0.02) + rng.laplace(0, 0.003, 50), 2 * 0.003**2, 1e6)
    assert not plain.apart.any()


# Answers ------------------------------------------------------------------------------------------


@pytest.fixture
def fitted(rng: np.random.Generator) -> PrivateDensity:
    with seeded_noise(3):
        return PrivateDensity(delta=1e-5, bounds=BOX).fit(two_normals(5000, rng))


def test_answers_on_a_line_agree(fitted: PrivateDensity) -> None:
    cells = len(fitted.cell_counts_)
    points = list(np.linspace(0, 1, cells + 1))
    total = sum(
        quad(lambda t: float(fitted.density([[t]])[0]), a, b)[0]
        for a, b in itertools.pairwise(points[:7])
    )
    assert total == pytest.approx(float(fitted.cdf(points[6])), abs=1e-9)
    assert fitted.cdf([-1.0, 0.0, 1.0, 2.0]).tolist() == pytest.approx([0, 0, 1, 1])
    probabilities = np.linspace(0.01, 0.99, 50)
    np.testing.assert_allclose(fitted.cdf(fitted.quantile(probabilities)), probabilities, atol=2e-3)
    assert np.abs(fitted.cdf(FINE) - law_of_two_normals(FINE)).max() < 0.03
    assert fitted.density([[-0.1], [1.1]]).tolist() == [0, 0]


# Choices ------------------------------------------------------------------------------------------


def test_a_jump_is_kept_by_blocks_and_a_smooth_law_by_a_filter(rng: np.random.Generator) -> None:
    cells = np.arange(120)
    jump = np.where(cells < 45, 3.0, 1.0)
    hump = np.exp(-((cells - 60) ** 2) / 300)
    for law, has_blocks in ((jump, True), (hump, False)):
        shares = law / law.sum()
        noisy = shares + rng.laplace(0, 5e-4 / np.sqrt(2), 120)
        found = smooth(noisy, 5e-4**2, 30_000)
        assert (found.blocks is not None) == has_blocks
        error = np.abs(found.masses - shares).sum()
        assert error < 0.4 * np.abs(noisy - shares).sum()
    blocks = smooth(jump / jump.sum(), 1e-8, 30_000).blocks
    assert blocks is not None
    assert np.flatnonzero(np.diff(blocks)).tolist() == [44]


def test_blocks_are_the_best_of_all(rng: np.random.Generator) -> None:
    """Brute force over all ways to cut nine cells."""
    for _ in range(20):
        shares, variance = rng.normal(size=9) + np.repeat([0, 2, 0], 3), 0.3
        price = variance * (2 + 2 * math.log(9))
        least = math.inf
        for cut in itertools.product([False, True], repeat=8):
            parts = np.split(shares, np.flatnonzero(cut) + 1)
            risk = sum(((p - p.mean()) ** 2).sum() - len(p) * variance + price for p in parts)
            least = min(least, risk)
        blocks, found = _best_blocks(shares, variance)
        assert found == pytest.approx(least)
        parts = [shares[blocks == b] for b in np.unique(blocks)]
        again = sum(((p - p.mean()) ** 2).sum() - len(p) * variance + price for p in parts)
        assert again == pytest.approx(least)


@pytest.mark.parametrize("columns", [("age",), ("age", "weight")])
def test_rows_without_a_number_are_counted_nowhere(
    columns: tuple[str, ...], rng: np.random.Generator
) -> None:
    """They would make a peak in the middle of the range; replacing one moves two counts at most."""
    ranges = {name: {"lower": 0, "upper": 120, "missing": True} for name in columns}
    bounds = TableBounds.from_dict(ranges)
    values = np.clip(rng.normal(40, 10, size=(400, len(columns))), 0, 120)
    values[rng.random(values.shape) < 0.2] = np.nan

    def counts(rows: np.ndarray) -> np.ndarray:
        table = pd.DataFrame(rows, columns=list(columns))
        model = PrivateDensity(epsilon=np.inf, n_cells=6, bounds=bounds).fit(table)
        assert model.public_rows_ is None
        return model.cell_counts_[..., 0]

    known = values[~np.isnan(values).any(axis=1)]
    oracle = np.histogramdd(known, 6, [(0, 120)] * len(columns))[0]
    np.testing.assert_array_equal(counts(values), oracle)
    for row in ([np.nan] * len(columns), [0.0] * len(columns), [-np.inf] * len(columns)):
        for place in (0, 1, 2):
            other = values.copy()
            other[place] = row
            assert np.abs(counts(other) - counts(values)).sum() <= 2


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("way", ["average", "sum"])
def test_a_person_moves_as_many_cells_as_noise_is_made_for(relation: str, way: str) -> None:
    """Rounding to the grid moves only cells that can differ: two for each row of a person."""
    rows = 3
    bounds = Bounds(lower=0.0, upper=1.0, labels=[0, 1], person_rows=rows, per_person=way)
    model = PrivateDensity(n_cells=8, bounds=bounds, unit="person", relation=relation, delta=1e-5)
    X = np.tile((np.arange(6) + 0.5) / 8, 10)[:, None]
    X_near, y, ids = X.copy(), np.zeros(60, dtype=int), np.arange(60) // rows
    last = slice(-rows, None)
    X_near[last], y_near = [[0.01], [0.2], [0.9]], y.copy()
    y_near[last] = 1
    if relation == "add_or_remove_one":
        X_near, y_near = X[:-rows], y[:-rows]
    statistics = []
    for rows_of, labels in ((X, y), (X_near, y_near)):
        with warnings.catch_warnings(), taped() as tape:
            warnings.simplefilter("ignore")
            model.fit(rows_of, labels, groups=ids[: len(rows_of)])
        statistics.append(tape.releases[-1])
    mechanism = statistics[0].mechanism
    apart = np.abs(statistics[0].statistic - statistics[1].statistic)
    n_moved = rows if relation == "add_or_remove_one" else 2 * rows
    assert np.count_nonzero(apart) == n_moved <= mechanism.touched
    assert apart.sum() == pytest.approx(mechanism.sensitivity, rel=1e-6)


# The nearest density ----------------------------------------------------------------------------


@given(arrays(float, 20, elements=st.floats(-5, 5)), arrays(float, 20, elements=st.floats(0.01, 5)))
def test_the_threshold_never_moves_away_from_a_density(
    values: np.ndarray, truth: np.ndarray
) -> None:
    volume = 1 / 20
    density = truth / (truth.sum() * volume)
    kept = np.maximum(values - density_threshold(values, volume)[0], 0)
    before, after = np.linalg.norm(values - density), np.linalg.norm(kept - density)
    assert after <= before + 1e-9
