"""What is decided from public numbers alone: the scale of the rows and the size of branches."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.exceptions import InvalidInputError, UnsupportedModeError
from sfumato.guarantee import Relation
from sfumato.tables.bounds import Bounds

__all__ = [
    "LARGEST_BRANCH",
    "BranchPlan",
    "PublicScale",
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
# Scaling an entry rounds it four times, by 2**-53 of the column's width each; this covers two.
ENTRY_ROUNDING = 2.0**-49


@dataclass(frozen=True)
class PublicScale:
    """Rows in a box are seen in the unit cube, ``(x - lower) / width``; others as they are.

    bounds: Public bounds of the rows.
    n_features: Numbers of a row.
    """

    bounds: Bounds
    n_features: int

    @property
    def inner_bounds(self) -> Bounds:
        """The bounds of scaled rows."""
        return Bounds(lower=0.0, upper=1.0) if self._is_box else Bounds(norm=self.bounds.norm)

    @property
    def width(self) -> int:
        """Numbers of a row: a scale is a map of blocks of rows."""
        return self.n_features

    def __call__(self, rows: Array) -> Array:
        """Clip and scale a block of rows."""
        return self.scaled(rows)

    def scaled(self, X: Array) -> Array:
        """Clip rows and scale them, each by itself."""
        if not self._is_box:
            return self.bounds.clip(X)
        lower, width = self._corner_and_width()
        return np.asarray((self.bounds.clip(X) - lower) / width)

    def scaled_entries(self, X: Array) -> Array:
        """Clip and scale entries, each by itself; a missing one goes to the middle of its range.

        No other entry of the row feels it, which a promise for single entries needs.
        """
        lower, width = self._corner_and_width()
        entries = np.clip(X, lower, lower + width)  # first: a huge entry must not overflow
        entries -= lower
        entries /= width
        np.copyto(entries, 0.5, where=np.isnan(entries))
        return np.asarray(np.clip(entries, 0.0, 1.0, out=entries))

    def to_rows(self, scaled: Array) -> Array:
        """Undo the scaling and clip to the bounds."""
        if not self._is_box:
            return self.bounds.clip(scaled)
        lower, width = self._corner_and_width()
        rows = scaled * width
        rows += lower
        return self.bounds.clip(rows)

    def entry_bound(self, asked: float | None) -> float:
        """The largest change of one entry, in units of the data."""
        if asked is None:
            return self.bounds.entry_diameter(n_features=self.n_features)
        if not 0 < asked < math.inf:
            raise InvalidInputError(
                f"'entry_bound' must be finite and positive, or None. Got {asked} instead."
            )
        return float(asked)

    def entry_units(self, asked: float | None) -> Array:
        """What a scaled entry of each column is multiplied by before it gets its noise.

        A column at least as wide as the change that is protected is seen in units of the data, so
        that one entry moves by at most that change; a narrower one is stretched to that width.
        """
        return np.maximum(self._corner_and_width()[1], self.entry_bound(asked))

    def entry_rounding(self, asked: float | None) -> float:
        """How much more two entries may differ after scaling, by rounding."""
        return ENTRY_ROUNDING * float(self.entry_units(asked).max())

    @property
    def _is_box(self) -> bool:
        return self.bounds.lower is not None and self.bounds.norm is None

    def _corner_and_width(self) -> tuple[Array, Array]:
        box = self.bounds.box(self.n_features)
        assert box is not None  # noqa: S101 - callers ask for a box first
        return box[0], box[1] - box[0]


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
