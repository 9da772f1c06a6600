"""The private density: oracle, sensitivity, post-processing, samples, utility."""

from __future__ import annotations

import math
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from scipy.stats import gaussian_kde, kstest, multivariate_normal, norm
from sklearn.neighbors import KernelDensity

from sfumato import Bounds, Ledger, load, save
from sfumato.audit.testing import seeded_noise
from sfumato.exceptions import InvalidInputError, UnsupportedModeError
from sfumato.mechanisms.base import taped
from sfumato.models.density import PrivateDensity, _added_up
from sfumato.models.features import Domain
from sfumato.models.spaces import SobolevSpace
from sfumato.papers.functions import PrintedDensity
from sfumato.privacy.guarantee import Status

mpl.use("Agg")

BOX = Bounds(lower=0.0, upper=1.0, labels=["a", "b", "c"])


def mixture(rng: np.random.Generator, n: int) -> np.ndarray:
    side = rng.random(n) < 0.5
    return np.where(side, rng.normal(0.3, 0.1, n), rng.normal(0.7, 0.1, n))[:, None]


def mixture_density(x: np.ndarray) -> np.ndarray:
    return (norm.pdf(x, 0.3, 0.1) + norm.pdf(x, 0.7, 0.1)) / 2


# Without noise it is the kernel density estimate ------------------------------------------------


@pytest.mark.parametrize("d", [1, 2])
def test_raw_density_is_scikit_learns(d: int, rng: np.random.Generator) -> None:
    X, queries = rng.uniform(size=(300, d)), rng.uniform(size=(50, d))
    ours = PrivateDensity(0.15, epsilon=np.inf, bounds=BOX).fit(X).raw_density(queries)
    oracle = np.exp(KernelDensity(bandwidth=0.15).fit(X).score_samples(queries))
    np.testing.assert_allclose(ours, oracle, rtol=1e-9)


def test_full_and_diagonal_bandwidths(rng: np.random.Generator) -> None:
    X, queries = rng.uniform(size=(80, 2)), rng.uniform(size=(30, 2))
    H = np.array([[0.04, 0.015], [0.015, 0.02]])
    for bandwidth, covariance in ((H, H), ([0.2, 0.1], np.diag([0.04, 0.01]))):
        model = PrivateDensity(bandwidth, epsilon=np.inf, bounds=BOX).fit(X)
        literal = np.mean([multivariate_normal(x, covariance).pdf(queries) for x in X], axis=0)
        np.testing.assert_allclose(model.raw_density(queries), literal, rtol=1e-8)


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


def test_more_features_go_through_random_features(rng: np.random.Generator) -> None:
    X = np.clip(rng.normal(0.5, 0.15, size=(2000, 5)), 0, 1)
    model = PrivateDensity(0.2, epsilon=np.inf, bounds=BOX, n_fourier=4096).fit(X)
    assert model.features_["kind"] == "fourier"
    literal = np.exp(KernelDensity(bandwidth=0.2).fit(X).score_samples(X[:200]))
    error = model.raw_density(X[:200]) - literal
    assert np.abs(error).mean() < 0.1 * literal.mean()
    assert model.masses_.sum() == pytest.approx(1)


def test_add_or_remove_needs_no_count(rng: np.random.Generator) -> None:
    X, x = mixture(rng, 3000), np.linspace(0, 1, 50)[:, None]
    known = PrivateDensity(0.08, epsilon=np.inf, bounds=BOX).fit(X)
    secret = PrivateDensity(0.08, epsilon=np.inf, relation="add_or_remove_one", bounds=BOX).fit(X)
    np.testing.assert_allclose(secret.density(x), known.density(x), atol=0.02)
    assert not hasattr(secret, "n_rows_")


