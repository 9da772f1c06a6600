"""Whatever can be known before the charge is checked before it: a refusal costs nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import sfumato.models.base
from sfumato import Bounds
from sfumato.audit.testing.taint import fit
from sfumato.exceptions import InvalidInputError
from sfumato.ledger.receipt import Receipt
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.mechanisms.objective import GaussianObjectiveMechanism
from tests.test_common import CASES
from tests.test_row_counts import SECRET_CASES

FITTED = [
    pytest.param(case, id=f"{name}-{i}")
    for name, cases in CASES.items()
    for i, case in enumerate(cases)
]


class CountingLedger:
    """Counts charges; every one is granted."""

    def __init__(self) -> None:
        self.charges = 0

    def __deepcopy__(self, memo: object) -> CountingLedger:
        return self

    def charge(self, *events: Any, unit: Any = None, relation: Any = None) -> Receipt:
        self.charges += 1
        return Receipt(events, unit=unit, relation=relation)


def refused(estimator: Any, X: Any, y: Any, words: str) -> Any:
    ledger = CountingLedger()
    model = clone(estimator).set_params(ledger=ledger)
    model.guarantee_ = "of an earlier fit"
    with pytest.raises(InvalidInputError, match=words):
        fit(model, X, y)
    assert ledger.charges == 0
    return model


@pytest.mark.filterwarnings("ignore:delta=")
@pytest.mark.filterwarnings("ignore::sfumato.exceptions.RefutedGuaranteeWarning")
@pytest.mark.parametrize("case", FITTED)
def test_bounds_of_another_width_cost_nothing(case: Any) -> None:
    d = case.X.shape[1] + 1
    labels = case.estimator.array_bounds.labels
    bounds = Bounds(lower=[0.0] * d, upper=[1.0] * d, labels=labels)
    other = clone(case.estimator).set_params(bounds=bounds)
    assert not hasattr(refused(other, case.X, case.y, f"{d} features"), "guarantee_")


@pytest.mark.parametrize("data", SECRET_CASES)
def test_more_rows_than_declared_cost_nothing(data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(data[0]), "max_secret_rows", 64, raising=False)
    refused(*data, "At most 64 rows")


@pytest.mark.parametrize("case", FITTED)
@pytest.mark.filterwarnings("ignore:delta=")
@pytest.mark.filterwarnings("ignore::sfumato.exceptions.RefutedGuaranteeWarning")
def test_more_rows_than_can_be_summed_cost_nothing(
    case: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sfumato.models.base, "MAX_ROWS", 64)
    estimator = clone(case.estimator)
    if estimator.relation != "replace_one":
        estimator.set_params(relation="replace_one")
    refused(estimator, case.X, case.y, "At most 64 rows")


@pytest.mark.parametrize("case", FITTED)
@pytest.mark.filterwarnings("ignore:delta=")
@pytest.mark.filterwarnings("ignore::sfumato.exceptions.RefutedGuaranteeWarning")
def test_noise_that_cannot_be_drawn_costs_nothing(
    case: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a lower limit, sizes that any estimator asks for become too large."""
    monkeypatch.setattr("sfumato.mechanisms.sampling.MAX_SCALE", 2.0**20)
    monkeypatch.setattr("sfumato.mechanisms.objective.MAX_NORM", 2.0**-40)
    refused(case.estimator, case.X, case.y, "drawn")


def test_workers_seeds_and_devices_that_are_none_cost_nothing() -> None:
    case = CASES["PrivateAffineHullClassifier"][0]
    odd = (("n_jobs", 0), ("n_jobs", "two"), ("random_state", -1), ("device", "no such"))
    for setting, value in odd:
        wrong = clone(case.estimator).set_params(**{setting: value})
        refused(wrong, case.X, case.y, f"'{setting}'")
    case = CASES["GaussianFabricator"][0]
    refused(clone(case.estimator).set_params(random_state=-1), case.X, case.y, "'random_state'")


def test_mechanisms_refuse_before_they_charge() -> None:
    ledger = CountingLedger()
    with pytest.raises(InvalidInputError, match="drawn exactly"):
        GaussianMechanism(1.0, 1e13).release(np.zeros(10**4), ledger=ledger)
    objective = GaussianObjectiveMechanism(1.0, 0.1, 1.0, noise_multiplier=1e6, dimension=1)

    class Wide:
        shape = (1000, 1000)

    with pytest.raises(InvalidInputError, match="drawn exactly"):
        objective.release(Wide(), ledger=ledger)  # type: ignore[arg-type]
    assert ledger.charges == 0
