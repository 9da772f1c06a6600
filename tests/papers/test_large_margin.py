"""Large-margin ellipsoids: the classifier, the mended mechanism and the printed one."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi, kstest
from sklearn.base import clone
from sklearn.datasets import load_iris, make_blobs

from sfumato import Bounds, Ledger
from sfumato.audit.testing import seeded_noise, taint_test
from sfumato.exceptions import BudgetExceededError, InvalidInputError, RefutedGuaranteeWarning
from sfumato.mechanisms.base import taped
from sfumato.mechanisms.objective import GaussianObjectiveMechanism
from sfumato.papers.large_margin.classifier import LargeMarginGaussianClassifier
from sfumato.papers.large_margin.ellipsoids import (
    LargeMarginObjective,
    MarginLimits,
    MarginLoss,
    PerturbableSum,
    cone_residual,
    extended,
    minimise_strongly_convex,
    penalised,
    quadratic_features,
    shifted_into_cone,
    to_matrices,
    to_vectors,
)
from sfumato.papers.large_margin.printed import PrintedLargeMarginClassifier, PrintedObjective
from sfumato.papers.large_margin.private import PrivateLargeMarginGaussianClassifier
from sfumato.papers.large_margin.risk import excess_risk_bound, printed_risk_bounds
from sfumato.papers.perturbed import ObjectiveBudget
from sfumato.privacy import epsilon_spent
from sfumato.privacy.events import NonPrivateEvent
from sfumato.privacy.guarantee import Relation, Status
from tests.privacy.events import objective_delta


def random_problem(
    rng: np.random.Generator, loss: MarginLoss, n_ellipsoids: int = 3
) -> tuple[LargeMarginObjective, np.ndarray]:
    rows = extended(rng.normal(size=(40, 3)))
    own = rng.integers(n_ellipsoids, size=40)
    objective = LargeMarginObjective(rows, own, n_ellipsoids, loss, 1 / 40)
    return objective, rng.normal(size=objective.shape)


# The objective against literal formulas ----------------------------------------------------------


def printed_huber(difference: float, h: float) -> float:
    """Loss (6) with the margin 1 of (4): `difference` is ``aᵀ(Φ_c - Φ_y)a - 1``."""
    if difference > h:
        return 0.0
    if abs(difference) <= h:
        return (h - difference) ** 2 / (4 * h)
    return -difference


@pytest.mark.parametrize("width", [0.1, 0.5, 2.0])
def test_the_objective_is_the_printed_sum(rng: np.random.Generator, width: float) -> None:
    objective, W = random_problem(rng, MarginLoss(width))
    matrices = to_matrices(W)
    total = 0.0
    for a, y in zip(objective.rows, objective.own, strict=True):
        for c in range(3):
            if c != y:
                total += printed_huber(a @ (matrices[c] - matrices[y]) @ a - 1, width)
    assert objective.value_and_gradient(W)[0] == pytest.approx(total / 40, rel=1e-12)


@pytest.mark.parametrize("loss", [MarginLoss(0.5), MarginLoss(2.0, 0.0)])
def test_derivatives_by_finite_differences(rng: np.random.Generator, loss: MarginLoss) -> None:
    objective, W = random_problem(rng, loss, n_ellipsoids=4)
    direction = rng.normal(size=W.shape) * 1e-5
    up, down = (objective.value_and_gradient(W + sign * direction) for sign in (1, -1))
    slope = 2 * np.sum(objective.gradient(W) * direction)
    assert up[0] - down[0] == pytest.approx(slope, abs=1e-10)
    if loss.width > 1:  # few rows at a kink of the slope
        bent = 2 * objective.curved(W, direction)
        np.testing.assert_allclose(up[1] - down[1], bent, atol=1e-5 * np.abs(bent).max())


# Minimisers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("regularizer", "weight", "expected"),
    [("trace", 0.01, 0.125095), ("trace", 0.001, 0.048673), ("frobenius", 0.01, 0.117390)],
)
def test_iris_objectives_equal_those_of_an_interior_point_solver(
    regularizer: str, weight: float, expected: float
) -> None:
    """The expected values are those that Clarabel finds for the same semidefinite programme."""
    X, y = load_iris(return_X_y=True)
    model = LargeMarginGaussianClassifier(regularizer=regularizer, regularization=weight).fit(X, y)
    assert abs(model.objective_ - expected) < 1e-5
    assert model.residual_ < 1e-6
    assert np.linalg.eigvalsh(model.matrices_).min() > -1e-9


def test_a_common_shift_changes_no_decision_and_clipping_does() -> None:
    X, y = load_iris(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    objective = LargeMarginObjective(extended(X), y, 3, MarginLoss(0.5), 1 / len(X))
    free = to_matrices(minimise_strongly_convex(objective, quadratic=0.01, tolerance=1e-10))
    features = quadratic_features(extended(X))
    before = (features @ to_vectors(free).T).argmin(axis=1)
    shifted = shifted_into_cone(free)
    assert np.linalg.eigvalsh(free).min() < -1
    assert np.linalg.eigvalsh(shifted).min() > -1e-12
    np.testing.assert_array_equal((features @ to_vectors(shifted).T).argmin(axis=1), before)
    values, axes = np.linalg.eigh(free)
    clipped = (axes * np.maximum(values, 0)[:, None, :]) @ np.swapaxes(axes, 1, 2)
    wrong = (features @ to_vectors(clipped).T).argmin(axis=1)
    assert (wrong != before).sum() >= 1


# The estimator -----------------------------------------------------------------------------------


def limits(n_classes: int, order: int = 3, n_rows: int = 2**22) -> MarginLimits:
    return MarginLimits(MarginLoss(0.5), n_classes, n_rows, order * (order + 1) // 2)


def budget_of(known: MarginLimits, relation: Relation, **changes: Any) -> ObjectiveBudget:
    usual = {"epsilon": 1.0, "delta": 1e-5, "pca_share": 0.0, "regularization": None}
    return ObjectiveBudget(
        relation=relation, limits=known, n_features=3, n_rows=known.n_rows, **(usual | changes)
    )


def unit_rows(rng: np.random.Generator, n: int, order: int) -> np.ndarray:
    rows = rng.normal(size=(n, order))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def one_record(row: np.ndarray, label: int, n_classes: int, width: float = 0.5) -> PerturbableSum:
    return PerturbableSum(row[None], np.array([label]), n_classes, MarginLoss(width))


# The constants -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_sensitivity_by_brute_force(rng: np.random.Generator, n_classes: int) -> None:
    """Rows and labels in every pair, at points where slopes are 1, 0 and between."""
    rows = np.vstack([unit_rows(rng, 6, 3), np.eye(3), -np.eye(3)[:1]])
    labels = range(min(n_classes, 3))
    shape = one_record(rows[0], 0, n_classes).shape
    largest = dict.fromkeys(Relation, 0.0)
    for W in (np.zeros(shape), *(rng.normal(size=(3, *shape)) * [[[0.1]], [[1]], [[10]]])):
        gradients = np.array(
            [one_record(r, y, n_classes).gradient(W).ravel() for r, y in product(rows, labels)]
        )
        apart = np.linalg.norm(gradients[:, None] - gradients[None], axis=2).max()
        for relation, moved in zip(
            Relation, (apart, np.linalg.norm(gradients, axis=1).max()), strict=True
        ):
            assert moved <= limits(n_classes).sensitivity(relation) * (1 + 1e-12)
            largest[relation] = max(largest[relation], moved)
    for relation in Relation:
        assert largest[relation] >= 0.999 * limits(n_classes).sensitivity(relation)


@pytest.mark.parametrize("n_classes", [2, 3, 6])
@pytest.mark.parametrize("convexity", [0.1, 3.0])
def test_curvature_bound_by_determinants(
    rng: np.random.Generator, n_classes: int, convexity: float
) -> None:
    bound = limits(n_classes).log_determinant(convexity)
    row = unit_rows(rng, 1, 2)[0]
    record = one_record(row, 0, n_classes)
    size = math.prod(record.shape)
    features = quadratic_features(row[None])[0]
    largest = 0.0
    for own_score in (-1.0, *rng.uniform(-2, 1, size=8)):  # -1: no margin to any class is lacking
        W = 0.3 * (own_score != -1.0) * rng.normal(size=record.shape)
        W[0] = own_score * features
        hessian = np.array(
            [record.curved(W, e.reshape(record.shape)).ravel() for e in np.eye(size)]
        )
        _, log_determinant = np.linalg.slogdet(np.eye(size) + hessian / convexity)
        assert log_determinant <= bound + 1e-9
        largest = max(largest, log_determinant)
    assert largest >= 0.999 * bound


def exact_loss(
    here: PerturbableSum,
    near: PerturbableSum,
    W: np.ndarray,
    b: np.ndarray,
    mechanism: GaussianObjectiveMechanism,
) -> float:
    """Log-ratio of the densities of the minimiser W under two data sets, term by term."""
    there = b + here.gradient(W) - near.gradient(W)
    size, convexity = W.size, mechanism.strong_convexity
    logs = []
    for data in (here, near):
        hessian = [data.curved(W, e.reshape(W.shape)).ravel() for e in np.eye(size)]
        logs.append(np.linalg.slogdet(np.array(hessian) + convexity * np.eye(size))[1])
    norms = (np.sum(there**2) - np.sum(b**2)) / (2 * mechanism.variance())
    return float(norms + logs[0] - logs[1])


def test_the_exact_privacy_loss_stays_below_its_bound(rng: np.random.Generator) -> None:
    """One feature, three rows, two classes, the worst neighbour: 400 minimisers."""
    rows, labels = unit_rows(rng, 3, 2), np.array([0, 1, 0])
    here = PerturbableSum(rows, labels, 2, MarginLoss(0.5))
    near = PerturbableSum(rows, np.array([0, 1, 1]), 2, MarginLoss(0.5))
    mechanism = budget_of(limits(2, 2), Relation.REPLACE_ONE, delta=1e-3).objective()
    assert isinstance(mechanism, GaussianObjectiveMechanism)
    deviation = math.sqrt(mechanism.variance())
    losses = []
    for _ in range(400):
        b = rng.normal(size=here.shape) * deviation
        W = here.minimise(b, mechanism.strong_convexity, 1e-9)
        losses.append(exact_loss(here, near, W, b, mechanism))
    bound = mechanism.kappa + 0.5 / mechanism.noise_multiplier**2
    quantiles = bound + chi.ppf([0.5, 0.9, 0.99], 2) / mechanism.noise_multiplier
    assert np.all(np.quantile(losses, [0.5, 0.9, 0.99]) <= quantiles)
    assert np.mean(np.maximum(0, 1 - np.exp(1.0 - np.array(losses)))) <= 1e-3
    assert max(losses) > 0.2  # the bound is not idle either


# The mechanism -----------------------------------------------------------------------------------


def problem(rng: np.random.Generator, n: int = 60, n_classes: int = 3) -> PerturbableSum:
    rows = unit_rows(rng, n, 3)
    return PerturbableSum(rows, rng.integers(n_classes, size=n), n_classes, MarginLoss(0.5))


def balanced(data: PerturbableSum, W: np.ndarray, convexity: float) -> np.ndarray:
    """The linear term that makes W the minimiser."""
    return np.asarray(-(data.gradient(W) + convexity * W))


def test_what_is_released_is_the_minimiser_for_gaussian_noise(rng: np.random.Generator) -> None:
    data = problem(rng, n=5)
    mechanism = GaussianObjectiveMechanism(
        sensitivity=4.0, kappa=0.1, strong_convexity=3.0, noise_multiplier=2.0, dimension=4
    )
    found = [balanced(data, mechanism.release(data, ledger=None), 3.0) for _ in range(120)]
    noise = np.array(found).ravel()
    assert kstest(noise / 8.0, "norm").pvalue > 1e-6
    assert kstest(noise / 12.0, "norm").pvalue < 1e-6
    matrix = np.corrcoef(np.array(found).reshape(120, 3, -1).transpose(1, 0, 2).reshape(3, -1))
    assert np.abs(matrix - np.eye(3)).max() < 4 / math.sqrt(720)  # independent across classes


@pytest.mark.parametrize("relation", list(Relation))
def test_the_residual_covers_the_rounding_of_any_data_of_that_size(
    rng: np.random.Generator, relation: Relation
) -> None:
    data = problem(rng, n=500)
    mechanism = budget_of(limits(3, n_rows=500), relation).objective()
    huge = budget_of(limits(3), relation).objective()
    with seeded_noise(1):
        linear = mechanism._linear_term(data.shape)
    radius = data.radius(float(np.linalg.norm(linear)), mechanism.strong_convexity)
    t = rng.normal(size=data.shape)
    assert data.gradient_error(3 * radius * t / np.linalg.norm(t)) <= mechanism.residual / 2
    assert huge.rounding > mechanism.rounding
    assert huge.variance() < 1.1 * mechanism.variance()


def test_rounding_errors_of_gradients_stay_below_their_bound(rng: np.random.Generator) -> None:
    data = problem(rng, n=5000)
    W = rng.normal(size=data.shape)
    shuffled = rng.permutation(5000)
    again = PerturbableSum(data.rows[shuffled], data.own[shuffled], 3, data.loss)
    off = np.linalg.norm(data.gradient(W) - again.gradient(W))
    assert 0 < off < data.gradient_error(W) < 1e-6


# The budget --------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("share", [0.0, 0.2])
@pytest.mark.parametrize("epsilon", [0.1, 5.0])
def test_the_budget_is_used_up_and_not_passed(
    relation: Relation, share: float, epsilon: float
) -> None:
    budget = budget_of(limits(3, 4), relation, epsilon=epsilon, pca_share=share)
    mechanism = budget.objective()
    events = [m.event() for m in (budget.components(), mechanism) if m is not None]
    cost = epsilon_spent(events, 1e-5, relation)
    assert epsilon * (1 - 1e-5) < cost <= epsilon
    if not share:
        (event,) = events
        assert objective_delta(event, epsilon) == pytest.approx(1e-5, rel=0.05)
    assert mechanism.kappa < epsilon


# The printed mechanism, a negative control --------------------------------------------------------


class Bare(GaussianObjectiveMechanism):
    """Without noise on the output, as printed."""

    def _with_output_noise(self, t: np.ndarray) -> np.ndarray:
        return t


class SharedNoise(Bare):
    """One noise matrix for all classes, as printed, the rest repaired."""

    def _linear_term(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.broadcast_to(super()._linear_term((1, *shape[1:])), shape).copy()


def tells_apart(
    mechanism: GaussianObjectiveMechanism, data: PerturbableSum, near: PerturbableSum
) -> float:
    """Share of releases from `data` that fit it 100 times better than its neighbour.

    What decides between classes must balance the differences of gradients, up to the noise.
    """
    hits = 0
    for _ in range(20):
        W = mechanism.release(data, ledger=None)
        left = [
            np.linalg.norm(np.diff(balanced(each, W, mechanism.strong_convexity), axis=0))
            for each in (data, near)
        ]
        hits += left[0] < left[1] / 100
    return hits / 20


def test_shared_noise_hides_nothing_and_independent_noise_does(rng: np.random.Generator) -> None:
    data = problem(rng, n=30)
    labels = data.own.copy()
    labels[0] = (labels[0] + 1) % 3
    near = PerturbableSum(data.rows, labels, 3, data.loss)
    fields = {"sensitivity": 3 * math.sqrt(2), "kappa": 0.1, "strong_convexity": 20.0}
    shared = SharedNoise(**fields, noise_multiplier=10.0, dimension=4)
    repaired = Bare(**fields, noise_multiplier=10.0, dimension=4)
    assert tells_apart(shared, data, near) > 0.9
    assert tells_apart(repaired, data, near) == 0.0


BOUNDS = Bounds(norm=2.0, labels=[0, 1, 2])


def blobs(n: int = 200, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    X, y = make_blobs(n, n_features=3, centers=3, random_state=seed)
    return X * 0.05, y


# What is learned ---------------------------------------------------------------------------------


def test_without_noise_it_minimises_the_stated_objective() -> None:
    X, y = blobs()
    given: dict[str, Any] = {"regularization": 0.5, "huber_width": 0.5, "bounds": BOUNDS}
    model = PrivateLargeMarginGaussianClassifier(epsilon=np.inf, **given).fit(X, y)
    scale = np.sqrt([0.9, 0.9, 0.9, 0.1])
    objective = LargeMarginObjective(extended(BOUNDS.clip(X) / 2.0) * scale, y, 3, MarginLoss(0.5))
    matrices = model.matrices_ / np.outer(scale, scale)
    W = to_vectors(matrices - matrices.mean(axis=0))
    gradient = objective.gradient(W) + 0.5 * W
    assert np.linalg.norm(gradient) < 1e-4 * np.linalg.norm(objective.gradient(np.zeros(W.shape)))
    assert math.isinf(model.guarantee_.epsilon)


# As printed --------------------------------------------------------------------------------------


def test_the_printed_objective_falls_without_bound() -> None:
    """Along t v vᵀ for every class, v the direction in which the weight is negative."""
    X, codes = blobs()
    printed = PrintedObjective(regularization=1.0, huber_width=0.5, epsilon=1.0)
    with seeded_noise(0):
        noise = next(b for b in (printed.noise(4) for _ in range(50)) if not printed.is_bounded(b))
    values, axes = np.linalg.eigh(printed.weight(noise))
    assert values[0] < 0
    direction = to_vectors(np.stack([np.outer(axes[:, 0], axes[:, 0])] * 3))
    objective = LargeMarginObjective(extended(X), codes, 3, MarginLoss(0.5, 0.0))
    smooth = penalised(objective, linear=to_vectors(printed.weight(noise)))
    costs = [smooth(t * direction)[0] for t in (0.0, 1e2, 1e4, 1e6)]
    assert costs == sorted(costs, reverse=True)
    assert costs[3] < -1e5 * abs(values[0])


def test_the_printed_minimiser_is_that_of_the_printed_objective() -> None:
    """Margin 0, no weight in the last place, one b; its norm is Gamma(16, 2 / epsilon)."""
    X, codes = blobs()
    printed = PrintedObjective(regularization=5.0, huber_width=0.5, epsilon=50.0)
    with seeded_noise(0):
        weight = 5 * np.diag([1, 1, 1, 0]) + printed.noise(4)
    with seeded_noise(0):
        found = to_vectors(printed.minimise(extended(X), codes, 3))
    objective = LargeMarginObjective(extended(X), codes, 3, MarginLoss(0.5, 0.0))
    assert cone_residual(penalised(objective, linear=to_vectors(weight)), found) < 1e-4
    squares = [np.diag(printed.noise(4)) ** 2 for _ in range(400)]
    assert np.mean(squares) == pytest.approx(17 * (2 / 50) ** 2, rel=0.3)


def test_the_printed_classifier_is_refuted_wherever_one_looks(tmp_path: Path) -> None:
    ledger, fitted = Ledger(tmp_path / "budget.db"), 0
    ledger.create("blobs", epsilon=1e6, delta=1e-5)
    model = PrintedLargeMarginClassifier(regularization=300.0, epsilon=5.0, bounds=BOUNDS)
    for _ in range(12):
        with pytest.warns(RefutedGuaranteeWarning, match="shared by all"):  # noqa: PT031
            try:
                model.fit(*blobs())
            except InvalidInputError as error:
                assert "no minimiser" in str(error)  # noqa: PT017 - either outcome is right
            else:
                fitted += 1
                assert np.linalg.eigvalsh(model.matrices_).min() > -1e-9
        assert model.guarantee_.status is Status.REFUTED
        assert (model.guarantee_.epsilon, model.guarantee_.claimed_epsilon) == (None, 5.0)
        assert model.guarantee_.events == (NonPrivateEvent(),)
        assert "NO PRIVACY" in str(model.guarantee_)
        assert "NO PRIVACY" in repr(model)
    assert 0 < fitted < 12
    model.set_params(ledger=ledger.dataset("blobs"))
    with pytest.warns(RefutedGuaranteeWarning), pytest.raises(BudgetExceededError):
        model.fit(*blobs())


# Bounds on the excess risk ------------------------------------------------------------------------


def test_noise_raises_the_objective_by_less_than_the_bound() -> None:
    """Objective perturbation written out, on the rows of iris; a bound for 19 of 20 draws."""
    X, y = load_iris(return_X_y=True)
    rows = np.hstack([X / np.linalg.norm(X, axis=1).max(), np.ones((150, 1))]) / math.sqrt(2)
    objective = PerturbableSum(rows, y, 3, MarginLoss(1.0))
    budgeted: dict[str, Any] = {"epsilon": 5.0, "delta": 1e-3}
    bound = excess_risk_bound(4, 3, 150, **budgeted)
    public = MarginLimits(MarginLoss(1.0), 3, 150, 15)
    mechanism = budget_of(public, Relation.REPLACE_ONE, **budgeted).objective()
    convexity = mechanism.strong_convexity

    def value(W: np.ndarray) -> float:
        return float(objective.value_and_gradient(W)[0] + convexity / 2 * np.sum(W * W))

    least = objective.minimise(np.zeros(objective.shape), convexity, 1e-8)
    rng, raised = np.random.default_rng(0), []
    for _ in range(20):
        noise = mechanism.sensitivity * mechanism.noise_multiplier * rng.normal(size=least.shape)
        found = objective.minimise(noise, convexity, 1e-8)
        raised.append((value(found) - value(least)) / 150)
    assert np.mean(np.array(raised) <= bound) > 0.9
    assert min(raised) > 0
    assert max(raised) > bound / 20  # it says something
    assert excess_risk_bound(4, 3, 300, **budgeted) == pytest.approx(bound / 2, rel=0.05)


def test_a_mixture_is_a_classifier_of_its_ellipsoids() -> None:
    """Chessboard: one ellipsoid a class cannot, several can; the price is that of their number."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (600, 2))
    y = (np.floor(3 * X[:, 0]) + np.floor(3 * X[:, 1])).astype(int) % 2
    box = Bounds(lower=[-1, -1], upper=[1, 1], labels=[0, 1])
    one, many = (
        PrivateLargeMarginGaussianClassifier(
            epsilon=math.inf, regularization=1e-3, n_ellipsoids=m, bounds=box
        ).fit(X, y)
        for m in (1, 12)
    )
    assert many.matrices_.shape == (24, 3, 3)
    assert many.distances(X).shape == (600, 2)
    assert many.score(X, y) > one.score(X, y) + 0.1
    small = {"epsilon": 1.0, "delta": 1e-5}
    with taped() as tape:
        fitted = PrivateLargeMarginGaussianClassifier(n_ellipsoids=2, bounds=box, **small).fit(X, y)
    sized = MarginLimits(MarginLoss(1.0), 4, 600, 6)
    planned = budget_of(sized, Relation.REPLACE_ONE).objective()
    assert tape.releases[0].mechanism.rounding == planned.rounding
    four = Bounds(lower=[-1, -1], upper=[1, 1], labels=range(4))
    other = PrivateLargeMarginGaussianClassifier(bounds=four, **small).fit(X, 2 * y)
    assert fitted.guarantee_.events == other.guarantee_.events
    assert fitted.guarantee_.epsilon == other.guarantee_.epsilon
    taint_test(clone(fitted), X[:80], X[80:160], y[:80], y[:80])


def test_the_printed_bounds_fall_with_the_square_of_epsilon() -> None:
    empirical, true = printed_risk_bounds(1, 2, 16, epsilon=1.0, lam=1.0, failure=math.exp(-1))
    assert empirical == pytest.approx(8 * 2 * 16)  # 8 C (d+1)^4 log²(d/failure) / (epsilon² lambda)
    assert true == pytest.approx(4 * 2 * 4 + empirical + 33)
    halved = printed_risk_bounds(1, 2, 16, epsilon=0.5, lam=1.0, failure=math.exp(-1))
    assert halved[0] == pytest.approx(4 * empirical)
