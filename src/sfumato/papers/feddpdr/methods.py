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
from sfumato.models.linear import (
    MAX_STEP,
    MOMENT_SHARE,
    SCORE_NOISE,
    Descent,
    PrivateLinearClassifier,
    step_size,
)
from sfumato.papers.feddpdr.losses import targets_of
from sfumato.papers.feddpdr.newton import newton
from sfumato.papers.feddpdr.printed import PrintedDPML
from sfumato.sums.gradients import GradientSum, loss_named
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
        rows, loss = X @ basis, loss_named("huber", len(LABELS))
        targets, start = targets_of(loss, y), np.zeros((1, basis.shape[1]))
        weights = newton(loss, rows, targets, start, LAMBDA * len(y), 1e-9 * len(y))
        return lambda rows: (rows @ (basis @ weights[0]) > 0).astype(int)

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
    model: Any = estimator.set_params(whiten=False, fit_intercept=True)
    shares = np.array([len(y) for _, y in parties]) / sum(len(y) for _, y in parties)
    loss = loss_named(model.loss, len(LABELS))
    clip, n_steps = min(model.max_gradient_norm, loss.slope_bound), model.n_steps
    begun: list[Any] = []
    for party in parties:
        records, budget = model._begin(*party)
        shape = loss.n_scores, min(model.n_components, records.width) + 1
        moment = budget.gaussian(SecondMoment(records.width), MOMENT_SHARE)
        gradient = budget.gaussian(GradientSum(loss, clip, np.zeros(shape)), count=n_steps)
        budget.charge()
        begun.append((records, budget, gradient, budget.draw(moment)))
    total = np.tensordot(shares, np.stack([each[-1] for each in begun]), axes=1)
    model.projection_ = top_eigenvectors(total, shape[1] - 1)[1]
    row_map = model._row_map(model.projection_)

    def weights_of(records: Any, budget: Any, gradient: Any) -> Rows:
        rows, n_rows = records.mapped(row_map).cache(), records.public_rows
        step = step_size(budget.noise(gradient) / n_rows, n_steps, SCORE_NOISE, MAX_STEP / clip)
        descent = Descent(shape, n_rows, n_steps, step)
        for _ in range(n_steps):
            descent.follow(budget.draw(gradient, rows, GradientSum(loss, clip, descent.weights)))
        return descent.average

    average = np.tensordot(shares, np.stack([weights_of(*each[:3]) for each in begun]), axes=1)
    model.coef_, model.intercept_ = average[:, :-1], average[:, -1]
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
