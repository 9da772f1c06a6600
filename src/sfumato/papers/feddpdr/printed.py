"""DPML, DPDR-DPML and FedDPDR-DPML as printed (Wang et al. 2024), with what really holds.

Printed: the second moment gets Gaussian noise for sensitivity 1, and each class a Huber machine
with Chaudhuri's perturbation of the objective, its epsilon stated once. Both assume rows in the
unit ball, which is read off the *bounds*: a status read off the rows would be a release of them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh

from sfumato.core.constraints import Form, one_of, or_none, real, whole
from sfumato.exceptions import InvalidInputError, RefutedGuaranteeWarning, UnsupportedModeError
from sfumato.federated.federation import ONE_PARTY_EACH
from sfumato.ledger.receipt import Receipt, prepay
from sfumato.mechanisms.base import noise_status
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.mechanisms.objective import GAMMA_SHARE, GammaObjectiveMechanism
from sfumato.models.base import PrivateClassifier
from sfumato.models.solvers import HuberHingeLoss
from sfumato.papers.feddpdr.objective import LinearObjective
from sfumato.privacy.composition import epsilon_spent, parallel
from sfumato.privacy.events import Event, NonPrivateEvent
from sfumato.privacy.guarantee import Guarantee, Relation, Status, Unit
from sfumato.tables.bounds import PUBLIC_LABELS, Bounds

Array = NDArray[np.float64]
DEFAULT_LAMBDA = 0.01
CONDITIONS = (
    "every row lies in the unit ball (here it is clipped to bounds inside it)",
    "the classifiers of all classes are charged, not one of them",
    "the minimiser is exact (here its error is covered by noise on the output)",
    "sums over rows are exact (here they are plain sums of doubles)",
)


def printed_budget(
    epsilon: float, n_rows: int, lam: float, huber_width: float
) -> tuple[float, float]:
    """Return ``epsilon'`` and the extra regulariser of Chaudhuri et al. 2011, Algorithm 2.

    ``epsilon - log(1 + 2c/(n lam) + c²/(n lam)²)``, or epsilon/2 with more regularisation.
    """
    c = 1 / (2 * huber_width)
    left = epsilon - 2 * math.log1p(c / (n_rows * lam))
    if left > 0:
        return left, 0.0
    return epsilon / 2, c / (n_rows * math.expm1(epsilon / 4)) - lam


def log_determinant(huber_width: float, curvature: float) -> float:
    """``sup log det(I + H / Λ)`` over Hessians H of a row of length 1: ``log(1 + 1/(2 h Λ))``."""
    return math.log1p(1 / (2 * huber_width * curvature))


@dataclass(frozen=True)
class _Party:
    """Rows of one party, clipped, and what it is to release."""

    rows: Array
    signs: Array  # a row per machine: 1 for its class, -1 for others
    components: GaussianMechanism | None
    machine: GammaObjectiveMechanism
    events: tuple[Event, ...]
    public: tuple[str, ...]
    loss: HuberHingeLoss


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
        What really holds (conditional or refuted), next to the printed figure as `claimed_epsilon`.

    Privacy
    -------
    Unit and relation : one record with its label, replaced; no others, and no infinite epsilon.
    Released : the noisy second moment, where components are asked for; a minimiser per class.
    Guarantee : for bounds inside the unit ball that of `guarantee_`, on conditions; else none.
        Proof: docs/guarantees/feddpdr.md.

    See Also
    --------
    sfumato.PrivateLinearClassifier : All classes jointly, with a promise that is proved.
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
        own = self._plan(X, y)
        receipt = self._pay(own)
        self.projection_ = None
        rows = own.rows
        if own.components is not None:
            self.projection_ = _printed_basis(own, self.n_components or 1, receipt)
            rows = rows @ self.projection_
        self.weights_ = _printed_weights(own, rows, receipt)
        self.guarantee_ = self._promised(own)
        return self

    def _plan(self, X: ArrayLike, y: ArrayLike) -> _Party:
        """Check all that can fail, and list what the releases of one party really cost."""
        rows, codes, budget = self._begin_in_memory(X, y)
        if math.isinf(self.epsilon):
            raise UnsupportedModeError("The printed algorithm needs a finite 'epsilon'.")
        n_rows, n_features = rows.shape
        first = None if self.n_components is None else _printed_components(self)
        share = 1.0 if self.n_components is None else 1 - self.pca_share
        machine = _printed_machine(
            self, n_rows, min(self.n_components or n_features, n_features), share
        )
        n_classes = len(self.classes_)
        asked = np.arange(1 if n_classes == 2 else 0, n_classes)
        events = [] if first is None else [first.event()]
        events += [machine.event()] * len(asked)
        if not _inside_unit_ball(self.row_bounds, n_features):
            events.append(NonPrivateEvent())
        clipped = np.asarray(self.row_bounds.clip(rows))
        signs, loss = np.where(codes == asked[:, None], 1.0, -1.0), HuberHingeLoss(self.huber_width)
        return _Party(clipped, signs, first, machine, tuple(events), budget.facts, loss)

    def _pay(self, *parties: _Party) -> Receipt:
        """Charge all parties at once; the bounds, which decide the warning, are those of all."""
        events = [event for own in parties for event in own.events]
        if NonPrivateEvent() in events:
            warnings.warn(
                "The printed noise is for rows in the unit ball, and these bounds allow longer "
                "ones: nothing is guaranteed, and the status is 'refuted'. Use Bounds(norm=1.0).",
                RefutedGuaranteeWarning,
                stacklevel=3,
            )
        return prepay(self.ledger, *events, unit=self.protected_unit, relation=self.relation)

    def _promised(self, own: _Party) -> Guarantee:
        refuted = NonPrivateEvent() in own.events
        status = Status.REFUTED if refuted else noise_status()
        spent = epsilon_spent(own.events, self.delta, Relation(self.relation))
        return Guarantee(
            epsilon=None if refuted else spent,
            delta=self.delta,
            unit=self.protected_unit,
            relation=Relation(self.relation),
            status=Status.CONDITIONAL if status is Status.PROVED else status,
            claimed_epsilon=float(self.epsilon),
            public=own.public,
            conditions=CONDITIONS,
            events=own.events,
        )

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
    epsilon, extra = printed_budget(share * model.epsilon, n_rows, lam, model.huber_width)
    convexity = n_rows * (lam + extra)
    kappa = log_determinant(model.huber_width, convexity)
    return GammaObjectiveMechanism(
        sensitivity=2.0,
        kappa=kappa,
        strong_convexity=convexity,
        epsilon=(epsilon + kappa) / (1 - GAMMA_SHARE),
        size=size,
    )


def _inside_unit_ball(bounds: Bounds, n_features: int) -> bool:
    if bounds.norm is not None and bounds.norm <= 1:
        return True
    box = bounds.box(n_features)
    return box is not None and float(np.linalg.norm(np.maximum(-box[0], box[1]))) <= 1


def _printed_basis(own: _Party, kept: int, receipt: Receipt) -> Array:
    """Algorithm 2: noise on the upper triangle, mirrored; then the *singular* vectors."""
    moment = own.rows.T @ own.rows
    upper = np.triu_indices(len(moment))
    noisy = np.zeros_like(moment)
    noisy[upper] = own.components.release(moment[upper], ledger=receipt)  # type: ignore[union-attr]
    noisy += np.triu(noisy, 1).T
    n = len(noisy)
    ends = [[0, kept - 1], [n - kept, n - 1]] if 2 * kept < n else [[0, n - 1]]
    found = [eigh(noisy, subset_by_index=end) for end in ends]
    values, vectors = (np.concatenate(each, axis=-1) for each in zip(*found, strict=True))
    return np.asarray(vectors[:, np.argsort(-np.abs(values))[:kept]])


def _printed_weights(own: _Party, rows: Array, receipt: Receipt) -> Array:
    """Algorithm 3: one Huber machine per class, each with the whole epsilon."""
    sums = (LinearObjective(own.loss, rows, signs) for signs in own.signs)
    return np.stack([own.machine.release(each, ledger=receipt) for each in sums])


def pairs_of(parties: Any) -> list[tuple[ArrayLike, ArrayLike]]:
    """Return rows and labels of each party."""
    try:
        found = [(X, y) for X, y in parties]
    except (TypeError, ValueError):  # not pairs, or nothing that has parts
        found = []
    if not found:
        raise InvalidInputError("Give rows and labels of each party: [(X, y), (X, y), ...].")
    return found


@dataclass(eq=False, repr=False)
class PrintedFedDPDR(PrintedDPML):
    """FedDPDR-DPML (Algorithm 1): average the parties' components, then their machines.

    Each party releases noisy components U_i (Algorithm 2, half of epsilon); the server sends
    ``U = (1/N) sum_i w_i U_i`` back, ``w_i = n_i / n``; each party fits its machines to its rows
    times U (Algorithm 3, the other half), and the server averages those. The line is ambiguous:
    weights that add up to 1 are divided by N once more, and the signs of eigenvectors are
    arbitrary, so that they cancel in a mean.

    Parameters
    ----------
    n_components : int, default=20
        Dimension k.
    aggregation : {"printed", "aligned"}, default="printed"
        The line as it stands, or ``sum_i w_i U_i`` with a sign fixed for each component (its
        largest entry is positive).
    pca_share : float, default=0.5
        Share of epsilon for the components.
    regularization : float or None, default=None
        The number of rows of a party times lambda; None: lambda 0.01.
    huber_width : float, default=0.5
        Half the width of the rounding of the hinge.
    $shared

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The public label set, sorted.
    weights_ : ndarray of shape (1 or n_classes, n_components)
        The averaged machines.
    projection_ : ndarray of shape (n_features, n_components)
        The averaged components.
    guarantee_ : Guarantee
        What really holds for a record of any party, next to the printed figure.

    See Also
    --------
    fit_federation : The mended system.
    """

    n_components: int | None = 20
    _: KW_ONLY
    aggregation: str = "printed"

    parameters: ClassVar[Form] = {
        **PrintedDPML.parameters,
        "n_components": whole(least=1),
        "aggregation": one_of("printed", "aligned"),
    }

    def fit(self, parties: Sequence[tuple[ArrayLike, ArrayLike]]) -> Self:  # type: ignore[override]
        """Run both phases.

        Parameters
        ----------
        parties : sequence of (X, y)
            Rows and labels of each party.

        Returns
        -------
        Self
            The fitted estimator.
        """
        planned = [self._plan(X, y) for X, y in pairs_of(parties)]
        if self._reader.labels == PUBLIC_LABELS:  # each party has its own
            raise InvalidInputError("The labels of a federation must be listed in its bounds.")
        widths = sorted({own.rows.shape[1] for own in planned})
        if len(widths) > 1:
            raise InvalidInputError(f"The parties have rows of different widths: {widths}.")
        receipt, kept = self._pay(*planned), self.n_components or 1
        sizes = np.array([len(own.rows) for own in planned], dtype=np.float64)
        shares = sizes / sizes.sum()
        bases = np.stack([_printed_basis(own, kept, receipt) for own in planned])
        if self.aggregation == "printed":
            shares /= len(planned)
        else:
            largest = np.abs(bases).argmax(axis=1)[:, None, :]
            bases = bases * np.sign(np.take_along_axis(bases, largest, axis=1))
        self.projection_ = np.tensordot(shares, bases, axes=1)
        learned = [_printed_weights(own, own.rows @ self.projection_, receipt) for own in planned]
        self.weights_ = np.tensordot(shares, np.stack(learned), axes=1)
        promised = parallel(*map(self._promised, planned), condition=ONE_PARTY_EACH)
        self.guarantee_ = replace(promised, claimed_epsilon=float(self.epsilon))
        return self