# Noise ------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:delta=")  # the paper's beta is above 1/n
def test_noise_of_the_figures(rng: np.random.Generator) -> None:
    """n = 100, h = 0.1, alpha = 1, beta = 0.1: D = .0564, sd .138 printed and .0613 analytic."""
    X, x = mixture(rng, 100), np.linspace(0, 1, 5)[:, None]
    for mode, space, expected in (
        ("paper", "gaussian", 0.1381),
        ("strict", "gaussian", 0.0613),
        ("paper", "sobolev", 0.3092),
        ("strict", "sobolev", 0.0728),
    ):
        kind = {"paper": PrintedDensity, "strict": PrivateDensity}[mode]
        model = kind(0.1, delta=0.1, space=space, bounds=BOX)
        exact = PrivateDensity(0.1, epsilon=np.inf, delta=0.1, space=space, bounds=BOX)
        plain = exact.fit(X).raw_density(x)
        draws = [model.fit(X).raw_density(x) - plain for _ in range(120)]
        # 600 correlated values: their root mean square is within 12 % all but surely.
        assert np.sqrt(np.mean(np.square(draws))) == pytest.approx(expected, rel=0.15)
        assert model.guarantee_.epsilon <= 1
        assert model.guarantee_.status is Status.PROVED


def test_the_printed_noise_promises_less_than_it_keeps(rng: np.random.Generator) -> None:
    X = mixture(rng, 200)
    printed = PrintedDensity(0.1, delta=1e-5, bounds=BOX).fit(X)
    assert printed.guarantee_.epsilon == pytest.approx(0.7353, abs=1e-3)
    with pytest.raises(InvalidInputError, match="at most 1 only"):
        PrintedDensity(0.1, epsilon=1.5, delta=1e-5, bounds=BOX).fit(X)


def released(model: PrivateDensity, X: np.ndarray, y: np.ndarray | None) -> np.ndarray:
    with taped() as tape:
        model.fit(X, y)
    return np.asarray(tape.releases[-1].statistic), tape.releases[-1].mechanism.sensitivity


@pytest.mark.parametrize("space", ["gaussian", "sobolev"])
@pytest.mark.parametrize("labelled", [False, True])
def test_neighbours_stay_within_the_sensitivity(
    space: str, labelled: bool, rng: np.random.Generator
) -> None:
    model = PrivateDensity(0.1, space=space, delta=1e-3, bounds=BOX)
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
    X, codes = rng.uniform(size=(n, d)), np.zeros(n, dtype=int)
    here, there = (_added_up(space, each, codes, 1) for each in (X, rng.permutation(X)))
    moved, bound = np.linalg.norm(here - there), space.rounding(n)
    assert bound / 1e6 < moved < bound
    model = PrivateDensity(bandwidth, space="sobolev", delta=1e-5, bounds=BOX)
    scaled, covered = released(model, X, None)
    share = np.linalg.norm(here) / np.linalg.norm(scaled)  # what was released is divided by it
    alone = space.sensitivity("replace_one", 1)
    assert share * covered >= (alone + bound) * (1 - 1e-9)
    assert share * covered <= max(alone * (1 + 2**-10), alone + bound) * (1 + 1e-9)


def test_bumps_far_wider_than_the_box_are_refused_before_the_charge() -> None:
    budget = Ledger().create("rows", epsilon=1.0, delta=1e-3)
    model = PrivateDensity(1e6, space="sobolev", delta=1e-3, bounds=BOX, ledger=budget)
    with pytest.raises(InvalidInputError, match="1000 times as wide"):
        model.fit(np.linspace(0, 1, 100)[:, None])
    assert budget.events() == ()


def test_blocks_are_added_up_without_loss(rng: np.random.Generator, monkeypatch) -> None:
    """Against sums of many digits; plain sums of so many blocks are off by far more."""

    class Numbers:
        def statistic(self, rows, weights):
            return rows.sum(axis=0) * weights[0]

    monkeypatch.setattr("sfumato.models.density.BLOCK", 1)
    rows = rng.uniform(size=(20_000, 1)) * 10.0 ** rng.integers(-8, 8, size=(20_000, 1))
    exact = math.fsum(rows[:, 0])
    found = _added_up(Numbers(), rows, np.zeros(20_000, dtype=int), 1)
    assert found[0] == pytest.approx(exact, rel=2**-52, abs=0)


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


