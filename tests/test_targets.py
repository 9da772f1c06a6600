"""Targets beyond their public range count as its ends, for every regressor and every release."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.base import RegressorMixin, clone

from sfumato import Bounds
from sfumato.audit.testing import PrivateCase
from sfumato.mechanisms.base import Released, taped
from sfumato.mechanisms.entropy import seeded
from sfumato.models.linear import WithTarget
from sfumato.sums.maps import IntoUnitBall
from tests.test_common import CASES

REGRESSORS = {
    f"{name}-{number}": case
    for name, cases in CASES.items()
    for number, case in enumerate(cases)
    if isinstance(case.estimator, RegressorMixin)
}


def releases(case: PrivateCase, targets: np.ndarray) -> list[Released]:
    model = clone(case.estimator)
    if "loss" in model.get_params():  # the slopes of the absolute loss do not know how far it is
        model.set_params(loss="huber", regularization=1e-4)
    with seeded(0), taped() as tape:
        model.fit(case.X, targets)
    return tape.releases


@pytest.mark.parametrize("name", REGRESSORS)
def test_targets_beyond_their_range_count_as_its_ends(name: str) -> None:
    case = REGRESSORS[name]
    low, high = case.estimator.target_bounds
    inside = np.linspace(low, high, len(case.X))
    inside[::3], inside[1::7] = low, high
    beyond = inside.copy()
    beyond[::6], beyond[3::6], beyond[1::7] = low - 0.3 * (high - low), low - 1e9, high + 1e-3
    assert len(releases(case, inside)) >= 1
    for here, there in zip(releases(case, inside), releases(case, beyond), strict=True):
        if here.statistic.dtype == object:  # an objective: of its gradient
            point = np.ones_like(here.output)
            gradients = [each.statistic.item().gradient(point) for each in (here, there)]
            np.testing.assert_array_equal(*gradients)
            continue
        np.testing.assert_array_equal(here.statistic, there.statistic)


@pytest.mark.parametrize(
    "target", [-1e300, -math.inf, -1.4, -1.0, 0.3, 1.0, 1.001, 1.4, 1e9, 1e300]
)
def test_rows_with_a_target_lie_in_the_unit_ball(target: float) -> None:
    """Whoever makes the rows: a target from elsewhere was not clipped before."""
    for row in ([0.6, 0.8], [0.0, 0.0], [1e200, -1e200], [math.nan, 1.0]):
        joined = WithTarget(IntoUnitBall(Bounds(norm=1.0), 2))(np.array([[*row, target]]))[0]
        assert np.linalg.norm(joined) <= 1.0
        assert joined[-1] == pytest.approx(np.clip(target, -1, 1) / math.sqrt(3), abs=1e-7)
    nothing = WithTarget(IntoUnitBall(Bounds(norm=1.0), 2))(np.array([[0.6, 0.8, math.nan]]))
    assert not nothing.any()
