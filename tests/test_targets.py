"""Targets beyond their public range count as its ends, for every regressor and every release."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import RegressorMixin, clone

from sfumato.audit.testing import PrivateCase
from sfumato.mechanisms.base import Released, taped
from sfumato.mechanisms.entropy import seeded
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
