"""The large-margin objective against a semidefinite programme, where a solver is installed."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler

from sfumato.papers.large_margin.classifier import LargeMarginGaussianClassifier

cvxpy = pytest.importorskip("cvxpy", reason="cvxpy is not installed")


@pytest.mark.parametrize("regularizer", ["trace", "frobenius"])
@pytest.mark.parametrize("loss", ["huber", "hinge"])
def test_the_objective_is_that_of_the_semidefinite_programme(loss: str, regularizer: str) -> None:
    X, y = load_iris(return_X_y=True)
    X, y = StandardScaler().fit_transform(X)[::3], y[::3]
    rows = np.column_stack([X, np.ones(len(X))])
    matrices = [cvxpy.Variable((5, 5), PSD=True) for _ in range(3)]
    terms = []
    for c in range(3):
        members = rows[y == c]
        scores = [cvxpy.sum(cvxpy.multiply(members @ m, members), axis=1) for m in matrices]
        for other in range(3):
            if other != c:
                terms.append(_loss(1 + scores[c] - scores[other], 0.5 if loss == "huber" else 0.0))
    penalty = (
        sum(cvxpy.trace(m) for m in matrices)
        if regularizer == "trace"
        else sum(cvxpy.sum_squares(m) for m in matrices) / 2
    )
    problem = cvxpy.Problem(cvxpy.Minimize(sum(terms) / len(X) + 0.01 * penalty))
    problem.solve(solver=cvxpy.SCS, eps=1e-8, max_iters=200_000)
    model = LargeMarginGaussianClassifier(
        loss, regularizer=regularizer, scaling="none", tol=1e-5, max_iter=5000
    ).fit(X, y)
    # The hinge is approached to h/4 for each of two pairs a row.
    assert abs(model.objective_ - problem.value) < (1e-5 if loss == "huber" else 5e-4)


def _loss(lacking: object, width: float) -> object:
    """Huber's hinge: with ``r = max(z + h, 0)``, ``r²/(4h)`` up to 2h and ``r - h`` above."""
    if width == 0:
        return cvxpy.sum(cvxpy.pos(lacking))
    return cvxpy.sum(cvxpy.huber(cvxpy.pos(lacking + width), 2 * width)) / (4 * width)
