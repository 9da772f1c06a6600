"""Noisy gradient descent: exact clipped sums, their sensitivity, the descent itself."""

import math
from dataclasses import replace

import numpy as np
import pytest

from sfumato import Bounds, PrivateLinearClassifier
from sfumato.mechanisms.base import Repeated
from sfumato.models.linear.budget import LinearBudget
from sfumato.models.linear.fit import Descent, descend
from sfumato.privacy.gaussian import epsilon_from_mu, mu_from_budget
from sfumato.privacy.guarantee import Relation
from sfumato.sums.gradients import GradientSum, on_weight_grid
from sfumato.sums.grid import revealed
from sfumato.sums.losses import loss_named
from sfumato.sums.maps import IntoUnitBall, LinearRows
from sfumato.sums.records import ArrayRecords


@pytest.fixture
def data(rng):
    units = IntoUnitBall(Bounds(norm=1.0), 4)(rng.normal(0, 0.4, (60, 4)))
    rows = LinearRows(4, False)(units)
    return rows, rng.integers(3, size=60)


def clipped_gradient(loss, max_gradient_norm, rows, codes, weights):
    records = ArrayRecords(rows, codes, relation="add_or_remove_one")
    return revealed(records._sum(GradientSum(loss, max_gradient_norm, weights)))


def literal(loss, max_gradient_norm, rows, codes, weights):
    total = np.zeros_like(weights)
    for row, code in zip(rows, codes, strict=True):
        scores = (weights @ row)[None, :]
        slopes = loss.slopes(scores, loss.targets(np.array([code]), scores))[0]
        total += np.outer(
            slopes * min(1.0, max_gradient_norm / max(np.linalg.norm(slopes), 1e-300)), row
        )
    return total


@pytest.mark.parametrize("max_gradient_norm", [0.05, 0.5, 1.9])
@pytest.mark.parametrize("name", ["softmax", "huber"])
def test_clipped_gradient_literally(name, max_gradient_norm, data, rng):
    rows, codes = data
    loss = loss_named(name, 3)
    weights = on_weight_grid(rng.normal(0, 3, (3, 4)))
    found = clipped_gradient(loss, max_gradient_norm, rows, codes, weights)
    np.testing.assert_allclose(
        found, literal(loss, max_gradient_norm, rows, codes, weights), atol=1e-3
    )


@pytest.mark.parametrize("name", ["softmax", "huber", "hinge"])
def test_one_row_moves_the_gradient_by_its_own_exact_term(name, data, rng):
    """The sum is the exact sum of terms of one row each: removing a row removes its term."""
    rows, codes = data
    loss = loss_named(name, 3)
    for scale in (0.1, 30.0):
        weights = on_weight_grid(rng.normal(0, scale, (3, 4)))
        whole = clipped_gradient(loss, 0.1, rows, codes, weights)
        for i in range(0, 60, 7):
            others = np.delete(np.arange(60), i)
            rest = clipped_gradient(loss, 0.1, rows[others], codes[others], weights)
            term = clipped_gradient(loss, 0.1, rows[i : i + 1], codes[i : i + 1], weights)
            np.testing.assert_array_equal(rest + term, whole)
            assert np.linalg.norm(term) <= 0.1


