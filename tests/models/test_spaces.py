"""Sensitivities against brute force: never exceeded, and attained."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.integrate import quad

from sfumato import Bounds
from sfumato.exceptions import InvalidInputError
from sfumato.models.covariance import ExponentialKernel, GaussianKernel, KernelExpansion
from sfumato.models.features import Domain
from sfumato.models.kernel import minimiser_sensitivity
from sfumato.models.solvers import HuberHingeLoss, LogisticLoss, ScoreHuberLoss, ScoreLoss, minimise
from sfumato.models.spaces import (
    MarkovLine,
    Nodes,
    SobolevSpace,
    feature_sum_sensitivity,
    sobolev_inner_product,
    sobolev_sensitivity,
)
from sfumato.papers.functions.printed import printed_sobolev_sensitivity

RELATIONS = ["replace_one", "add_or_remove_one"]


# Kernel density estimates ------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2])
def test_kde_moves_by_the_printed_bound_and_far_points_attain_it(
    d: int, rng: np.random.Generator
) -> None:
    """``sqrt2 / (n (2 pi h²)^(d/2))`` in the norm of the kernel's own space."""
    h, n = 0.1, 50
    kernel = GaussianKernel(h)
    rows = rng.uniform(0, 1, size=(n, d))
    bound = math.sqrt(2) / (n * (2 * math.pi * h**2) ** (d / 2))
    weight = 1 / (n * kernel.normaliser(d))

    def distance(x: np.ndarray, z: np.ndarray) -> float:
        # All common rows cancel in f_D - f_D'; they are kept, as a brute force would keep them.
        centres = np.vstack([rows[1:], x, rows[1:], z])
        weights = weight * np.repeat([1.0, -1.0], n)
        return KernelExpansion(kernel, centres, weights).norm()

    pairs = [distance(*rng.uniform(0, 1, size=(2, d))) for _ in range(40)]
    assert max(pairs) <= bound * (1 + 1e-9)
    assert distance(np.zeros(d), np.full(d, 50.0)) == pytest.approx(bound, rel=1e-9)
    ours = feature_sum_sensitivity("replace_one") * weight
    assert ours == pytest.approx(bound, rel=1e-12)


@given(st.floats(0, 1), st.integers(1, 6))
def test_classes_cost_no_more_than_root_two(smallest: float, n_classes: int) -> None:
    bound = feature_sum_sensitivity("replace_one", min_kernel=smallest, n_classes=n_classes)
    assert bound <= math.sqrt(2)
    assert bound == pytest.approx(math.sqrt(2 - 2 * smallest if n_classes == 1 else 2))
    assert feature_sum_sensitivity("add_or_remove_one", n_classes=n_classes) == 1


# Regularised minimisers --------------------------------------------------------------------------


def _random_problem(
    rng: np.random.Generator, n: int, regression: bool
) -> tuple[np.ndarray, np.ndarray]:
    features = rng.normal(size=(n, 5))
    features /= np.maximum(1, np.linalg.norm(features, axis=1, keepdims=True))
    y = rng.uniform(-1, 1, size=n) if regression else rng.choice([-1.0, 1.0], size=n)
    return features, y


@pytest.mark.parametrize("loss", [HuberHingeLoss(0.02), LogisticLoss(), ScoreHuberLoss(0.02)])
@pytest.mark.parametrize("regularization", [0.01, 0.1, 1.0])
def test_neighbours_never_exceed_the_bound_of_minimisers(
    loss: ScoreLoss, regularization: float, rng: np.random.Generator
) -> None:
    n, gap = 12, 1e-13
    is_regression = isinstance(loss, ScoreHuberLoss)
    settings = {"lipschitz": 1.0, "feature_norm": 1.0, "regularization": regularization}
    replaced = minimiser_sensitivity("replace_one", n_rows=n, gap=gap, **settings)
    removed = minimiser_sensitivity("add_or_remove_one", n_rows=n, gap=gap, **settings)
    for _ in range(8):
        features, y = _random_problem(rng, n, is_regression)
        other, y_other = features.copy(), y.copy()
        other[0], y_other[0] = (part[0] for part in _random_problem(rng, 1, is_regression))
        solve = {"regularization": regularization, "tolerance": gap, "n_rows": n}
        w = minimise(features, y, loss, **solve).coefficients
        w_replaced = minimise(other, y_other, loss, **solve).coefficients
        w_removed = minimise(features[1:], y[1:], loss, **solve).coefficients
        assert np.linalg.norm(w - w_replaced) <= replaced
        assert np.linalg.norm(w - w_removed) <= removed


