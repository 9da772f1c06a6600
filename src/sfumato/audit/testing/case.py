"""What a contract is tried on: an estimator, data, and neighbours of the data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from sfumato.privacy.guarantee import Relation, Unit
from sfumato.tables.bounds import Bounds

Oracle = Callable[[Any, np.ndarray, np.ndarray | None], None]
Data = tuple[np.ndarray, np.ndarray | None]


@dataclass(frozen=True)
class PrivateCase:
    """An unfitted private estimator and data to try it on.

    Parameters
    ----------
    estimator : estimator
        Unfitted, with bounds and a finite epsilon.
    X : ndarray of shape (n_rows, n_features)
        Rows inside the bounds, a few hundred.
    y : ndarray, optional
        Labels or targets.
    oracle : callable, optional
        ``oracle(fitted, X, y)`` asserts that the estimator fitted with infinite epsilon equals
        its non-private counterpart.
    rows_at_bound : ndarray, optional
        Rows that attain the sensitivity; by default rows on the edge of the bounds along the
        principal directions of X.
    """

    estimator: Any
    X: np.ndarray
    y: np.ndarray | None = None
    oracle: Oracle | None = None
    rows_at_bound: np.ndarray | None = None

    def fitted(self, **params: Any) -> Any:
        """Return a fitted clone with some parameters changed.

        Parameters
        ----------
        **params : object
            Parameters that are changed.

        Returns
        -------
        object
            The fitted clone.
        """
        return fit(clone(self.estimator).set_params(**params), self.X, self.y)


def fit(model: Any, X: Any, y: Any) -> Any:
    """Fit with labels where there are any, and with IDs where persons are the unit.

    Each `rows_of_a_person` rows from the first on belong to one person.
    """
    if model.unit == Unit.PERSON:
        return model.fit(X, y, groups=np.arange(len(X)) // rows_of_a_person(model))
    return model.fit(X) if y is None else model.fit(X, y)


def rows_of_a_person(model: Any) -> int:
    """Rows that neighbours differ in: the most of a person, or one."""
    return int(model.bounds.person_rows) if model.unit == Unit.PERSON else 1


def neighbours(case: PrivateCase) -> Iterator[tuple[Data, Data]]:
    """Yield neighbours under the estimator's relation: a last row, or person, replaced or removed.

    The rows lie on the edge of the bounds, far outside them, inside, and are not finite; each
    comes with two labels. With unit "entry" one number of the last row is moved instead, by the
    `entry_bound` or through the whole box; its label stays, for labels are public there.
    """
    if case.estimator.unit == Unit.ENTRY:
        yield from _entry_neighbours(case)
        return
    edge = _edge_rows(case) if case.rows_at_bound is None else case.rows_at_bound
    odd = np.vstack([10 * edge[:2], np.full_like(edge[:1], np.nan), case.X[:1]])
    labels = [None] if case.y is None else list(np.unique(case.y)[:2])
    variants = [(row, label) for row in np.vstack([edge, odd]) for label in labels]
    if Relation(case.estimator.relation) is Relation.ADD_OR_REMOVE_ONE:
        last = slice(-rows_of_a_person(case.estimator))
        without = case.X[last], None if case.y is None else case.y[last]
        yield from ((_with_last(case, *variant), without) for variant in variants)
        return
    for i, first in enumerate(variants):
        for second in variants[i + 1 :]:
            yield _with_last(case, *first), _with_last(case, *second)


def _entry_neighbours(case: PrivateCase) -> Iterator[tuple[Data, Data]]:
    box = case.estimator.array_bounds.box(case.X.shape[1])
    label = None if case.y is None else case.y[-1]
    widths = box[1] - box[0]
    for column in {int(np.argmin(widths)), int(np.argmax(widths)), 0}:
        low, high = box[0][column], box[1][column]
        asked = case.estimator.entry_bound
        moves = [(low, high), (low - 9, high + 9), (np.nan, high), (np.inf, low)]
        if asked is not None:
            starts = (low, high - asked, low - asked / 2, low - 9, case.X[-1, column])
            moves = [(start, start + asked) for start in starts]
        for move in moves:
            first, second = (np.array(case.X[-1]) for _ in move)
            first[column], second[column] = move
            yield _with_last(case, first, label), _with_last(case, second, label)


def _edge_rows(case: PrivateCase) -> np.ndarray:
    bounds: Bounds = case.estimator.array_bounds
    centre, radius = bounds.ball(case.X.shape[1])
    axes = np.linalg.svd(case.X - centre, full_matrices=False)[2][:2]
    far = centre + radius * np.vstack([axes, -axes[:1], axes.sum(axis=0) / np.sqrt(2)])
    return np.vstack([bounds.clip(far), centre, *_corners(bounds, case.X.shape[1])])


def _corners(bounds: Bounds, n_features: int) -> list[np.ndarray]:
    """Opposite corners of a box with a range per feature, and one that is nearly orthogonal."""
    box = bounds.box(n_features) if bounds.has_ranges else None
    if box is None:
        return []
    odd = np.arange(n_features) % 2 == 1
    return [*box, np.where(odd, *box)]


def _with_last(case: PrivateCase, row: np.ndarray, label: Any) -> Data:
    k = rows_of_a_person(case.estimator)
    X = np.vstack([case.X[:-k], *[row] * k])
    if case.y is None:
        return X, None
    y = case.y.copy()
    y[-k:] = label
    return X, y