def test_the_density_is_no_worse_than_the_release(rng: np.random.Generator, seed: int) -> None:
    x = (np.arange(1024) + 0.5)[:, None] / 1024
    truth = mixture_density(x[:, 0])
    for n in (100, 300, 1000):
        with seeded_noise(seed + n):
            model = PrivateDensity(0.07, epsilon=0.5, delta=1e-3, bounds=BOX).fit(mixture(rng, n))
        kept = np.sum((model.density(x) / model.gain_ - truth) ** 2)  # before what leaked is added
        assert kept <= np.sum((model.raw_density(x) - truth) ** 2) * (1 + 1e-3)
        assert 1 - 1e-9 <= model.gain_ < 2


def test_samples_follow_the_released_density(rng: np.random.Generator) -> None:
    model = PrivateDensity(0.08, delta=1e-5, bounds=BOX).fit(mixture(rng, 2000))
    drawn = model.sample(4000, random_state=1)
    assert isinstance(drawn, np.ndarray)
    edges = np.linspace(0, 1, 1025)
    cdf = np.concatenate([[0], np.cumsum(model.masses_[:, 0])])
    assert kstest(drawn[:, 0], lambda t: np.interp(t, edges, cdf)).pvalue > 1e-6
    assert kstest(drawn[:, 0], "uniform").pvalue < 1e-6
    np.testing.assert_array_equal(drawn, model.sample(4000, random_state=1))


def test_samples_with_labels(rng: np.random.Generator) -> None:
    X, y = rng.uniform(size=(1000, 2)), np.repeat(["a", "b"], 500)
    X[500:] *= 0.3
    model = PrivateDensity(0.1, epsilon=4.0, delta=1e-5, bounds=BOX).fit(X, y)
    rows, labels = model.sample(3000, random_state=0)
    assert rows.shape == (3000, 2)
    assert set(labels) <= {"a", "b", "c"}
    assert (labels == "b").mean() == pytest.approx(0.5, abs=0.1)
    assert rows[labels == "b"].mean() < 0.3 < 0.4 < rows[labels == "a"].mean()


def test_saved_density_answers_the_same(tmp_path: Path, rng: np.random.Generator) -> None:
    for space in ("gaussian", "sobolev"):
        model = PrivateDensity(0.1, space=space, delta=1e-5, bounds=BOX).fit(mixture(rng, 200))
        save(model, tmp_path / "density.sfumato")
        loaded = load(tmp_path / "density.sfumato")
        x = np.linspace(0, 1, 33)[:, None]
        np.testing.assert_array_equal(loaded.density(x), model.density(x))
        np.testing.assert_array_equal(
            loaded.sample(10, random_state=3), model.sample(10, random_state=3)
        )


def test_pictures(rng: np.random.Generator) -> None:
    line = PrivateDensity(0.1, delta=1e-5, bounds=BOX).fit(mixture(rng, 100))
    assert len(line.plot(raw=True).lines) == 2
    classes = PrivateDensity(0.1, delta=1e-5, bounds=BOX).fit(
        mixture(rng, 100), np.repeat(["a", "b"], 50)
    )
    assert len(classes.plot().lines) == 3
    plane = PrivateDensity(0.2, delta=1e-5, bounds=BOX).fit(rng.uniform(size=(100, 2)))
    axes = plane.plot()
    assert plane.plot(ax=axes) is axes
    space = PrivateDensity(0.3, delta=1e-5, bounds=BOX).fit(rng.uniform(size=(50, 3)))
    with pytest.raises(InvalidInputError, match="one or two"):
        space.plot()
    mpl.pyplot.close("all")


# Bandwidth --------------------------------------------------------------------------------------


