"""An honest private estimator in one screen, from which faults are one line away."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.datasets import make_blobs

from sfumato import Bounds, PrivatePCA
from sfumato.mechanisms import GaussianMechanism
from sfumato.models.budget import Budget
from sfumato.sums.maps import IntoUnitBall
from sfumato.sums.records import ArrayRecords
from sfumato.sums.statistics import SecondMoment

X, Y = make_blobs(150, n_features=3, centers=2, random_state=0)
X = X * 0.05
BOUNDS = Bounds(norm=1.0)


class Honest(PrivatePCA):
    """A PCA in one screen."""

    sensitivity = np.sqrt(2)
    noise_share = 1.0

    def fit(self, X: Any, y: object = None) -> Self:
        bounds = (
            self.missing(X) if self.bounds is None else self._check_request().encoder.row_bounds()
        )
        rows = np.asarray(X) if self.bounds is None else self._check_rows(X)
        units = IntoUnitBall(bounds, rows.shape[1])(rows)
        mechanism = GaussianMechanism.calibrate(
            sensitivity=self.sensitivity, epsilon=self.epsilon, delta=self.delta
        )
        receipt = self.pay(mechanism)
        self.components_ = self.release(
            mechanism,
            SecondMoment(rows.shape[1]).add_up(units, np.zeros(len(rows), dtype=np.intp)),
            receipt,
        )
        self.centre_ = np.zeros(rows.shape[1])
        self.after(rows)
        self.guarantee_ = self._guarantee(receipt)
        return self

    def missing(self, X: Any) -> Bounds:
        return self._check_request().encoder.row_bounds()

    def _check_rows(self, X: Any, *, reset: bool = True) -> np.ndarray:
        return self._reader.rows(self._checked_rows(X, reset=reset))

    def pay(self, mechanism: Any) -> Any:
        return self._charge(mechanism)

    def _charge(self, mechanism: Any) -> Any:
        return self._budget().charge(mechanism.event())

    def _guarantee(self, receipt: Any) -> Any:
        return replace(self._budget(), receipt=receipt).guarantee()

    def _budget(self) -> Budget:
        records = ArrayRecords(np.zeros((1, 1)), relation=self.relation)
        return Budget(self.epsilon, self.delta, records, self.ledger)

    def release(self, mechanism: Any, statistic: np.ndarray, receipt: Any) -> np.ndarray:
        return mechanism.release_symmetric(statistic, ledger=receipt)

    def after(self, rows: np.ndarray) -> None:
        pass

    def _public_facts(self, reader: Any = None) -> tuple[str, ...]:
        return ()
