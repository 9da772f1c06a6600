"""How far one record can move the moments."""

from __future__ import annotations

import math

from sfumato.guarantee import Relation

__all__ = ["class_moments_sensitivity", "second_moment_sensitivity"]


def second_moment_sensitivity(relation: str | Relation) -> float:
    """Frobenius sensitivity of ``sum x xᵀ`` over rows of the unit ball.

    Adding a row moves the sum by ``||x xᵀ||_F = ||x||² <= 1``. Replacing one moves it by
    ``||x xᵀ - z zᵀ||_F = sqrt(|x|⁴ + |z|⁴ - 2 (x.z)²) <= √2``, attained by orthonormal x, z.
    """
    return math.sqrt(2) if Relation(relation) is Relation.REPLACE_ONE else 1.0


def class_moments_sensitivity(relation: str | Relation) -> float:
    """Joint Frobenius sensitivity of ``S_c = sum a aᵀ``, ``a = [x; 1]``, over all classes.

    ``||a||² <= 2``, so a row is worth at most 2 in one class. Replacing it takes at most 2 from
    one class and gives at most 2 to another (``2√2`` together; a new label is included), or
    changes one class by at most ``sqrt(2) * 2``.
    """
    return 2 * second_moment_sensitivity(relation)