def test_private_bandwidth_is_charged_and_sensible(rng: np.random.Generator) -> None:
    X = np.clip(rng.normal(0.5, 0.1, size=(4000, 1)), 0, 1)
    model = PrivateDensity(method="process", delta=1e-5, bounds=BOX).fit(X)
    assert len(model.guarantee_.events) == 2
    assert model.guarantee_.epsilon <= 1
    silverman = gaussian_kde(X[:, 0], "silverman").factor * X.std()
    assert model.bandwidth_[0] == pytest.approx(silverman, rel=0.35)


def test_private_bandwidth_needs_a_public_count() -> None:
    model = PrivateDensity(method="process", relation="add_or_remove_one", bounds=BOX)
    with pytest.raises(UnsupportedModeError, match="bandwidth"):
        model.fit(np.zeros((10, 1)))


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"space": "fourier"}, "space"),
        ({"bandwidth": "silverman"}, "bandwidth"),
        ({"bandwidth": -1.0}, "bandwidth"),
        (
            {"method": "process", "bandwidth": "private", "bandwidth_share": 1.0},
            "bandwidth_share",
        ),
        ({"space": "sobolev", "bandwidth": [[1.0, 0.0], [0.0, 1.0]]}, "matrix"),
    ],
)
def test_wrong_choices_are_named(change: dict[str, object], word: str) -> None:
    model = PrivateDensity(0.1, delta=1e-5, bounds=BOX).set_params(**change)
    with pytest.raises(InvalidInputError, match=word):
        model.fit(np.full((50, 2), 0.5))


class NoCharge:
    """A ledger that must not be asked."""

    def charge(self, *events: object, unit: object = None, relation: object = None) -> None:
        raise AssertionError("charged before the parameters were checked")


@pytest.mark.parametrize(
    "change",
    [
        {"space": "sobolev"},
        {"space": "sobolev", "bandwidth": "private"},
        {"bandwidth": [0.1, 0.1]},
        {"bandwidth": [[0.1, 0.0], [0.0, 0.1]]},
        {"n_fourier": 7},
    ],
)
def test_nothing_is_charged_for_a_space_that_cannot_be_built(change: dict[str, object]) -> None:
    model = PrivateDensity(0.02, delta=1e-5, bounds=BOX, ledger=NoCharge()).set_params(**change)
    with pytest.raises(InvalidInputError):
        model.fit(np.full((50, 4), 0.5))


def test_a_wide_kernel_keeps_some_sensitivity(rng: np.random.Generator) -> None:
    model = PrivateDensity(1e3, delta=1e-5, bounds=BOX)
    assert released(model, rng.uniform(size=(20, 1)), None)[1] == pytest.approx(1, rel=2e-3)
    assert model.density([[0.5]])[0] == pytest.approx(1, abs=0.2)


# Utility ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2])
def test_risk_falls_at_the_rate_of_the_estimate(d: int) -> None:
    """Slope of log risk in log n near -4/(4 + d), with ``h = c n^(-1/(4 + d))``.

    The noise adds a term of order ``1/(n h^d)²``, which falls faster and is small here.
    """
    sizes = np.array([1000, 8000, 64000])
    centre, sd = 0.5, 0.12
    nodes = (np.arange(40) + 0.5) / 40
    x = np.stack(np.meshgrid(*[nodes] * d), axis=-1).reshape(-1, d)
    truth = np.prod(norm.pdf(x, centre, sd), axis=1)
    risks = []
    for n in sizes:
        h = 1.5 * sd * n ** (-1 / (4 + d))
        found = []
        for seed in range(6):
            rng = np.random.default_rng(seed)
            rows = rng.normal(centre, sd, size=(n, d))
            with seeded_noise(seed):
                model = PrivateDensity(h, epsilon=1.0, delta=1e-5, bounds=BOX).fit(rows)
            found.append(np.mean((model.density(x) - truth) ** 2))
        risks.append(np.mean(found))
    slope = np.polyfit(np.log(sizes), np.log(risks), 1)[0]
    assert slope == pytest.approx(-4 / (4 + d), abs=0.2)
