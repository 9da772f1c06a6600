"""The minimiser against other solvers, and its certificate."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from sfumato import LinearClassifier
from sfumato.exceptions import InvalidInputError, SfumatoError
from sfumato.margins import objective as objective_module
from sfumato.margins import solvers
from sfumato.margins.losses import loss_named
from sfumato.margins.objective import LinearObjective, certified


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
        monkeypatch.setattr(solvers, "LARGEST_DENSE", 0)
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
    ours = LinearClassifier(regularization=3.0, fit_intercept=False).fit(objective.rows, codes)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    np.testing.assert_allclose(
        ours.predict_proba(objective.rows), theirs.predict_proba(objective.rows), atol=1e-5
    )


def test_two_classes_have_one_score(rng):
    X = rng.normal(size=(80, 3))
    y = np.where(X[:, 0] + 0.1 * rng.normal(size=80) > 0, "yes", "no")
    model = LinearClassifier(loss="huber").fit(X, y)
    assert model.coef_.shape == (1, 3)
    assert model.decision_function(X).shape == (80,)
    assert model.score(X, y) > 0.9
    assert not hasattr(model, "predict_proba")
    with pytest.raises(InvalidInputError, match="regularization"):
        LinearClassifier(regularization=0.0).fit(X, y)


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


def test_a_minimiser_that_is_none_is_not_certified(rng, monkeypatch):
    objective = problem("softmax", 3, rng)
    weights = certified(objective, 1.0, 1e-6)
    assert np.linalg.norm(objective.gradient(weights) + weights) <= 1e-6
    monkeypatch.setattr(
        objective_module, "newton", lambda loss, rows, targets, linear, lam, tol: linear + 0.01
    )
    with pytest.raises(SfumatoError, match="accuracy"):
        certified(objective, 1.0, 1e-6)
