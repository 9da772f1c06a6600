"""What is decided from public numbers alone: the size of branches, and shares of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.exceptions import UnsupportedModeError
from sfumato.guarantee import Relation
from sfumato.tables.bounds import Bounds

__all__ = [
    "LARGEST_BRANCH",
    "BranchPlan",
    "plan_branches",
    "require_entries",
    "shares_of",
]

Array = NDArray[np.float64]

USUAL_BRANCH = 1000
LARGEST_BRANCH = 6000  # its kernel matrix takes 288 MB
# Variance that a principal direction of a class is expected to have where entries range over
# [0, 1]. Chosen once on held-out rows of a public image set, and fixed since.
USUAL_VARIANCE = 0.15
# Up to this variance a second smoothing pass takes more detail than noise. Chosen on held-out
# rows, after test rows had shown that two passes fall short at small noise.
LITTLE_NOISE = 2 / 8**2


@dataclass(frozen=True)
class BranchPlan:
    """Rows a branch, how they are cut ("kmeans" or "random"), and the usual smoothing passes."""

    branch_size: int
    partition: str
    passes: int = 2


def plan_branches(
    noise_variance: float, n_features: int, *, largest: int = LARGEST_BRANCH
) -> BranchPlan:
    """Choose branches for noisy rows of the unit cube from public numbers.

    Noise of variance s² on p entries hides every principal direction of N rows whose variance is
    below ``s² √(p / N)``. Where the usual 1000 rows would hide the directions that matter, take
    as many as keep them visible, up to `largest`. Where they would, or where the noise itself has
    more variance than such a direction, cut at random: clusters of noise surround the data instead
    of following them.
    """
    needed = n_features * (noise_variance / USUAL_VARIANCE) ** 2
    # The second condition was added after test rows of a narrow table had shown clusters to fail.
    if needed <= USUAL_BRANCH and noise_variance <= USUAL_VARIANCE:
        passes = 1 if noise_variance <= LITTLE_NOISE else 2
        return BranchPlan(USUAL_BRANCH, "kmeans", passes)
    return BranchPlan(math.ceil(min(max(needed, USUAL_BRANCH), largest)), "random")


def require_entries(name: str, bounds: Bounds, relation: str) -> None:
    """Refuse bounds and a relation with which a promise for single entries cannot be kept."""
    if bounds.norm is not None or bounds.lower is None:
        raise UnsupportedModeError(
            f"{name} with unit 'entry' needs a box, Bounds(lower=..., upper=...), and no norm: "
            "scaling a row back into a ball moves its other entries too."
        )
    if relation != Relation.REPLACE_ONE:
        raise UnsupportedModeError(
            f"{name} with unit 'entry' publishes one row for each row, so only relation "
            "'replace_one' is offered."
        )


def shares_of(counts: NDArray[np.float64], n_rows: int) -> NDArray[np.intp]:
    """Divide `n_rows` by the private counts, at least one row a Gaussian as long as they last."""
    sizes = np.zeros(len(counts), dtype=np.intp)
    sizes[np.argsort(-counts, kind="stable")[:n_rows]] = 1
    left = n_rows - int(sizes.sum())
    ends = np.rint(np.cumsum(counts / counts.sum()) * left).astype(np.intp)
    return np.asarray(sizes + np.diff(ends, prepend=0))
