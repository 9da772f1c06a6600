"""How far one record can move the gradient and the curvature of the large-margin objective.

A record contributes ``v ⊗ A`` to the gradient: ``A = a aᵀ`` with ``||A||_F = ||a||² <= 1``, and one
slope a class in v. Slopes sum to zero, since a loss depends on differences of scores only.
"""

from __future__ import annotations

import math

from sfumato.guarantee import Relation
from sfumato.margins.large_margin_losses import MarginLoss

__all__ = ["curvature_bound", "gradient_directions", "gradient_sensitivity"]


def gradient_sensitivity(n_classes: int, relation: str | Relation) -> float:
    """Largest change of the joint gradient over all classes, C of them.

    The own class has the slope ``sum g_c``, the others ``-g_c``, ``0 <= g_c <= 1``. A
    record is worth ``√(C(C-1))`` at most; replacing it moves the gradient by ``√2 C`` at most,
    attained by the same row with another label where all slopes are 1.
    """
    if Relation(relation) is Relation.REPLACE_ONE:
        return math.sqrt(2) * n_classes
    return math.sqrt(n_classes * (n_classes - 1))


def gradient_directions(n_classes: int, relation: str | Relation) -> int:
    """Dimension of a space that holds the change: ``C - 1`` for each record that changes."""
    records = 2 if Relation(relation) is Relation.REPLACE_ONE else 1
    return records * (n_classes - 1)


def curvature_bound(loss: MarginLoss, n_classes: int, strong_convexity: float) -> float:
    """Largest ``log det(I + Hess l / Λ)`` of one record, whose Hessian is ``H ⊗ vec(A) vec(A)ᵀ``.

    H is at most w times the Laplacian of a star of C classes, w the largest curvature:
    eigenvalues ``w C``, ``w`` (C - 2 times) and 0.
    """
    share = loss.largest_curvature / strong_convexity
    return math.log1p(n_classes * share) + (n_classes - 2) * math.log1p(share)
