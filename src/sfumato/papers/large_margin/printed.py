"""Objective (8) as printed, one noise matrix for all classes: for study, it keeps no promise."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin

from sfumato.core.constraints import Form, real
from sfumato.exceptions import InvalidInputError, RefutedGuaranteeWarning
from sfumato.ledger.receipt import prepay
from sfumato.mechanisms.objective import gamma_linear_term
from sfumato.models.base import PrivateEstimator
from sfumato.papers.large_margin.ellipsoids import (
    EllipsoidAnswers,
    LargeMarginObjective,
    MarginLoss,
    extended,
    minimise_in_cone,
    penalised,
    to_matrices,
    to_vectors,
)
from sfumato.privacy.events import NonPrivateEvent
from sfumato.privacy.guarantee import Guarantee, Relation, Status, Unit
from sfumato.sums.maps import IntoUnitBall
from sfumato.tables.bounds import Bounds

Array = NDArray[np.float64]

PRINTED_MARGIN = 0.0  # loss (6) has lost the margin 1 of (4)
PRINTED_SENSITIVITY = 2.0  # Lemma 1; √2 C (1 + |x|²) is true
WHY = (
    "one noise matrix is shared by all classes, adds the same to the gradient of each, and so "
    "never enters what decides between them"
)


@dataclass(frozen=True)
class PrintedObjective:
    """``sum Huber + λ sum_c tr(I' Φ_c I') + sum_c <b, Φ_c>`` over positive semidefinite Φ_c.

    I' is the identity without its last entry, and ``||b||`` is Gamma((d+1)², 2/epsilon).
    """

    regularization: float
    huber_width: float
    epsilon: float

    def noise(self, order: int) -> Array:
        """Draw the symmetric part of b; its other part acts on nothing."""
        b = gamma_linear_term(PRINTED_SENSITIVITY / self.epsilon, order**2).reshape(order, order)
        return np.asarray((b + b.T) / 2)

    def weight(self, noise: Array) -> Array:
        """``W = λ I' + sym(b)``: the objective without its loss is ``sum_c <W, Φ_c>``."""
        identity = np.eye(len(noise))
        identity[-1, -1] = 0.0
        return np.asarray(self.regularization * identity + noise)

    def is_bounded(self, noise: Array) -> bool:
        """Whether W is positive definite.

        If ``<W, S> < 0`` for some positive semidefinite S, adding t S to every Φ_c changes no loss
        and takes the objective to minus infinity. The last diagonal entry of W is one of b alone:
        negative every other time.
        """
        return bool(np.linalg.eigvalsh(self.weight(noise))[0] > 0)

    def minimise(self, rows: Array, codes: NDArray[np.intp], n_classes: int) -> Array:
        """Draw b and minimise over extended rows; raise where there is no minimiser."""
        order = rows.shape[1]
        noise = self.noise(order)
        if not self.is_bounded(noise):
            raise InvalidInputError(
                "The printed objective has no minimiser for the noise just drawn: it falls "
                "without bound along a common shift of all matrices. At least every other draw "
                "does so, nearly all where 'regularization' is small: raise it, and fit again."
            )
        loss = MarginLoss(self.huber_width, PRINTED_MARGIN)
        objective = LargeMarginObjective(rows, codes, n_classes, loss)
        smooth = penalised(objective, linear=to_vectors(self.weight(noise)))
        start = np.tile(to_vectors(np.eye(order)), (n_classes, 1))
        return to_matrices(minimise_in_cone(smooth, start, tolerance=1e-6, max_iter=2000)[0])


@dataclass(eq=False, repr=False)
class PrintedLargeMarginClassifier(EllipsoidAnswers, ClassifierMixin, PrivateEstimator):
    """Ellipsoids from objective (8) of Pathak and Raj as printed: refuted, for study.

    Parameters
    ----------
    regularization : float, default=1.0
        Weight λ of the trace.
    huber_width : float, default=1.0
        Half-width h of the rounding.
    $shared

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The public label set, sorted.
    matrices_ : ndarray of shape (n_classes, n_features + 1, n_features + 1)
        The Φ_c for ``[x; 1]``, rows scaled into the unit ball.
    guarantee_ : Guarantee
        That nothing is promised.

    Privacy
    -------
    None: the printed noise cancels between classes. Proof: docs/guarantees/large-margin.md.

    See Also
    --------
    sfumato.PrivateLargeMarginGaussianClassifier : The mended objective, proved.
    """

    _: KW_ONLY
    regularization: float = 1.0
    huber_width: float = 1.0

    has_labels: ClassVar[bool | None] = True
    offered_units: ClassVar[tuple[Unit, ...]] = (Unit.RECORD,)
    offered_relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE_ONE,)
    scales_columns: ClassVar[bool] = False  # as printed
    in_unit_ball: ClassVar[bool] = False
    needs_memory: ClassVar[bool] = True
    parameters: ClassVar[Form] = {
        "regularization": real(above=0.0),
        "huber_width": real(above=0.0),
    }

    def __repr__(self, **options: Any) -> str:
        shown: str = super().__repr__(**options)
        return f"{shown}  # NO PRIVACY: as printed"

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Minimise the printed objective, or raise where it has no minimiser.

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
        printed = PrintedObjective(
            regularization=float(self.regularization),
            huber_width=float(self.huber_width),
            epsilon=float(self.epsilon),
        )
        warnings.warn(
            f"The printed objective protects nobody, whatever epsilon is: {WHY}.",
            RefutedGuaranteeWarning,
            stacklevel=3,
        )
        # An event without a finite epsilon, so that no budget pays for this.
        prepay(
            self.ledger, NonPrivateEvent(), unit=self.protected_unit, relation=Relation.REPLACE_ONE
        )
        # Nothing is promised; the figure of Theorem 1 has a constant that is never given.
        self.guarantee_ = Guarantee(
            epsilon=None,
            relation=Relation.REPLACE_ONE,
            status=Status.REFUTED,
            claimed_epsilon=printed.epsilon,
            public=budget.facts,
            events=(NonPrivateEvent(),),
        )
        self.matrices_ = printed.minimise(extended(self._in_ball(rows)), codes, len(self.classes_))
        return self

    def _scaled_rows(self, X: ArrayLike) -> Array:
        return self._in_ball(self._rows(X))

    def _in_ball(self, rows: Array) -> Array:
        return Bounds(norm=1.0).clip(IntoUnitBall(self.row_bounds, rows.shape[1])(rows))
