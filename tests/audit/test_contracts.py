"""The contracts must catch estimators that break them."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

import array_api_strict
import numpy as np
import pytest

from sfumato import Bounds, PrivateMoments
from sfumato.audit.testing import PrivateCase, check_private_estimator, contracts as c
from sfumato.audit.testing.inspection import holds_a_row, leaves
from sfumato.ledger.receipt import prepay
from sfumato.mechanisms import GaussianMechanism
from sfumato.models import saving
from tests.honest import BOUNDS, Honest, X


class NeverClips(Honest):
    def fit(self, X: Any, y: object = None) -> Self:
        self.truth_, self.bounds = self.bounds, Bounds(norm=1e6)
        try:
            return super().fit(np.nan_to_num(X))
        finally:
            self.bounds = self.__dict__.pop("truth_")


def too_little_noise(_: Any, mechanism: Any, statistic: np.ndarray, receipt: Any) -> np.ndarray:
    weak = GaussianMechanism(mechanism.sensitivity, mechanism.noise_multiplier)
    object.__setattr__(weak, "grid", lambda r: (2.0**-30, 0.6 * weak.variance() ** 0.5))
    return weak.release_symmetric(statistic, ledger=receipt)


def draws_twice(_: Any, mechanism: Any, statistic: np.ndarray, receipt: Any) -> np.ndarray:
    first = mechanism.release_symmetric(statistic, ledger=receipt)
    return (first + mechanism.release_symmetric(statistic, ledger=None)) / 2


def draws_first(model: Any, mechanism: Any) -> Any:
    mechanism.release_symmetric(np.zeros((2, 2)), ledger=None)
    return model._charge(mechanism)


def raises_for_one_row(model: Any, X: Any, *, reset: bool = True) -> np.ndarray:
    if not np.isfinite(X).all():
        raise ValueError("there is a missing number")
    return Honest._check_rows(model, X, reset=reset)


def boasts(model: Any, receipt: Any) -> Any:
    return dataclasses.replace(Honest._guarantee(model, receipt), epsilon=model.epsilon / 100)


CHARGE, COVER = c.check_charged_before_the_draw, c.check_guarantee_covers_the_releases
LENGTHS = np.linalg.norm(X, axis=1, keepdims=True)
FAULTS: dict[str, tuple[Any, Any]] = {  # which contract is broken, and how
    "LearnsBounds": (c.check_bounds_are_required, {"missing": lambda *_: BOUNDS}),
    "KeepsRows": (
        c.check_no_raw_row_survives,
        {"after": lambda m, r: setattr(m, "support_", r[:5].copy())},
    ),
    "KeepsDirections": (
        c.check_no_raw_row_survives,
        {"after": lambda m, r: setattr(m, "support_", r[:5] / LENGTHS[:5])},
    ),
    "WritesParameter": (
        c.check_constructor_arguments_are_untouched,
        {"after": lambda m, r: setattr(m, "n_components", 7)},
    ),
    "ReadsRowsAfterRelease": (
        c.check_taint,
        {"after": lambda m, r: setattr(m, "centre_", np.round(r.mean(axis=0), 3))},
    ),
    "TooSmallSensitivity": (c.check_sensitivity, {"sensitivity": 1.0}),
    "IdleSensitivity": (c.check_sensitivity, {"sensitivity": 3.0}),
    "NeverClips": (c.check_sensitivity, NeverClips),
    "TooLittleNoise": (c.check_noise_law, {"release": too_little_noise}),
    "DrawsFirst": (CHARGE, {"pay": draws_first}),
    "ForgetsToCharge": (CHARGE, {"pay": lambda _, m: prepay(None, m.event())}),
    "RaisesForOneRow": (c.check_bad_rows_do_not_raise, {"_check_rows": raises_for_one_row}),
    "DrawsTwice": (COVER, {"release": draws_twice}),
    "PaysElsewhere": (COVER, {"pay": lambda _, m: prepay(None, m.event())}),
    "Boasts": (COVER, {"_guarantee": boasts}),
    "ChargesWithoutWords": (COVER, {"pay": lambda self, m: prepay(self.ledger, m.event())}),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_broken_estimator_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check, changes = FAULTS[name]
    broken = changes if isinstance(changes, type) else type(name, (Honest,), changes)
    more, known = {"Honest": Honest, name: broken}, saving._public_class
    monkeypatch.setattr(saving, "_public_class", lambda kind: more.get(kind) or known(kind))
    check(PrivateCase(Honest(2, bounds=BOUNDS), X))
    with pytest.raises(ValueError if name == "RaisesForOneRow" else AssertionError):
        check(PrivateCase(broken(2, bounds=BOUNDS), X))


def test_the_oracle_is_asked() -> None:
    def wrong(model: Any, X: np.ndarray, y: Any) -> None:
        raise AssertionError("not the same")

    with pytest.raises(AssertionError, match="not the same"):
        check_private_estimator(PrivateMoments(bounds=BOUNDS), X, oracle=wrong)


def test_rows_kept_in_arrays_of_another_library_are_found() -> None:
    class KeepsTensor(Honest):
        def after(self, rows: np.ndarray) -> None:
            self.support_ = [array_api_strict.asarray(rows[:5])]

    model = KeepsTensor(2, bounds=BOUNDS).fit(X)
    assert any(holds_a_row(value, X) for _, value in leaves(model))
    assert not any(holds_a_row(value, X) for _, value in leaves(Honest(2, bounds=BOUNDS).fit(X)))
