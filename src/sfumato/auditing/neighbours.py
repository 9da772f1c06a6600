"""Pairs of neighbouring data sets for an audit, made from public bounds alone.

The rows around the changed one are a fixed pattern inside the bounds; the changed row stands on the
edge of the bounds, on one side or on the other, in the middle, or (as the relation says) is absent.
No row of a user is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier, is_regressor
from sklearn.utils import check_random_state, get_tags

from sfumato.bounds import PUBLIC_LABELS, Bounds
from sfumato.guarantee import Relation, Unit

__all__ = ["Data", "Neighbourhood", "pattern"]

Data = tuple[NDArray[Any], NDArray[Any] | None]
N_ROWS = 24


@dataclass(frozen=True)
class Neighbourhood:
    """Data sets that differ in their last row only, by the relation and unit of an estimator.

    Parameters
    ----------
    estimator : PrivateEstimator
        Its bounds, unit, relation and entry bound say what a neighbour is.
    X : ndarray
        Rows around the changed one; the last is replaced.
    y : ndarray, optional
        Labels or targets.
    edge : ndarray, optional
        Rows to put in the last place; by default rows on the edge of the bounds.
    """

    estimator: Any
    X: NDArray[Any]
    y: NDArray[Any] | None = None
    edge: NDArray[Any] | None = None

    def members(self) -> list[Data]:
        """Give the data sets; which of them are neighbours, `pairs` says."""
        if Unit(self.estimator.unit) is Unit.ENTRY:
            return [self._with(row, None) for row in self._one_entry_moved()]
        rows = self._edge_rows() if self.edge is None else self.edge
        labels = [None] if self.y is None else list(np.unique(self.y)[[0, -1]])
        changed = [self._with(row, label) for row in rows for label in dict.fromkeys(labels)]
        if Relation(self.estimator.relation) is Relation.REPLACE_ONE:
            return changed
        return [(self.X[:-1], None if self.y is None else self.y[:-1]), *changed]

    def pairs(self, n_members: int) -> Iterator[tuple[int, int]]:
        """Give the numbers of neighbours among `members`."""
        replaced = Relation(self.estimator.relation) is Relation.REPLACE_ONE
        if replaced or Unit(self.estimator.unit) is Unit.ENTRY:
            return combinations(range(n_members), 2)
        return ((i, 0) for i in range(1, n_members))

    def _edge_rows(self) -> NDArray[np.float64]:
        bounds: Bounds = self.estimator.bounds
        centre, radius = bounds.ball(self.X.shape[1])
        axes = np.eye(self.X.shape[1])[:2]
        far = np.vstack([axes, -axes, axes.sum(axis=0), -axes.sum(axis=0)]) * 2 * radius
        every = np.full((2, len(centre)), [[2 * radius], [-2 * radius]])
        return np.vstack([bounds.clip(centre + np.vstack([far, every])), centre])

    def _one_entry_moved(self) -> NDArray[np.float64]:
        bounds: Bounds = self.estimator.bounds
        n_features = self.X.shape[1]
        box = bounds.box(n_features)
        low = self.X[-1] if box is None else np.append(box[0][:1], self.X[-1][1:])
        moved = low.copy()
        moved[0] += self.estimator.entry_bound or bounds.entry_diameter(n_features=n_features)
        return np.vstack([low, moved])

    def _with(self, row: NDArray[Any], label: Any) -> Data:
        X = np.vstack([self.X[:-1], row])
        if self.y is None:
            return X, None
        y = self.y.copy()
        if label is not None:
            y[-1] = label
        return X, y


def pattern(estimator: Any, n_features: int, n_rows: int = N_ROWS) -> Data:
    """Give rows inside the bounds and, where the estimator asks for them, labels or targets."""
    bounds: Bounds = estimator.bounds
    centre, radius = bounds.ball(n_features)
    spread = check_random_state(0).standard_normal((n_rows, n_features))
    rows = bounds.clip(centre + 0.5 * radius * spread / np.sqrt(n_features))
    if is_regressor(estimator):
        low, high = getattr(estimator, "target_bounds", None) or (0.0, 1.0)
        return rows, np.linspace(low, high, n_rows)
    with_labels = is_classifier(estimator) or get_tags(estimator).target_tags.required
    if not with_labels and bounds.labels is None:
        return rows, None
    labels = [0, 1] if bounds.labels in (None, PUBLIC_LABELS) else sorted(bounds.labels)
    return rows, np.resize(np.asarray(labels), n_rows)
