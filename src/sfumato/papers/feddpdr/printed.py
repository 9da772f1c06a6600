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
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh

from sfumato.core.constraints import Form, or_none, real, whole
from sfumato.exceptions import InvalidInputError, RefutedGuaranteeWarning, UnsupportedModeError
from sfumato.ledger.receipt import Receipt, prepay
from sfumato.mechanisms.base import noise_status
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.mechanisms.objective import GAMMA_SHARE, GammaObjectiveMechanism
from sfumato.models.base import PrivateClassifier
from sfumato.papers.feddpdr.losses import log_determinant, targets_of
from sfumato.papers.feddpdr.objective import LinearObjective
from sfumato.privacy.composition import epsilon_spent
from sfumato.privacy.events import NonPrivateEvent
from sfumato.privacy.guarantee import Guarantee, Relation, Status, Unit
from sfumato.sums.gradients import HuberLoss
from sfumato.tables.bounds import Bounds

Array = NDArray[np.float64]
DEFAULT_LAMBDA = 0.01
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
    """``epsilon - log(1 + 2c/(n lam) + c²/(n lam)²)``, or epsilon/2 with more regularisation."""
    c = 1 / (2 * huber_width)
    left = epsilon - 2 * math.log1p(c / (n_rows * lam))
    if left > 0:
        return PrintedBudget(left, 0.0)
    return PrintedBudget(epsilon / 2, c / (n_rows * math.expm1(epsilon / 4)) - lam)


