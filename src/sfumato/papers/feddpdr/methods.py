"""The four methods of the paper on federated support vector machines, as printed and strict."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from sfumato.models.gaussians import top_eigenvectors
from sfumato.models.linear.classifier import LinearClassifier
from sfumato.models.linear.fit import fit_weights, split_weights
from sfumato.models.linear.private import PrivateLinearClassifier
from sfumato.papers.feddpdr.printed import PrintedDPML
from sfumato.sums.statistics import SecondMoment
from sfumato.tables.bounds import Bounds

Rows = NDArray[np.float64]
Predict = Callable[[Rows], NDArray[Any]]
DELTA, LAMBDA = 1e-4, 0.01
LABELS = [0, 1]
METHODS = ("Non-Priv", "DPML", "DPDR-DPML", "FedDPDR-DPML")
RAW, UNIT, STRICT = "as printed, raw pixels", "as printed, unit rows", "strict, unit rows"
PRINTED = (RAW, UNIT)
BALL = Bounds(norm=1.0, labels=LABELS)


@dataclass(frozen=True)
class Federation:
    """Rows and labels of some parties, and how they are to be treated.

    parties: Pixels in [0, 1], or rows of length 1.
    way: `RAW`, `UNIT` or `STRICT`.
    epsilon: Budget of a party.
    components: Target dimension k.
    """

    parties: Sequence[tuple[Rows, NDArray[Any]]]
    way: str
    epsilon: float
    components: int

    @property
    def bounds(self) -> Bounds:
        """What the method assumes of the rows; raw pixels break the assumption of the paper."""
        return Bounds(lower=0.0, upper=1.0, labels=LABELS) if self.way == RAW else BALL

    def learn(self, method: str) -> list[Predict]:
        """Learn by one method: one rule for the federation, else one for each party asked."""
        if method == "Non-Priv":
            return [self._not_private()]
        if method == "FedDPDR-DPML":
            return [self._federated()]
        kept = None if method == "DPML" else self.components
        return [self._alone(kept).fit(*party).predict for party in self._asked()]

    def _asked(self) -> Sequence[tuple[Rows, NDArray[Any]]]:
        """Parties that learn alone: the first where all are alike, else each of them."""
        sizes = {len(y) for _, y in self.parties}
        return self.parties if len(sizes) > 1 else self.parties[:1]

    def _alone(self, components: int | None) -> Any:
        shared: dict[str, Any] = {"epsilon": self.epsilon, "delta": DELTA, "bounds": self.bounds}
        if self.way == STRICT:
            return PrivateLinearClassifier(n_components=components, **shared)
        return PrintedDPML(components, **shared)

    def _not_private(self) -> Predict:
        """Principal components and a Huber machine of the largest party, without noise."""
        X, y = max(self.parties, key=lambda party: len(party[1]))
        width = X.shape[1]
        first = max(0, width - self.components)
        basis = eigh(X.T @ X, subset_by_index=[first, width - 1])[1]
        model = LinearClassifier(
            loss="huber", regularization=LAMBDA * len(y), fit_intercept=False
        ).fit(X @ basis, y)
        return lambda rows: model.predict(rows @ basis)

    def _federated(self) -> Predict:
        if self.way in PRINTED:
            return printed_federation(self.parties, self._alone(self.components), self.way == RAW)
        return strict_federation(self.parties, self._alone(self.components))


def strict_federation(
    parties: Sequence[tuple[Rows, NDArray[Any]]], estimator: PrivateLinearClassifier
) -> Predict:
    """Add up the parties' noisy second moments, train in their components, average the weights.

    Both releases of a party are calibrated together, so that they cost its epsilon and no more.
    Moments and weights count in proportion to rows, whose numbers are public.
    """
    model: Any = estimator.set_params(whiten=False)
    shares = np.array([len(y) for _, y in parties]) / sum(len(y) for _, y in parties)
    planned = [model.plan(*party) for party in parties]
    receipts = [model._charge(*plan.mechanisms()) for _, plan in planned]
    moments = [
        records.release(SecondMoment(records.width), plan.first, receipt)
        for (records, plan), receipt in zip(planned, receipts, strict=True)
    ]
    moment = np.tensordot(shares, np.stack(moments), axes=1)
    model.projection_ = top_eigenvectors(moment, model.n_components)[1]
    learned = [
        fit_weights(records.mapped(plan.row_map(len(moment), model.projection_)), plan, receipt)
        for (records, plan), receipt in zip(planned, receipts, strict=True)
    ]
    average = np.tensordot(shares, np.stack(learned), axes=1)
    intercept = planned[0][1].settings.intercept
    model.coef_, model.intercept_ = split_weights(average, intercept=intercept)
    return lambda rows: np.asarray(model.predict(rows))


def printed_federation(
    parties: Sequence[tuple[Rows, NDArray[Any]]],
    estimator: PrintedDPML,
    raw: bool,
) -> Predict:
    """Algorithm 1: average the parties' components, train in them, average the weights.

    ``U = (1/N) sum_i w_i U_i`` and ``b = (1/N) sum_i w_i b_i`` with ``w_i = n_i / n``; each half of
    epsilon pays for one phase. That signs and rotations of the U_i are arbitrary is as printed.
    """
    sizes = np.array([len(y) for _, y in parties], dtype=np.float64)
    weights = sizes / sizes.sum() / len(parties)
    bases = [estimator.fit(*party).projection_ for party in parties]
    basis = np.asarray(sum(w * each for w, each in zip(weights, bases, strict=True)))
    longest = math.sqrt(parties[0][0].shape[1]) if raw else 1.0
    second = PrintedDPML(
        epsilon=estimator.epsilon / 2,
        delta=estimator.delta,
        bounds=Bounds(norm=longest, labels=LABELS),
    )
    learned = [second.fit(X @ basis, y).weights_ for X, y in parties]
    direction = basis @ np.tensordot(weights, np.stack(learned), axes=1)[0]
    return lambda rows: (rows @ direction > 0).astype(int)
