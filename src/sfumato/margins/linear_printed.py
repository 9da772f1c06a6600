"""DPML and DPDR-DPML as printed (Wang et al. 2024), with the figure that really holds.

Printed: the second moment gets Gaussian noise for sensitivity 1 (true for adding a row; replacing
one moves it by √2), and each class a Huber machine with Chaudhuri's perturbation of the objective,
its epsilon stated once however many classes there are. Both assume rows in the unit ball. Whether
they are is read off the *bounds*, never off the rows: a status that depended on a row would be a
release about it.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from sfumato.accounting.composition import epsilon_spent
from sfumato.accounting.receipt import prepay
from sfumato.bounds import Bounds
from sfumato.events import NonPrivateEvent
from sfumato.exceptions import InvalidInputError, RefutedGuaranteeWarning, UnsupportedModeError
from sfumato.guarantee import Guarantee, Relation, Status, Unit
from sfumato.margins.losses import HuberLoss, Loss
from sfumato.margins.objective import LinearObjective
from sfumato.mechanisms.base import noise_status
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.mechanisms.objective import GAMMA_SHARE, GammaObjectiveMechanism

__all__ = ["PrintedBudget", "fit_as_printed", "printed_budget", "printed_scores"]

Array = NDArray[np.float64]
USUAL_LAMBDA = 0.01
CONDITIONS = (
    "every row lies in the unit ball (here it is clipped to bounds inside it)",
    "the classifiers of all classes are charged, not one of them",
    "the minimiser is exact (here its error is covered by noise on the output)",
    "sums over rows are exact (here they are plain sums of doubles)",
)


@dataclass(frozen=True)
class PrintedBudget:
    """``epsilon'`` and the extra regulariser of Chaudhuri et al. 2011, Algorithm 2."""

    epsilon: float
    extra: float


def printed_budget(epsilon: float, n_rows: int, lam: float, huber_width: float) -> PrintedBudget:
    """``epsilon - log(1 + 2c/(n lam) + c²/(n lam)²)``, or half of epsilon with more regularising.

    Parameters
    ----------
    epsilon : float
        Printed budget of one classifier.
    n_rows : int
    lam : float
        Regulariser of the mean objective.
    huber_width : float
        h; ``c = 1/(2h)``.
    """
    c = 1 / (2 * huber_width)
    left = epsilon - 2 * math.log1p(c / (n_rows * lam))
    if left > 0:
        return PrintedBudget(left, 0.0)
    return PrintedBudget(epsilon / 2, c / (n_rows * math.expm1(epsilon / 4)) - lam)


def fit_as_printed(model: Any, rows: Array, codes: Any, loss: Loss, share: float) -> None:
    """Fit `model` as printed: noisy components if asked for, then one machine a class."""
    if not isinstance(loss, HuberLoss):
        raise UnsupportedModeError("mode='paper' prints a Huber machine: use loss='huber'.")
    if model.relation != Relation.REPLACE_ONE or math.isinf(model.epsilon):
        raise UnsupportedModeError(
            "mode='paper' is printed for relation 'replace_one' and a finite epsilon."
        )
    n_rows, n_features = rows.shape
    kept = None if model.n_components is None else min(model.n_components, n_features)
    first = None if kept is None else _printed_components(model, share)
    machine = _printed_machine(model, n_rows, kept or n_features, loss, 1 - share if kept else 1.0)
    receipt, refuted = _paid(model, first, machine, loss.n_scores, n_features)

    rows = model.bounds.clip(rows)
    model.projection_ = None
    if first is not None and kept is not None:
        model.projection_ = _printed_basis(first, rows, kept, receipt)
        rows = rows @ model.projection_
    targets = loss.targets(codes, rows)
    single = HuberLoss(2, loss.width)
    model.weights_ = np.concatenate(
        [
            machine.release(LinearObjective(single, rows, column[:, None]), ledger=receipt)
            for column in targets.T
        ]
    )
    model.guarantee_ = _printed_guarantee(model, receipt, refuted)