@pytest.mark.parametrize(
    ("name", "n_classes", "bound"), [("softmax", 3, 2**0.5), ("softmax", 2, 1.0), ("huber", 2, 1.0)]
)
def test_a_clip_beyond_the_slopes_of_the_loss_costs_no_noise(name, n_classes, bound, rng):
    """Neighbours never move a gradient by more than what is paid, and nearly that far."""
    loss = loss_named(name, n_classes)
    bounds = Bounds(norm=1.0, labels=list(range(n_classes)))
    model = PrivateLinearClassifier(loss=name, max_gradient_norm=1.9, delta=1e-5, bounds=bounds)
    _, plan = model.plan(np.eye(4), [0, 1, 1, 0])
    paid = plan.last.mechanism.sensitivity
    assert paid == pytest.approx(2 * bound)  # 3.8 before
    limit, farthest = plan.settings.max_gradient_norm, 0.0
    raw = np.vstack([rng.normal(0, 2, (40, 4)), np.eye(4)])
    rows = LinearRows(4, False)(IntoUnitBall(Bounds(norm=1.0), 4)(raw))
    rows = np.vstack([rows, -rows])
    for scale in (1.0, 100.0):
        weights = on_weight_grid(rng.normal(0, scale, (loss.n_scores, 4)))
        terms = [
            clipped_gradient(loss, limit, row[None], np.array([c]), weights)
            for row in rows
            for c in range(n_classes)
        ]
        flat = np.array(terms).reshape(len(terms), -1)
        apart = np.linalg.norm(flat[:, None] - flat[None], axis=2).max()
        farthest = max(farthest, float(apart))
    assert 0.9 * paid <= farthest <= paid


def test_weights_stay_where_scores_are_exact():
    huge = on_weight_grid(np.full((2, 4), 1e9))
    assert np.all(np.linalg.norm(huge, axis=1) <= 2.0**10)
    np.testing.assert_array_equal(on_weight_grid(huge), huge)


@pytest.mark.parametrize("wild", [np.inf, -np.inf, np.nan])
def test_weights_that_ran_away_give_finite_gradients(wild, data):
    rows, codes = data
    loss = loss_named("softmax", 3)
    weights = np.zeros((3, 4))
    weights[1, 2] = wild
    brought = on_weight_grid(weights)
    assert np.linalg.norm(brought) <= 2.0**10
    found = clipped_gradient(loss, 0.1, rows, codes, brought)
    assert np.isfinite(found).all()
    assert np.linalg.norm(found) <= 0.1 * len(rows)


def test_sums_of_many_rows_are_rounded_and_that_is_paid_for():
    budget = LinearBudget(1.0, 1e-5, Relation.ADD_OR_REMOVE_ONE, loss_named("softmax", 4))
    assert budget.gradients(0.1, 5, 40, 1_300_000).sensitivity == 0.1
    most = budget.gradients(0.1, 5, 40).sensitivity
    assert most - 0.1 == pytest.approx(40**0.5 * 2.0**-30, rel=1e-6)
    wide = replace(budget, projection_share=0.3, n_features=100).second_moment()
    assert wide.sensitivity - 1 == pytest.approx(100 * 2.0**-26, rel=1e-6)


def test_descent_literally(rng):
    target = rng.normal(size=(2, 3))
    plan = Descent(n_steps=7, learning_rate=0.3, momentum=0.5, averaged=0.5)
    found = descend(lambda w: 10 * (w - target), (2, 3), 10.0, plan)
    w, v, kept = np.zeros((2, 3)), np.zeros((2, 3)), []
    for step in range(7):
        v = 0.5 * v - 0.3 * (w - target)
        w = w + v
        if step >= 3:
            kept.append(w)
    np.testing.assert_allclose(found, np.mean(kept, axis=0), atol=1e-6)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_the_releases_cost_exactly_the_budget(relation, share):
    budget = LinearBudget(1.5, 1e-5, relation, loss_named("softmax", 4), projection_share=share)
    steps = budget.gradients(0.2, 50, 40, 1000)
    paid = [m for m in (budget.second_moment(), budget.count(), Repeated(steps, 50)) if m]
    mu = 0.0
    for mechanism in paid:
        event = mechanism.event()
        count = getattr(event, "count", 1)
        inner = getattr(event, "event", event)
        mu += count / inner.noise_multiplier**2
    assert math.sqrt(mu) == pytest.approx(mu_from_budget(1.5, 1e-5), rel=1e-12)
    assert epsilon_from_mu(math.sqrt(mu), 1e-5) == pytest.approx(1.5, rel=1e-6)
    assert steps.sensitivity == (0.4 if relation is Relation.REPLACE_ONE else 0.2)
