"""Objective (8) as printed, one noise matrix for all classes: for study, it keeps no promise."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting.receipt import prepay
from sfumato.events import NonPrivateEvent
from sfumato.exceptions import InvalidInputError, RefutedGuaranteeWarning
from sfumato.guarantee import Guarantee, Relation, Status
from sfumato.margins.large_margin_losses import MarginLoss
from sfumato.margins.large_margin_objective import LargeMarginObjective, to_matrices, to_vectors
from sfumato.margins.large_margin_solvers import Smooth, minimise_in_cone, penalised
from sfumato.mechanisms.gamma import GammaMechanism

__all__ = ["PrintedObjective"]

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

    Parameters
    ----------
    regularization : float
        λ.
    huber_width : float
        h.
    epsilon : float
        The printed parameter of the noise.
    """

    regularization: float
    huber_width: float
    epsilon: float

    def guarantee(self, public: tuple[str, ...]) -> Guarantee:
        """State that nothing is promised; the figure of Theorem 1 has a constant never given."""
        return Guarantee(
            epsilon=None,
            relation=Relation.REPLACE_ONE,
            status=Status.REFUTED,
            claimed_epsilon=self.epsilon,
            public=public,
            events=(NonPrivateEvent(),),
        )

    def noise(self, order: int) -> Array:
        """Draw the symmetric part of b; its other part acts on nothing."""
        mechanism = GammaMechanism.calibrate(
            sensitivity=PRINTED_SENSITIVITY, epsilon=self.epsilon, size=order**2
        )
        b = mechanism.release(np.zeros((order, order)), ledger=None)
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

    def smooth(self, rows: Array, codes: NDArray[np.intp], n_classes: int, noise: Array) -> Smooth:
        """Give the objective and its gradient, for extended rows."""
        loss = MarginLoss(self.huber_width, PRINTED_MARGIN)
        objective = LargeMarginObjective(rows, codes, n_classes, loss)
        return penalised(objective, linear=to_vectors(self.weight(noise)))

    def minimise(
        self, rows: Array, codes: NDArray[np.intp], n_classes: int, *, ledger: Any, unit: str
    ) -> Array:
        """Draw b and minimise; raise where there is no minimiser."""
        warnings.warn(
            f"mode='paper' keeps no promise, whatever epsilon is: {WHY}. Use mode='strict'.",
            RefutedGuaranteeWarning,
            stacklevel=4,
        )
        # An event without a finite epsilon, so that no budget pays for this.
        prepay(ledger, NonPrivateEvent(), unit=unit, relation=Relation.REPLACE_ONE)
        order = rows.shape[1]
        noise = self.noise(order)
        if not self.is_bounded(noise):
            raise InvalidInputError(
                "The printed objective has no minimiser for the noise just drawn: it falls without "
                "bound along a common shift of all matrices. Mode 'paper' has this with "
                "probability 1/2 at least; mode 'strict' never."
            )
        start = np.tile(to_vectors(np.eye(order)), (n_classes, 1))
        smooth = self.smooth(rows, codes, n_classes, noise)
        found, _ = minimise_in_cone(smooth, start, tolerance=1e-6, max_iter=2000)
        return to_matrices(found)
