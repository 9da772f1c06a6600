"""The minimiser against other solvers, and its certificate."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from sfumato.mechanisms.objective import farthest_minimiser, near_minimiser, rounding_met
from sfumato.papers.feddpdr import newton as solvers, objective as objective_module
from sfumato.papers.feddpdr.objective import LinearLimits, LinearObjective
from sfumato.sums.losses import loss_named


def problem(name, n_classes, rng, n=400, m=6):
    rows = rng.normal(size=(n, m))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    codes = (rows @ rng.normal(size=(m, n_classes)) + 0.3 * rng.normal(size=(n, n_classes))).argmax(
        axis=1
    )
    loss = loss_named(name, n_classes)
    return LinearObjective(loss, rows, loss.targets(codes, rows))


def literal_minimum(objective, linear, lam):
    def value(flat):
        weights = flat.reshape(objective.shape)
        return objective.value(weights) + np.vdot(linear + lam / 2 * weights, weights)

    def slope(flat):
        weights = flat.reshape(objective.shape)
        return (objective.gradient(weights) + linear + lam * weights).ravel()

    found = minimize(
        value,
        np.zeros(linear.size),
        jac=slope,
        method="L-BFGS-B",
        options={"gtol": 1e-9, "ftol": 0},
    )
    return found.x.reshape(objective.shape)


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize(
    ("name", "n_classes"),
    [("softmax", 2), ("softmax", 5), ("huber", 2), ("huber", 4), ("hinge", 3)],
)
def test_newton_agrees_with_another_solver(name, n_classes, dense, rng, monkeypatch):
    if not dense:
        monkeypatch.setattr(solvers, "MAX_DENSE", 0)
    objective = problem(name, n_classes, rng)
    linear = rng.normal(0, 5, objective.shape)
    found = objective.minimise(linear, 2.0, 1e-9)
    gradient = objective.gradient(found) + linear + 2.0 * found
    assert np.linalg.norm(gradient) < 1e-8
    if name != "hinge":  # its rounded corner is too sharp for the other solver
        np.testing.assert_allclose(found, literal_minimum(objective, linear, 2.0), atol=1e-6)


def test_softmax_is_logistic_regression(rng):
    objective = problem("softmax", 4, rng)
    codes = objective.targets.argmax(axis=1)
    theirs = LogisticRegression(C=1 / 3.0, fit_intercept=False, tol=1e-10, max_iter=2000)
    theirs.fit(objective.rows, codes)
    ours = objective.minimise(np.zeros(objective.shape), 3.0, 1e-9)
    np.testing.assert_allclose(ours, theirs.coef_, atol=1e-5)


def test_gradient_error_covers_the_rounding(rng):
    """Against sums in extended precision."""
    objective = problem("softmax", 4, rng, n=5000)
    weights = rng.normal(0, 30, objective.shape)
    rows = objective.rows.astype(np.longdouble)
    scores = rows @ weights.astype(np.longdouble).T
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    slopes = shares / shares.sum(axis=1, keepdims=True) - (objective.targets + 1) / 2
    exact = slopes.T @ rows
    error = float(np.linalg.norm(objective.gradient(weights) - exact))
    assert 0 < error <= objective.gradient_error(weights) < 1e-7


def test_many_rows_hardly_raise_the_rounding_of_a_row():
    """Blocks are added in pairs: ten million rows cost a row a few more units, not ten thousand."""
    loss = loss_named("softmax", 2)
    few, many = (LinearLimits(loss, n, 4).gradient_error(0.0) / n for n in (256, 10_000_000))
    assert many < 1.1 * few
    assert LinearLimits(loss, 1_500_000, 1).gradient_error(0.0) < 2.0**-22


def test_blocks_of_rows_and_groups_of_columns_give_the_whole_gradient(rng, monkeypatch):
    objective = problem("softmax", 3, rng, n=777, m=11)
    weights = rng.normal(size=objective.shape)
    scores = objective.rows @ weights.T
    literal = objective.loss.slopes(scores, objective.targets).T @ objective.rows
    for block in (1, 7, 256, 1000):
        monkeypatch.setattr(objective_module, "BLOCK", block)
        np.testing.assert_allclose(objective.gradient(weights), literal, atol=1e-11)


def test_no_minimiser_lies_beyond_its_public_radius(rng):
    for name, n_classes in (("softmax", 2), ("softmax", 3), ("huber", 3), ("hinge", 2)):
        objective = problem(name, n_classes, rng, n=30, m=3)
        for lam in (1e-3, 1.0, 100.0):
            linear = rng.normal(0, 3, objective.shape)
            found = np.linalg.norm(objective.minimise(linear, lam, 1e-8))
            assert found <= objective.radius(np.linalg.norm(linear), lam) * (1 + 1e-9)
    one = LinearObjective(objective.loss, np.ones((1, 1)), np.ones((1, 1)))
    assert farthest_minimiser(1.0, 1.0, 0.0, 4.0) == 0.25  # attained: all of the slope at once
    assert one.minimise(np.zeros((1, 1)), 4.0, 1e-12)[0, 0] == pytest.approx(0.25)


def test_the_public_rounding_holds_for_every_data_set_of_that_size(rng):
    loss = loss_named("softmax", 3)
    lam, longest = 0.5, 20.0
    public = LinearLimits(loss, 400, 6).rounding(longest, lam)
    for n in (1, 50, 400):
        objective = problem("softmax", 3, rng, n=n)
        linear = rng.normal(size=objective.shape)
        linear *= longest / np.linalg.norm(linear)
        reach = 3 * objective.radius(longest, lam)
        weights = rng.normal(size=objective.shape)
        weights *= reach / np.linalg.norm(weights)
        assert objective.gradient_error(weights) < public


# Near the minimiser, whatever the quick solver does ---------------------------------------------


@pytest.mark.parametrize(("name", "n_classes"), [("softmax", 3), ("hinge", 2)])
def test_linear_classifiers_without_newton_are_found_all_the_same(
    name, n_classes, rng, monkeypatch
):
    objective = problem(name, n_classes, rng, n=100)
    linear = rng.normal(size=objective.shape)
    exact = objective.minimise(linear, 20.0, 1e-10)
    monkeypatch.setattr(
        objective_module, "newton", lambda loss, rows, targets, linear, lam, tol: linear + np.nan
    )
    found = near_minimiser(objective, linear, 20.0, 1e-4)
    assert np.linalg.norm(found - exact) <= 1e-4 / 20
    least = rounding_met(lambda _: 0.0, 100.0, 100.0, 1.0, 20.0)
    assert 0 < least < 1e-12  # sums of the three terms of a gradient are rounded as well


@pytest.mark.parametrize("error", [np.linalg.LinAlgError, ValueError])
def test_a_singular_hessian_ends_the_quick_solver_without_an_error(error, rng, monkeypatch):
    def fails(*_, **__):
        raise error

    objective = problem("softmax", 3, rng, n=60)
    exact = objective.minimise(np.zeros(objective.shape), 5.0, 1e-10)
    monkeypatch.setattr(solvers, "cho_factor", fails)
    found = near_minimiser(objective, np.zeros(objective.shape), 5.0, 1e-5)
    assert np.linalg.norm(found - exact) <= 1e-5 / 5