def test_one_row_attains_the_bound_of_minimisers() -> None:
    """n = 1, the label turned: ``w = ± phi / 2λ`` while the hinge is active, so 1/λ apart."""
    phi, loss = np.array([[0.6, 0.8]]), HuberHingeLoss(0.02)
    for regularization in (0.6, 1.0, 4.0):
        w = [
            minimise(
                phi, np.array([y]), loss, regularization=regularization, tolerance=1e-15
            ).coefficients
            for y in (-1.0, 1.0)
        ]
        bound = minimiser_sensitivity(
            "replace_one",
            lipschitz=1.0,
            feature_norm=1.0,
            regularization=regularization,
            n_rows=1,
        )
        assert np.linalg.norm(w[0] - w[1]) == pytest.approx(bound, rel=1e-6)
        assert bound == 1 / regularization


def test_half_of_the_bound_is_too_little() -> None:
    """Negative control: a missing factor two for replacement would be seen."""
    phi, loss = np.array([[1.0]]), HuberHingeLoss(0.02)
    w = [
        minimise(phi, np.array([y]), loss, regularization=1.0, tolerance=1e-15).coefficients
        for y in (-1.0, 1.0)
    ]
    half = minimiser_sensitivity(
        "add_or_remove_one", lipschitz=1.0, feature_norm=1.0, regularization=1.0, n_rows=1
    )
    assert abs(float(w[0][0] - w[1][0])) > 1.9 * half


# The Sobolev space -------------------------------------------------------------------------------


@pytest.mark.parametrize(("a", "b"), [(3.0, 3.0), (0.0, 0.0), (3.2, 6.5), (0.5, 9.9)])
def test_inner_product_is_the_printed_norm(a: float, b: float) -> None:
    """Equation (9) by quadrature, in units of the bandwidth (γ = 1)."""
    width = 10.0

    def bump(x: float, centre: float) -> float:
        return math.exp(-((x - centre) ** 2) / 2) / math.sqrt(2 * math.pi)

    def integrand(x: float) -> float:
        product = bump(x, a) * bump(x, b)
        return product * ((x - a) * (x - b) + 1)

    ends = (bump(0, a) * bump(0, b) + bump(width, a) * bump(width, b)) / 2
    literal = ends + quad(integrand, 0, width, points=[a, b], limit=200)[0] / 2
    ours = float(sobolev_inner_product(np.array(a), np.array(b), width))
    assert ours == pytest.approx(literal, abs=1e-10)


@pytest.mark.parametrize("width", [0.5, 2.0, 10.0])
def test_sobolev_sensitivity_is_certified_and_tight(width: float) -> None:
    grid = np.linspace(0, width, 401)
    a, b = np.meshgrid(grid, grid)
    square = sobolev_inner_product(a, a, width) + sobolev_inner_product(b, b, width)
    largest = math.sqrt((square - 2 * sobolev_inner_product(a, b, width)).max())
    bound = sobolev_sensitivity("replace_one", [width])
    assert largest <= bound <= largest * 1.01 + 0.004
    alone = math.sqrt(sobolev_inner_product(grid, grid, width).max())
    assert alone <= sobolev_sensitivity("add_or_remove_one", [width]) <= alone * 1.01 + 0.004


