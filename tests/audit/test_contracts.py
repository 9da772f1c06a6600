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


class LearnsBounds(Honest):
    def missing(self, X: Any) -> Bounds:
        return Bounds(norm=float(np.linalg.norm(X, axis=1).max()))


class KeepsRows(Honest):
    def after(self, rows: np.ndarray) -> None:
        self.support_ = rows[:5].copy()


class KeepsDirections(Honest):
    def after(self, rows: np.ndarray) -> None:
        self.support_ = rows[:5] / np.linalg.norm(rows[:5], axis=1, keepdims=True)


class WritesParameter(Honest):
    def after(self, rows: np.ndarray) -> None:
        self.n_components = 7


class ReadsRowsAfterRelease(Honest):
    def after(self, rows: np.ndarray) -> None:
        self.centre_ = np.round(rows.mean(axis=0), 3)


class TooSmallSensitivity(Honest):
    sensitivity = 1.0


class IdleSensitivity(Honest):
    sensitivity = 3.0


class TooLittleNoise(Honest):
    def release(self, mechanism: Any, statistic: np.ndarray, receipt: Any) -> np.ndarray:
        weak = GaussianMechanism(mechanism.sensitivity, mechanism.noise_multiplier)
        object.__setattr__(weak, "grid", lambda r: (2.0**-30, 0.6 * weak.variance() ** 0.5))
        return weak.release_symmetric(statistic, ledger=receipt)


class DrawsFirst(Honest):
    def pay(self, mechanism: Any) -> Any:
        mechanism.release_symmetric(np.zeros((2, 2)), ledger=None)
        return self._charge(mechanism)


class ForgetsToCharge(Honest):
    def pay(self, mechanism: Any) -> Any:
        return prepay(None, mechanism.event())


class NeverClips(Honest):
    def fit(self, X: Any, y: object = None) -> Self:
        self.truth_, self.bounds = self.bounds, Bounds(norm=1e6)
        try:
            return super().fit(np.nan_to_num(X))
        finally:
            self.bounds = self.__dict__.pop("truth_")


class DrawsTwice(Honest):
    def release(self, mechanism: Any, statistic: np.ndarray, receipt: Any) -> np.ndarray:
        first = super().release(mechanism, statistic, receipt)
        return (first + mechanism.release_symmetric(statistic, ledger=None)) / 2


class Boasts(Honest):
    def _guarantee(self, receipt: Any) -> Any:
        return dataclasses.replace(super()._guarantee(receipt), epsilon=self.epsilon / 100)


class ChargesWithoutWords(Honest):
    def pay(self, mechanism: Any) -> Any:
        return prepay(self.ledger, mechanism.event())


class RaisesForOneRow(Honest):
    def _check_rows(self, X: Any, *, reset: bool = True) -> np.ndarray:
        if not np.isfinite(X).all():
            raise ValueError("there is a missing number")
        return super()._check_rows(X, reset=reset)


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (LearnsBounds, c.check_bounds_are_required),
        (KeepsRows, c.check_no_raw_row_survives),
        (KeepsDirections, c.check_no_raw_row_survives),
        (WritesParameter, c.check_constructor_arguments_are_untouched),
        (ReadsRowsAfterRelease, c.check_taint),
        (TooSmallSensitivity, c.check_sensitivity),
        (IdleSensitivity, c.check_sensitivity),
        (TooLittleNoise, c.check_noise_law),
        (DrawsFirst, c.check_charged_before_the_draw),
        (ForgetsToCharge, c.check_charged_before_the_draw),
        (RaisesForOneRow, c.check_bad_rows_do_not_raise),
        (NeverClips, c.check_sensitivity),
        (DrawsTwice, c.check_guarantee_covers_the_releases),
        (ForgetsToCharge, c.check_guarantee_covers_the_releases),
        (Boasts, c.check_guarantee_covers_the_releases),
        (ChargesWithoutWords, c.check_guarantee_covers_the_releases),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_a_broken_estimator_is_caught(
    broken: type[Honest], check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = saving._known_classes()
    more = {"Honest": Honest, broken.__name__: broken}
    monkeypatch.setattr(saving, "_known_classes", lambda: {**known, **more})
    check(PrivateCase(Honest(2, bounds=BOUNDS), X))
    with pytest.raises((AssertionError, ValueError)):
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
