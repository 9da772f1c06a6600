"""Objective perturbation for ellipsoids: the constants of the proof, the law, what it covers."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import chi, kstest

from sfumato.audit.testing import seeded_noise
from sfumato.exceptions import InvalidInputError
from sfumato.mechanisms.objective import GammaObjectiveMechanism, GaussianObjectiveMechanism
from sfumato.papers.large_margin.ellipsoids import (
    MarginLimits,
    MarginLoss,
    PerturbableSum,
    quadratic_features,
    to_matrices,
)
from sfumato.papers.perturbed import ObjectiveBudget
from sfumato.privacy import epsilon_spent
from sfumato.privacy.events import NonPrivateEvent, ObjectivePerturbationEvent, PureEvent
from sfumato.privacy.guarantee import Relation
from tests.privacy.events import objective_delta


def limits(n_classes: int, order: int = 3, n_rows: int = 2**22) -> MarginLimits:
    return MarginLimits(MarginLoss(0.5), n_classes, n_rows, order * (order + 1) // 2)


def budget_of(known: MarginLimits, relation: Relation, **changes: Any) -> ObjectiveBudget:
    usual = {"epsilon": 1.0, "delta": 1e-5, "pca_share": 0.0, "regularization": None}
    return ObjectiveBudget(
        relation=relation,
        limits=known,
        n_features=3,
        n_rows=known.n_rows,
        noise_share=0.5,
        tolerance=1e-6,
        **(usual | changes),
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
    assert limits(n_classes).sensitivity(Relation.REPLACE_ONE) == pytest.approx(
        math.sqrt(2) * n_classes
    )


@given(st.integers(0, 10_000), st.sampled_from([2, 3, 5]))
def test_the_gradient_of_a_record_never_passes_its_bound(seed: int, n_classes: int) -> None:
    rng = np.random.default_rng(seed)
    row = unit_rows(rng, 1, 3)[0] * rng.uniform()
    record = one_record(row, int(rng.integers(n_classes)), n_classes, width=rng.uniform(0.01, 2))
    W = rng.normal(size=record.shape) * 10 ** rng.uniform(-2, 2)
    slopes = to_matrices(record.gradient(W))
    assert np.linalg.norm(slopes) <= math.sqrt(n_classes * (n_classes - 1)) + 1e-9
    np.testing.assert_allclose(slopes.sum(axis=0), 0, atol=1e-12)  # sums to zero over classes


@pytest.mark.parametrize("relation", list(Relation))
def test_directions_hold_every_change(rng: np.random.Generator, relation: Relation) -> None:
    """The gradients of two given records span 2(C-1) dimensions over all points, no more."""
    one, two = unit_rows(rng, 2, 4)
    changes = []
    shape = one_record(one, 0, 4).shape
    for _ in range(60):
        W = rng.normal(size=shape) * 2
        change = one_record(one, 1, 4).gradient(W)
        if relation is Relation.REPLACE_ONE:
            change = change - one_record(two, 3, 4).gradient(W)
        changes.append(change.ravel())
    assert np.linalg.matrix_rank(np.array(changes), tol=1e-9) == limits(4).dimension(relation)


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


def gaussian(**changed: float) -> GaussianObjectiveMechanism:
    fields = {"sensitivity": 4.0, "kappa": 0.1, "strong_convexity": 3.0, "noise_multiplier": 2.0}
    return GaussianObjectiveMechanism(**fields | changed, dimension=4)  # type: ignore[arg-type]


def balanced(data: PerturbableSum, W: np.ndarray, convexity: float) -> np.ndarray:
    """The linear term that makes W the minimiser."""
    return np.asarray(-(data.gradient(W) + convexity * W))


def test_what_is_released_is_the_minimiser_for_gaussian_noise(rng: np.random.Generator) -> None:
    data, mechanism = problem(rng, n=5), gaussian()
    found = [balanced(data, mechanism.release(data, ledger=None), 3.0) for _ in range(120)]
    noise = np.array(found).ravel()
    assert kstest(noise / 8.0, "norm").pvalue > 1e-6
    assert kstest(noise / 12.0, "norm").pvalue < 1e-6
    matrix = np.corrcoef(np.array(found).reshape(120, 3, -1).transpose(1, 0, 2).reshape(3, -1))
    assert np.abs(matrix - np.eye(3)).max() < 4 / math.sqrt(720)  # independent across classes


def test_pure_noise_has_its_norm(rng: np.random.Generator) -> None:
    """Mean of ||b|| over many draws within 2 % of shape times scale."""
    mechanism = GammaObjectiveMechanism(
        sensitivity=4.0, kappa=0.1, strong_convexity=3.0, epsilon=2.0, size=18
    )
    draws = [np.linalg.norm(mechanism._linear_term((3, 6))) for _ in range(2000)]
    assert np.mean(draws) == pytest.approx(18 / mechanism.rate, rel=0.02)
    assert mechanism.rate == pytest.approx((2 * (1 - 2**-7) - 0.1) / 4)
    data = problem(rng, n=5)
    released = mechanism.release(data, ledger=None)
    assert released.shape == (3, 6)
    assert mechanism.event() == PureEvent(2.0, "objective perturbation")
    with pytest.raises(InvalidInputError, match="regularization"):
        GammaObjectiveMechanism(
            sensitivity=4.0, kappa=3.0, strong_convexity=3.0, epsilon=2.0, size=18
        )


def test_the_output_noise_is_small_and_covers_the_miss(rng: np.random.Generator) -> None:
    mechanism = gaussian()
    t = np.zeros((200, 100))
    noise = mechanism._with_output_noise(t)
    miss = 2 * mechanism.residual / mechanism.strong_convexity
    mu = miss / noise.std()
    assert mu == pytest.approx(2**-10 / mechanism.noise_multiplier, rel=0.02)
    event = mechanism.event()
    assert isinstance(event, ObjectivePerturbationEvent)
    assert event.kappa >= mechanism.kappa + 10 * mu * 0.97
    assert noise.std() < 0.003 * math.sqrt(mechanism.variance()) / mechanism.strong_convexity


def test_a_point_that_misses_the_minimiser_is_not_released(rng: np.random.Generator) -> None:
    """It is made good, and nothing is raised: an error would tell something of the records."""

    class Lazy(PerturbableSum):
        def minimise(self, linear: np.ndarray, _: float, __: float) -> np.ndarray:
            return np.full_like(linear, np.nan)

    data, mechanism = problem(rng), gaussian()
    lazy = Lazy(data.rows, data.own, data.n_ellipsoids, data.loss)
    with seeded_noise(5):
        exact = mechanism.release(data, ledger=None)
    with seeded_noise(5):
        found = mechanism.release(lazy, ledger=None)
    assert 0 < np.linalg.norm(found - exact) <= 2 * mechanism.residual / 3.0 + 1e-12


def test_rounding_is_paid_for() -> None:
    plain, rough = gaussian(), gaussian(rounding=4.0 * 2**-12)
    assert plain.residual == 4.0 * 2**-20
    assert rough.residual == 4.0 * 2**-11
    mu = math.sqrt(2**-11) / 2.0
    event = rough.event()
    assert isinstance(event, ObjectivePerturbationEvent)
    assert event.kappa == pytest.approx(0.1 + 10 * mu + mu**2 / 2)
    noise = rough._with_output_noise(np.zeros((200, 100)))
    assert 2 * rough.residual / 3.0 / noise.std() == pytest.approx(mu, rel=0.02)


@pytest.mark.parametrize("relation", list(Relation))
def test_the_residual_covers_the_rounding_of_any_data_of_that_size(
    rng: np.random.Generator, relation: Relation
) -> None:
    data = problem(rng, n=500)
    assert data.loss == MarginLoss(0.5)
    mechanism = budget_of(limits(3, n_rows=500), relation).objective()
    huge = budget_of(limits(3), relation).objective()
    with seeded_noise(1):
        linear = mechanism._linear_term(data.shape)
    radius = data.radius(float(np.linalg.norm(linear)), mechanism.strong_convexity)
    t = rng.normal(size=data.shape)
    assert data.gradient_error(3 * radius * t / np.linalg.norm(t)) <= mechanism.residual / 2
    assert huge.rounding > mechanism.rounding
    assert huge.variance() < 1.1 * mechanism.variance()


def test_pure_noise_that_cannot_be_drawn_is_refused_before_any_charge() -> None:
    for size, epsilon in ((10**8, 1.0), (10, 1e-9)):
        with pytest.raises(InvalidInputError, match="too little"):
            GammaObjectiveMechanism(
                sensitivity=4.0, kappa=0.0, strong_convexity=3.0, epsilon=epsilon, size=size
            )


def test_rounding_errors_of_gradients_stay_below_their_bound(rng: np.random.Generator) -> None:
    data = problem(rng, n=5000)
    W = rng.normal(size=data.shape)
    shuffled = rng.permutation(5000)
    again = PerturbableSum(data.rows[shuffled], data.own[shuffled], 3, data.loss)
    off = np.linalg.norm(data.gradient(W) - again.gradient(W))
    assert 0 < off < data.gradient_error(W) < 1e-6


def test_without_noise_nothing_is_hidden_and_the_event_says_so(rng: np.random.Generator) -> None:
    data, mechanism = problem(rng), gaussian(noise_multiplier=0.0)
    released = mechanism.release(data, ledger=None)
    assert np.linalg.norm(balanced(data, released, 3.0)) < 4.0 * 2**-20
    assert mechanism.event() == NonPrivateEvent()


def test_bad_fields_are_refused() -> None:
    for bad in ({"kappa": -1.0}, {"strong_convexity": 0.0}, {"sensitivity": math.nan}):
        with pytest.raises(InvalidInputError, match=next(iter(bad))):
            gaussian(**bad)


# The budget --------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("share", [0.0, 0.2])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
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


def test_a_regularization_too_small_for_the_budget_is_refused() -> None:
    budget = budget_of(limits(3, 4), Relation.REPLACE_ONE, epsilon=0.1, regularization=0.01)
    with pytest.raises(InvalidInputError, match="regularization"):
        budget.objective()


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


def test_shared_noise_moves_the_matrices_and_no_decision(rng: np.random.Generator) -> None:
    data = problem(rng)
    with seeded_noise(1):
        noise = SharedNoise(4.0, 0.1, 1.0, 2.0, 4)._linear_term(data.shape)
    without = data.minimise(np.zeros(data.shape), 1.0, 1e-9)
    with_it = data.minimise(noise, 1.0, 1e-9)
    assert np.linalg.norm(with_it - without) > 1
    np.testing.assert_allclose(
        with_it - with_it.mean(axis=0), without - without.mean(axis=0), atol=1e-7
    )


def test_noise_must_cover_every_change_of_the_gradient(rng: np.random.Generator) -> None:
    """The range of the noise covariance holds every change; with shared noise it does not."""
    data = problem(rng, n=1)
    change = data.gradient(np.zeros(data.shape)).ravel()
    identity = np.eye(data.shape[1])
    shared = np.tile(identity, (3, 1))
    outside = change - shared @ np.linalg.lstsq(shared, change, rcond=None)[0]
    assert np.linalg.norm(outside) > 0.99 * np.linalg.norm(change)
