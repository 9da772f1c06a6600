"""The additive regressor: known curves, skewed targets, intervals, the other relation."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sfumato import Bounds, PrivateAdditiveRegressor
from sfumato.audit.testing import PrivateCase
from sfumato.audit.testing.contracts import check_sensitivity, check_taint
from sfumato.exceptions import InvalidInputError, MissingBoundsError
from sfumato.models.additive.calibration import _line
from sfumato.privacy.guarantee import Relation
from sfumato.sums.gradients import ResidualSum
from sfumato.tables import TableBounds

Split = tuple[np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def waves() -> Split:
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, size=(6000, 3))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + 0.2 * rng.normal(size=6000)


def model(**options: object) -> PrivateAdditiveRegressor:
    usual = {"delta": 1e-5, "relation": "add_or_remove_one", "target_bounds": (-3.0, 3.0)}
    bounds = Bounds(lower=-1.0, upper=1.0)
    return PrivateAdditiveRegressor(**{**usual, "n_steps": 80, "bounds": bounds, **options})


def test_curves_are_found(noise: None, waves: Split) -> None:
    fitted = model(epsilon=2.0).fit(*waves)
    assert fitted.score(*waves) > 0.85
    assert fitted.guarantee_.epsilon <= 2.0
    ends = fitted.predict_interval(waves[0], 0.9)
    inside = np.mean((ends[:, 0] <= waves[1]) & (waves[1] <= ends[:, 1]))
    assert 0.8 < inside < 0.99


def test_the_mean_of_a_skewed_target_is_right(noise: None) -> None:
    rng = np.random.default_rng(6)
    X = rng.uniform(-1, 1, size=(10_000, 2))
    y = rng.negative_binomial(0.5, 0.5 / (0.5 + np.exp(1 + X[:, 0])))
    fitted = model(epsilon=3.0, target_bounds=(0, 80)).fit(X, y)
    assert abs(fitted.predict(X).mean() - y.mean()) < 0.15 * y.mean()
    assert fitted.score(X, y) > 0.05


def test_nothing_is_made_of_nothing(noise: None) -> None:
    rng = np.random.default_rng(7)
    X, y = rng.uniform(-1, 1, size=(2000, 3)), rng.normal(size=2000)
    assert model(epsilon=0.3).fit(X, y).score(X, y) > -0.3


def test_missing_targets_add_nothing(noise: None, waves: Split) -> None:
    X, y = waves[0][:2000], waves[1][:2000].copy()
    y[:500] = np.nan
    y[500] = np.inf
    assert np.isfinite(model().fit(X, y).predict(X)).all()
    statistic = ResidualSum(0.25, np.full((1, 2), 0.5))
    rows = np.array([[0.5, 0.25, np.nan], [0.5, 0.25, 1.0]])
    codes = np.zeros(2, dtype=np.intp)
    np.testing.assert_array_equal(
        statistic.add_up(rows, codes), statistic.add_up(rows[1:], codes[1:])
    )


def test_residuals_are_clipped_one_by_one() -> None:
    rng = np.random.default_rng(8)
    rows = np.trunc(rng.uniform(-0.5, 0.5, size=(50, 4)) * 2**18) / 2**18
    weights = np.array([[0.5, -0.25, 0.125]])
    found = ResidualSum(0.25, weights).add_up(rows, np.zeros(50, dtype=np.intp))
    literal = sum(np.clip(row[:3] @ weights[0] - row[3], -0.25, 0.25) * row[:3] for row in rows)
    np.testing.assert_allclose(found[0], literal, atol=50 * 2**-17)
    assert ResidualSum(0.25, weights).term_sensitivity(Relation.REPLACE_ONE) == 0.5


def test_the_line_is_that_of_least_squares(rng: np.random.Generator) -> None:
    g = rng.uniform(-1, 1, 5000)
    t = 0.2 + 0.5 * g + 0.1 * rng.normal(size=5000)
    rows = np.column_stack([np.ones(5000), g, t])
    level, slope, spread, _ = _line(rows.T @ rows, 1e-9, 10.0)
    assert [level, slope, spread] == pytest.approx([0.2, 0.5, 0.1], abs=0.01)
    assert _line(rows.T @ rows, 1e5, 10.0)[1] == 0  # all noise


@pytest.mark.parametrize(
    ("relation", "knots"), [("replace_one", "private"), ("add_or_remove_one", None)]
)
def test_contracts_where_records_are_replaced_or_counted(relation: str, knots: str | None) -> None:
    near = np.array([0.137, -0.211]) + 1e-4 * np.random.default_rng(0).normal(size=(200, 2))
    case = PrivateCase(
        model(
            relation=relation,
            n_knots=5,
            n_steps=20,
            knots=knots,
            max_gradient_norm=0.05,  # so small that both targets are clipped
            epsilon=1.0,
            target_bounds=(0.0, 1.0),
        ),
        near,
        (np.arange(200) > 90).astype(float),
        rows_at_bound=np.array([[1.0, 1.0], [-1.0, -1.0]]),
    )
    check_taint(case)
    check_sensitivity(case)


def test_tables_name_the_range_of_their_target(noise: None, waves: Split) -> None:
    frame = pd.DataFrame(waves[0], columns=["a", "b", "c"])
    facts = {"a": (-1, 1), "b": (-1, 1), "c": (-1, 1), "y": (-3, 3)}
    bounds = TableBounds.from_dict(facts, target="y")
    fitted = model(bounds=bounds, target_bounds=None).fit(frame, waves[1])
    assert fitted.score(frame, waves[1]) > 0.7


def test_what_is_refused(waves: Split) -> None:
    with pytest.raises(MissingBoundsError, match="target_bounds"):
        model(target_bounds=None).fit(*waves)
    with pytest.raises(InvalidInputError, match="lower first"):
        model(target_bounds=(1, 0)).fit(*waves)
    with pytest.raises(InvalidInputError, match="coverage"):
        model().fit(*waves).predict_interval(waves[0], 2.0)
