"""How far one record can move the moments."""

from __future__ import annotations

import math

from sfumato.guarantee import Relation

__all__ = ["class_moments_sensitivity", "mean_sensitivity", "second_moment_sensitivity"]


def second_moment_sensitivity(relation: str | Relation) -> float:
    """Frobenius sensitivity of ``sum x xᵀ`` over rows of the unit ball.

    Adding a row moves the sum by ``||x xᵀ||_F = ||x||² <= 1``. Replacing one moves it by
    ``||x xᵀ - z zᵀ||_F = sqrt(|x|⁴ + |z|⁴ - 2 (x.z)²) <= √2``, attained by orthonormal x, z.
    """
    return math.sqrt(2) if Relation(relation) is Relation.REPLACE_ONE else 1.0


def class_moments_sensitivity(relation: str | Relation, *, constant: float = 1.0) -> float:
    """Joint Frobenius sensitivity of ``S_c = sum a aᵀ``, ``a = [x; w]``, over all classes.

    ``||a||² <= 1 + w²``, so a row is worth at most that in one class. Replacing it takes at most
    as much from one class and gives at most as much to another (√2 times that together; a new
    label is included), or changes one class by at most √2 times that.

    Parameters
    ----------
    relation : {"replace_one", "add_or_remove_one"}
    constant : float, default=1.0
        w, the weight of the constant.
    """
    return (1 + constant**2) * second_moment_sensitivity(relation)


def mean_sensitivity(relation: str | Relation) -> float:
    """L2 sensitivity of ``sum [z; |z|²; 1]`` over rows of the unit ball.

    Adding a row moves it by ``sqrt(|z|² + |z|⁴ + 1) <= √3``. Replacing z by v, with lengths a
    and b, moves it by at most ``sqrt((a + b)² (1 + (a - b)²)) <= 2``.
    """
    return 2.0 if Relation(relation) is Relation.REPLACE_ONE else math.sqrt(3)