@dataclass(eq=False, repr=False)
class PrintedDPML(PrivateClassifier):
    """DPML, or DPDR-DPML with components: one Huber machine per class, epsilon stated once.

    Parameters
    ----------
    n_components : int or None, default=None
        Components of the noisy second moment to classify in; None: DPML.
    pca_share : float, default=0.5
        Share of epsilon for the components.
    regularization : float or None, default=None
        The number of rows times lambda; None: lambda 0.01.
    huber_width : float, default=0.5
        Half the width of the rounding of the hinge.
    $shared

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The public label set, sorted.
    weights_ : ndarray of shape (1 or n_classes, n_weights)
        One machine per row.
    projection_ : ndarray of shape (n_features, n_components) or None
        The noisy components.
    guarantee_ : Guarantee
        What really holds (conditional or refuted), beside the printed figure as `claimed_epsilon`.

    See Also
    --------
    sfumato.PrivateLinearClassifier : All classes jointly, with a promise that is proved.

    References
    ----------
    Wang et al., Differentially private support vector machines with knowledge aggregation,
    Computers, Materials & Continua 78(3), 2024.
    """

    n_components: int | None = None
    _: KW_ONLY
    pca_share: float = 0.5
    regularization: float | None = None
    huber_width: float = 0.5

    offered_units: ClassVar[tuple[Unit, ...]] = (Unit.RECORD,)
    offered_relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE_ONE,)
    scales_columns: ClassVar[bool] = False  # as printed
    in_unit_ball: ClassVar[bool] = False
    needs_memory: ClassVar[bool] = True
    parameters: ClassVar[Form] = {
        "n_components": or_none(whole(least=1)),
        "pca_share": real(above=0.0, below=1.0),
        "regularization": or_none(real(above=0.0)),
        "huber_width": real(above=0.0),
    }

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Release noisy components if asked for, then one machine per class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Labels.

        Returns
        -------
        Self
            The fitted estimator.
        """
        rows, codes, budget = self._begin_in_memory(X, y)
        bounds = self.row_bounds
        if math.isinf(self.epsilon):
            raise UnsupportedModeError("The printed algorithm needs a finite 'epsilon'.")
        n_rows, n_features = rows.shape
        loss = HuberLoss(len(self.classes_), self.huber_width)
        kept = None if self.n_components is None else min(self.n_components, n_features)
        first = None if kept is None else _printed_components(self)
        share = 1 - self.pca_share if kept else 1.0
        machine = _printed_machine(self, n_rows, kept or n_features, share)
        refuted = not _inside_unit_ball(bounds, n_features)
        receipt = _paid(self, first, machine, loss.n_scores, refuted)

        rows = bounds.clip(rows)
        self.projection_ = None
        if first is not None and kept is not None:
            self.projection_ = _printed_basis(first, rows, kept, receipt)
            rows = rows @ self.projection_
        single = HuberLoss(2, loss.width)
        self.weights_ = np.concatenate(
            [
                machine.release(LinearObjective(single, rows, column[:, None]), ledger=receipt)
                for column in targets_of(loss, codes).T
            ]
        )
        self.guarantee_ = _printed_guarantee(self, receipt, refuted, budget.facts)
        return self

    def _scores(self, rows: Any) -> Array:
        rows = self.row_bounds.clip(rows)  # nothing is centred, scaled or appended
        if self.projection_ is not None:
            rows = rows @ self.projection_
        return np.asarray(rows @ self.weights_.T)


def _printed_components(model: PrintedDPML) -> GaussianMechanism:
    """Noise of deviation ``√(2 ln(1.25/delta)) / epsilon_1``; replacing a row moves by √2."""
    if not 0 < model.delta < 1:
        raise InvalidInputError("Components need a 'delta' between 0 and 1.")
    deviation = math.sqrt(2 * math.log(1.25 / model.delta)) / (model.pca_share * model.epsilon)
    return GaussianMechanism(math.sqrt(2), deviation / math.sqrt(2))


def _printed_machine(
    model: PrintedDPML, n_rows: int, size: int, share: float
) -> GammaObjectiveMechanism:
    """``||b|| ~ Gamma(size, 2/epsilon')``: the rate of our mechanism, with what it really costs."""
    lam = DEFAULT_LAMBDA if model.regularization is None else model.regularization / n_rows
    printed = printed_budget(share * model.epsilon, n_rows, lam, model.huber_width)
    convexity = n_rows * (lam + printed.extra)
    kappa = log_determinant(HuberLoss(2, model.huber_width), convexity)
    return GammaObjectiveMechanism(
        sensitivity=2.0,
        kappa=kappa,
        strong_convexity=convexity,
        epsilon=(printed.epsilon + kappa) / (1 - GAMMA_SHARE),
        size=size,
    )


def _paid(
    model: PrintedDPML,
    first: GaussianMechanism | None,
    machine: GammaObjectiveMechanism,
    n_machines: int,
    refuted: bool,
) -> Receipt:
    """Charge what the releases really cost; without the unit ball, what no budget pays."""
    events = [] if first is None else [first.event()]
    events += [machine.event()] * n_machines
    if refuted:
        warnings.warn(
            "The printed noise is for rows in the unit ball, and these bounds allow longer ones: "
            "nothing is guaranteed, and the status is 'refuted'. Use Bounds(norm=1.0).",
            RefutedGuaranteeWarning,
            stacklevel=4,
        )
        events.append(NonPrivateEvent())
    return prepay(model.ledger, *events, unit=model.unit, relation=model.relation)


def _inside_unit_ball(bounds: Bounds, n_features: int) -> bool:
    if bounds.norm is not None and bounds.norm <= 1:
        return True
    box = bounds.box(n_features)
    return box is not None and float(np.linalg.norm(np.maximum(-box[0], box[1]))) <= 1


def _printed_basis(mechanism: GaussianMechanism, rows: Array, kept: int, receipt: Receipt) -> Array:
    """Noise on the upper triangle, mirrored; then the *singular* vectors, as printed."""
    moment = rows.T @ rows
    upper = np.triu_indices(len(moment))
    noisy = np.zeros_like(moment)
    noisy[upper] = mechanism.release(moment[upper], ledger=receipt)
    noisy = noisy + np.triu(noisy, 1).T
    values, vectors = eigh(noisy)
    return np.asarray(vectors[:, np.argsort(-np.abs(values))[:kept]])


def _printed_guarantee(
    model: PrintedDPML, receipt: Receipt, refuted: bool, public: tuple[str, ...]
) -> Guarantee:
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
        public=public,
        conditions=CONDITIONS,
        events=receipt.events,
    )
