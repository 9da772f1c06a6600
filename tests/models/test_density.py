"""The private density: oracle, sensitivity, post-processing, samples, utility."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.neighbors import KernelDensity

from sfumato import Bounds, Ledger
from sfumato.exceptions import InvalidInputError
from sfumato.mechanisms.base import taped
from sfumato.models.density import PrivateDensity
from sfumato.models.features import Domain
from sfumato.models.spaces import SobolevSpace

mpl.use("Agg")

BOX = Bounds(lower=0.0, upper=1.0, labels=["a", "b", "c"])


def mixture(rng: np.random.Generator, n: int) -> np.ndarray:
    side = rng.random(n) < 0.5
    return np.where(side, rng.normal(0.3, 0.1, n), rng.normal(0.7, 0.1, n))[:, None]


# Without noise it is the kernel density estimate ------------------------------------------------


@pytest.mark.parametrize("d", [1, 2])
def test_raw_density_is_scikit_learns(d: int, rng: np.random.Generator) -> None:
    X, queries = rng.uniform(size=(300, d)), rng.uniform(size=(50, d))
    ours = PrivateDensity(0.15, epsilon=np.inf, bounds=BOX).fit(X).raw_density(queries)
    oracle = np.exp(KernelDensity(bandwidth=0.15).fit(X).score_samples(queries))
    np.testing.assert_allclose(ours, oracle, rtol=1e-9)


def test_sobolev_release_is_the_same_estimate(rng: np.random.Generator) -> None:
    X = mixture(rng, 200)
    Y = np.column_stack([X, rng.uniform(size=200)])
    x = np.linspace(0, 1, 301)[:, None]
    for rows, queries in ((X, x), (Y, rng.uniform(size=(40, 2)))):
        rows = BOX.clip(rows)
        smooth = PrivateDensity(0.1, epsilon=np.inf, bounds=BOX).fit(rows)
        rough = PrivateDensity(0.1, space="sobolev", epsilon=np.inf, bounds=BOX).fit(rows)
        np.testing.assert_allclose(
            rough.raw_density(queries), smooth.raw_density(queries), atol=2e-2
        )


def test_class_densities_are_those_of_the_classes(rng: np.random.Generator) -> None:
    X, y = rng.uniform(0.3, 0.7, size=(300, 1)), rng.choice(["a", "b", "c"], size=300)
    X[y == "b"] -= 0.1
    model = PrivateDensity(0.05, epsilon=np.inf, bounds=BOX).fit(X, y)
    queries = np.linspace(0.2, 0.8, 30)[:, None]
    for c, label in enumerate(model.classes_):
        alone = KernelDensity(bandwidth=0.05).fit(X[y == label])
        literal = np.exp(alone.score_samples(queries))
        np.testing.assert_allclose(model.class_densities(queries)[:, c], literal, atol=1e-3)
        assert model.class_prior_[c] == pytest.approx((y == label).mean(), abs=1e-3)
    np.testing.assert_allclose(
        model.density(queries), model.class_densities(queries) @ model.class_prior_, rtol=1e-9
    )


# Noise ------------------------------------------------------------------------------------------


def released(model: PrivateDensity, X: np.ndarray, y: np.ndarray | None) -> np.ndarray:
    with taped() as tape:
        model.fit(X, y)
    return np.asarray(tape.releases[-1].statistic), tape.releases[-1].mechanism.sensitivity


@pytest.mark.parametrize("space", ["gaussian", "sobolev"])
@pytest.mark.parametrize(("labelled", "bandwidth"), [(False, 0.1), (True, 0.1), (True, 3.0)])
def test_neighbours_stay_within_the_sensitivity(
    space: str, labelled: bool, bandwidth: float, rng: np.random.Generator
) -> None:
    """With wide bumps a changed label moves two sums, and a changed row hardly any."""
    model = PrivateDensity(bandwidth, space=space, delta=1e-3, bounds=BOX)
    shares = []
    for trial in range(25):
        X, y = rng.uniform(size=(20, 1)), rng.choice(["a", "b"], size=20)
        other, y_other = X.copy(), y.copy()
        X[0], other[0] = ([0.32], [0.65]) if trial == 0 else rng.uniform(size=(2, 1))
        y[0], y_other[0] = ("a", "b") if trial < 2 else rng.choice(["a", "b"], size=2)
        here, bound = released(model, X, y if labelled else None)
        there, _ = released(model, other, y_other if labelled else None)
        shares.append(np.linalg.norm(here - there) / bound)
    assert max(shares) <= 1
    assert max(shares) > 0.95


@pytest.mark.parametrize(
    ("d", "bandwidth", "n"),
    [(1, 0.1, 2000), (1, 1000.0, 30_000), (2, 30.0, 3000), (3, 1000.0, 900)],
)
def test_rounding_errors_of_wide_bumps_are_covered(d, bandwidth, n, rng) -> None:
    """The same rows in another order: all that moves is rounding, which whitening magnifies."""
    space = SobolevSpace(np.full(d, bandwidth), Domain(Bounds(lower=0.0, upper=1.0), d))
    X, one = rng.uniform(size=(n, d)), np.ones((n, 1))
    here, there = (space.statistic(each, one) for each in (X, rng.permutation(X)))
    moved, bound = np.linalg.norm(here - there), space.rounding(n)
    assert bound / 1e6 < moved < bound
    model = PrivateDensity(bandwidth, space="sobolev", delta=1e-5, bounds=BOX)
    scaled, covered = released(model, X, None)
    share = np.linalg.norm(here) / np.linalg.norm(scaled)  # what was released is divided by it
    alone = space.sensitivity("replace_one", 1)
    assert share * covered >= (alone + bound) * (1 - 1e-9)
    assert share * covered <= max(alone * (1 + 2**-10), alone + bound) * (1 + 1e-9)


# Post-processing --------------------------------------------------------------------------------


def test_density_is_one_even_when_noise_is_large(rng: np.random.Generator) -> None:
    X = mixture(rng, 150)
    model = PrivateDensity(0.05, epsilon=0.2, delta=1e-3, bounds=BOX).fit(X)
    x = (np.arange(1024) + 0.5)[:, None] / 1024
    density = model.density(x)
    assert density.min() >= 0
    assert density.mean() == pytest.approx(1, abs=1e-6)
    assert model.raw_density(x).min() < 0
    assert model.density([[-0.01], [1.01]]).tolist() == [0, 0]
    assert np.isneginf(model.score_samples([[2.0]]))[0]
    np.testing.assert_allclose(np.exp(model.score_samples(x)), density)


# Bandwidth --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"space": "sobolev"},
        {"space": "sobolev", "bandwidth": 1e6},
        {"bandwidth": "private"},
        {"bandwidth": [0.1, 0.1]},
        {"bandwidth": [[0.1, 0.0], [0.0, 0.1]]},
        {"n_fourier": 7},
    ],
)
def test_nothing_is_charged_for_a_space_that_cannot_be_built(change: dict[str, object]) -> None:
    budget = Ledger().create("rows", epsilon=1.0, delta=1e-3)
    model = PrivateDensity(0.02, delta=1e-5, bounds=BOX, ledger=budget).set_params(**change)
    with pytest.raises(InvalidInputError):
        model.fit(np.full((50, 4), 0.5))
    assert budget.events() == ()