def printed_scores(model: Any, rows: Array) -> Array:
    """Scores of clipped rows: nothing is centred, scaled or appended."""
    rows = model.bounds.clip(rows)
    if model.projection_ is not None:
        rows = rows @ model.projection_
    return np.asarray(rows @ model.weights_.T)


def _printed_components(model: Any, share: float) -> GaussianMechanism:
    """Noise of deviation ``√(2 ln(1.25/delta)) / epsilon_1``; replacing a row moves by √2."""
    if not 0 < model.delta < 1:
        raise InvalidInputError("mode='paper' with components needs a 'delta' between 0 and 1.")
    deviation = math.sqrt(2 * math.log(1.25 / model.delta)) / (share * model.epsilon)
    return GaussianMechanism(math.sqrt(2), deviation / math.sqrt(2))


def _printed_machine(
    model: Any, n_rows: int, size: int, loss: HuberLoss, share: float
) -> GammaObjectiveMechanism:
    """``||b|| ~ Gamma(size, 2/epsilon')``: the rate of our mechanism, with what it really costs."""
    lam = USUAL_LAMBDA if model.regularization is None else model.regularization / n_rows
    printed = printed_budget(share * model.epsilon, n_rows, lam, loss.width)
    convexity = n_rows * (lam + printed.extra)
    kappa = HuberLoss(2, loss.width).log_determinant(convexity)
    return GammaObjectiveMechanism(
        sensitivity=2.0,
        kappa=kappa,
        strong_convexity=convexity,
        epsilon=(printed.epsilon + kappa) / (1 - GAMMA_SHARE),
        size=size,
    )


def _paid(
    model: Any,
    first: GaussianMechanism | None,
    machine: GammaObjectiveMechanism,
    n_machines: int,
    n_features: int,
) -> tuple[Any, bool]:
    """Charge what the releases really cost; without the unit ball, what no budget pays."""
    events = [] if first is None else [first.event()]
    events += [machine.event()] * n_machines
    refuted = not _inside_unit_ball(model.bounds, n_features)
    if refuted:
        warnings.warn(
            "mode='paper' draws noise for rows in the unit ball, and these bounds allow longer "
            "ones: no promise holds and the guarantee says 'refuted'. Use Bounds(norm=1.0).",
            RefutedGuaranteeWarning,
            stacklevel=4,
        )
        events.append(NonPrivateEvent())
    return prepay(model.ledger, *events, unit=model.unit, relation=model.relation), refuted


def _inside_unit_ball(bounds: Bounds, n_features: int) -> bool:
    if bounds.norm is not None and bounds.norm <= 1:
        return True
    box = bounds.box(n_features)
    return box is not None and float(np.linalg.norm(np.maximum(-box[0], box[1]))) <= 1


def _printed_basis(mechanism: GaussianMechanism, rows: Array, kept: int, receipt: Any) -> Array:
    """Noise on the upper triangle, mirrored; then the *singular* vectors, as printed."""
    moment = rows.T @ rows
    upper = np.triu_indices(len(moment))
    noisy = np.zeros_like(moment)
    noisy[upper] = mechanism.release(moment[upper], ledger=receipt)
    noisy = noisy + np.triu(noisy, 1).T
    values, vectors = eigh(noisy)
    return np.asarray(vectors[:, np.argsort(-np.abs(values))[:kept]])


def _printed_guarantee(model: Any, receipt: Any, refuted: bool) -> Guarantee:
    spent = epsilon_spent(receipt.events, model.delta, Relation(model.relation))
    status = noise_status()
    if refuted:
        status = Status.REFUTED
    elif status is Status.PROVED:
        status = Status.CONDITIONAL
    return Guarantee(
        epsilon=None if refuted else spent,
        delta=model.delta,
        unit=Unit(model.unit),
        relation=Relation(model.relation),
        status=status,
        claimed_epsilon=float(model.epsilon),
        public=model._public_facts(),
        conditions=CONDITIONS,
        events=receipt.events,
    )
