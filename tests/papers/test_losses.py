"""Losses against finite differences, and the constants of the proofs against brute force."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sfumato.exceptions import InvalidInputError
from sfumato.papers.feddpdr import losses
from sfumato.privacy.guarantee import Relation
from sfumato.sums.gradients import HuberLoss, SoftmaxLoss, loss_named, over_scores

LOSSES = [
    SoftmaxLoss(2),
    SoftmaxLoss(3),
    SoftmaxLoss(7),
    HuberLoss(2),
    HuberLoss(4),
    HuberLoss(3, 0.2),
]
BOTH = [Relation.REPLACE_ONE, Relation.ADD_OR_REMOVE_ONE]


def one_row(loss, scores, label):
    row = np.asarray(scores, dtype=float)[None, : loss.n_scores]
    return row, losses.targets_of(loss, [label])


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_slopes_and_curvatures_are_derivatives(loss, rng):
    for _ in range(20):
        scores, targets = one_row(loss, rng.normal(0, 2, 7), int(rng.integers(loss.n_classes)))
        step = 1e-6
        weights = losses.curvatures(loss, scores, targets)[0]
        hessian = np.diag(weights)
        if losses.couples_scores(loss):
            hessian = hessian - np.outer(weights, weights)
        for k in range(loss.n_scores):
            move = np.zeros_like(scores)
            move[0, k] = step
            up, down = scores + move, scores - move
            slope = (losses.values(loss, up, targets) - losses.values(loss, down, targets)) / (
                2 * step
            )
            np.testing.assert_allclose(
                losses.slopes(loss, scores, targets)[0, k], slope[0], atol=1e-8
            )
            if isinstance(loss, HuberLoss) and np.any(
                np.abs(np.abs(targets * scores - 1) - loss.width) < 2 * step
            ):
                continue
            bend = (losses.slopes(loss, up, targets) - losses.slopes(loss, down, targets))[0] / (
                2 * step
            )
            np.testing.assert_allclose(hessian[k], bend, atol=1e-6)


def test_values_literally():
    scores = np.array([[1.0, -2.0, 0.5]])
    soft, huber = SoftmaxLoss(3), HuberLoss(3)
    targets = losses.targets_of(soft, [1])
    np.testing.assert_array_equal(targets, [[-1, 1, -1]])
    expected = math.log(sum(math.exp(s) for s in scores[0])) + 2
    assert losses.values(soft, scores, targets)[0] == pytest.approx(expected, rel=1e-14)
    # margins -1, -2, -0.5: all in the linear part
    assert losses.values(huber, scores, targets)[0] == pytest.approx(2 + 3 + 1.5)
    two = HuberLoss(2)
    margin = np.array([[0.4], [0.5], [1.0], [1.5], [3.0]])
    values = losses.values(two, margin, np.ones((5, 1)))
    np.testing.assert_allclose(values, [0.6, 0.5, 0.125, 0.0, 0.0], atol=1e-15)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_slopes_stay_within_their_bound_and_space(loss, data):
    numbers = st.floats(-1e4, 1e4)
    scores = [data.draw(numbers) for _ in range(7)]
    label = data.draw(st.integers(0, loss.n_classes - 1))
    slopes = losses.slopes(loss, *one_row(loss, scores, label))[0]
    assert np.linalg.norm(slopes) <= loss.slope_bound * (1 + 1e-12)
    if losses.couples_scores(loss):
        assert abs(slopes.sum()) < 1e-12
    hessian = np.diag(losses.curvatures(loss, *one_row(loss, scores, label))[0])
    if losses.couples_scores(loss):
        hessian = hessian - np.outer(np.diag(hessian), np.diag(hessian))
    for curvature in (0.03, 1.0, 50.0):
        determinant = np.linalg.slogdet(np.eye(len(hessian)) + hessian / curvature)[1]
        assert determinant <= losses.log_determinant(loss, curvature) * (1 + 1e-12)
    assert np.linalg.eigvalsh(hessian)[-1] <= loss.max_curvature * (1 + 1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_log_determinant_is_attained(loss):
    scores = np.zeros(7) if isinstance(loss, SoftmaxLoss) else None
    if scores is None:  # every margin inside the rounding
        row, targets = one_row(loss, np.zeros(7), 0)
        row = targets * 1.0
    else:
        row, targets = one_row(loss, scores, 0)
    weights = losses.curvatures(loss, row, targets)[0]
    hessian = np.diag(weights)
    if losses.couples_scores(loss):
        hessian = hessian - np.outer(weights, weights)
    found = np.linalg.slogdet(np.eye(len(hessian)) + hessian / 0.7)[1]
    assert found == pytest.approx(losses.log_determinant(loss, 0.7), rel=1e-12)


def gradient(loss, weights, row, label):
    scores = (weights @ row)[None, :]
    return np.outer(losses.slopes(loss, scores, losses.targets_of(loss, [label]))[0], row)


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_sensitivity_is_kept_and_nearly_attained(loss, relation, rng):
    """Rows that are nearly opposite can have any scores when the weights are large."""
    bound, largest = losses.sensitivity(loss, relation), 0.0
    row = np.array([1.0, 0.0])
    other = np.array([-math.cos(0.05), math.sin(0.05)])
    for _ in range(1500):
        # Wanted scores of the two rows, large, solved for the weights.
        wanted = 60 * rng.choice([-1, 1], size=(loss.n_scores, 2))
        if losses.couples_scores(loss):
            wanted = np.full((loss.n_scores, 2), -60.0)
            wanted[rng.integers(loss.n_scores, size=2), [0, 1]] = 60
        weights = wanted @ np.linalg.inv(np.column_stack([row, other]))
        labels = rng.integers(loss.n_classes, size=2)
        change = gradient(loss, weights, row, labels[0])
        if relation is Relation.REPLACE_ONE:
            change = change - gradient(loss, weights, other, labels[1])
        assert np.linalg.norm(change) <= bound * (1 + 1e-12)
        largest = max(largest, float(np.linalg.norm(change)))
    assert largest >= 0.99 * bound


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_change_lies_in_a_space_of_the_stated_dimension(loss, relation, rng):
    rows = rng.normal(size=(2, 5))
    changes = []
    for _ in range(60):
        weights = rng.normal(0, 1, (loss.n_scores, 5))
        change = gradient(loss, weights, rows[0], 0)
        if relation is Relation.REPLACE_ONE:
            change = change - gradient(loss, weights, rows[1], 1)
        changes.append(change.ravel())
    assert np.linalg.matrix_rank(np.array(changes), tol=1e-9) <= losses.dimension(loss, relation)
    if isinstance(loss, SoftmaxLoss):
        assert np.linalg.matrix_rank(np.array(changes), tol=1e-9) == losses.dimension(
            loss, relation
        )


def test_names_and_the_rounded_hinge():
    assert loss_named("hinge", 3).width == 0.05
    assert loss_named("huber", 3, huber_width=0.25).width == 0.25
    margin = np.linspace(-2, 3, 1001)[:, None]
    rounded = losses.values(loss_named("hinge", 2), margin, np.ones_like(margin))
    assert np.abs(rounded - np.maximum(0, 1 - margin[:, 0])).max() <= 0.0125 + 1e-15
    with pytest.raises(InvalidInputError, match="'loss' must be one of"):
        loss_named("square", 2)
    with pytest.raises(InvalidInputError, match="huber_width"):
        loss_named("huber", 2, huber_width=0.0)


def test_sums_over_scores_do_not_depend_on_the_other_rows(rng):
    values = rng.random((257, 13))
    whole = over_scores(values)
    for i in (0, 100, 256):
        assert whole[i, 0] == over_scores(values[i : i + 1])[0, 0]