def test_sobolev_sensitivity_in_the_plane(rng: np.random.Generator) -> None:
    widths = np.array([3.0, 8.0])
    a, b = rng.uniform(size=(2, 20000, 2)) * widths
    b[:10000, 0] = a[:10000, 0]  # one coordinate shared: near the worst case

    def product(x: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.prod(
            [sobolev_inner_product(x[:, j], z[:, j], widths[j]) for j in range(2)], axis=0
        )

    found = np.sqrt(product(a, a) + product(b, b) - 2 * product(a, b)).max()
    bound = sobolev_sensitivity("replace_one", widths)
    assert 0.95 * bound < found <= bound
    assert bound < printed_sobolev_sensitivity(2)


def test_widths_must_be_positive() -> None:
    with pytest.raises(InvalidInputError, match="widths"):
        sobolev_sensitivity("replace_one", [])
    with pytest.raises(InvalidInputError, match="widths"):
        sobolev_sensitivity("replace_one", [1.0, -1.0])


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("bandwidth", "width"), [(1.0, 0.5), (0.4, 0.8), (3.0, 60.0)])
def test_a_changed_label_moves_two_sums_of_bumps(
    relation: str, bandwidth: float, width: float
) -> None:
    """In a narrow box a changed label moves the sums farther than any change of the row."""
    space = SobolevSpace(np.array([bandwidth]), Domain(Bounds(lower=0.0, upper=width), 1))
    first, second = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    rows = np.linspace(0, width, 41)[:, None]
    moved = []
    for row in rows:
        here = space.statistic(row[None], first)
        if relation == "add_or_remove_one":
            moved.append(np.linalg.norm(here))
            continue
        others = [space.statistic(other[None], each) for other in rows for each in (first, second)]
        moved += [np.linalg.norm(here - there) for there in others]
    bound = space.sensitivity(relation, 2)
    assert 0.97 * bound <= max(moved) <= bound * (1 + 1e-9)


@pytest.mark.parametrize("relation", RELATIONS)
def test_long_features_move_a_minimiser_in_proportion(relation: str) -> None:
    words = {"lipschitz": 0.7, "regularization": 0.3, "n_rows": 9}
    one = minimiser_sensitivity(relation, feature_norm=1.0, **words)
    assert minimiser_sensitivity(relation, feature_norm=3.0, **words) == pytest.approx(3 * one)
    assert one == pytest.approx(0.7 / (0.3 * 9) / (1 if relation == "replace_one" else 2))


@pytest.mark.parametrize("rate", [0.1, 3.0, 200.0])
def test_line_is_the_cholesky_factor(rate, rng):
    points = np.sort(rng.uniform(0, 1, 30))
    line = MarkovLine(points, rate)
    factor = line.colour(np.eye(30))
    gram = ExponentialKernel(rate)(points[:, None], points[:, None])
    np.testing.assert_allclose(factor, np.linalg.cholesky(gram), atol=1e-10)
    values = rng.normal(size=(30, 4))
    np.testing.assert_allclose(line.colour(line.whiten(values)), values, atol=1e-10)


def test_line_of_one_point_and_of_equal_points():
    assert MarkovLine(np.array([0.3]), 2.0).whiten(np.array([5.0])) == [5.0]
    with pytest.raises(InvalidInputError, match="strictly"):
        MarkovLine(np.array([0.3, 0.3]), 2.0)


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_nodes_integrate(d: int) -> None:
    """The integral of a product of parabolas over a box."""
    nodes = Nodes(Domain(Bounds(lower=-1.0, upper=2.0), d))
    assert nodes.volume * len(nodes.points) == pytest.approx(3.0**d)
    integral = np.prod(nodes.points**2, axis=1).sum() * nodes.volume
    assert integral == pytest.approx(3.0**d, rel=0.02)
    assert nodes.points.min() >= -1
    assert nodes.points.max() <= 2


@pytest.mark.parametrize("d", [2, 4])
def test_scattered_rows_stay_in_their_cells(d: int, rng: np.random.Generator) -> None:
    nodes = Nodes(Domain(Bounds(lower=0.0, upper=1.0), d))
    numbers = rng.integers(len(nodes.points), size=500)
    rows = nodes.scatter(numbers, rng.uniform(size=(500, d)))
    assert (np.abs(rows - nodes.points[numbers]) <= nodes.sides / 2 + 1e-12).all()
    assert rows.min() >= 0
    assert rows.max() <= 1
