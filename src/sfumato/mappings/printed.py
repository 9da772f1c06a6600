"""Equations (79) and (84) to (87) of the paper, for mode "paper".

Equation (79) is an isometry of the target's leading principal components. The target's classifier
therefore runs in those coordinates, with the p of the source's space in its averages, and the
source's space is entered only where the source is asked.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sfumato.mappings.classifier import MembershipClassifier
from sfumato.mappings.mapping import MembershipMapping
from sfumato.moments.pca import top_eigenvectors

__all__ = ["all_errors", "fit_source_to_target", "source_to_target_errors", "target_subspace"]

Array = NDArray[np.float64]
MOST_POINTS = 1000


def target_subspace(rows: Array, n_kept: int) -> Array:
    """Leading eigenvectors of the target's covariance, as columns."""
    away = rows - rows.mean(axis=0)
    return top_eigenvectors(away.T @ away, n_kept)[1]


def all_errors(model: MembershipClassifier, rows: Array, n_classes: int) -> Array:
    """Errors under every class; infinite for one that has no rows left."""
    found = np.full((len(rows), n_classes), np.inf)
    found[:, model.classes_] = model.errors(rows)
    return found


def fit_source_to_target(
    source: MembershipClassifier,
    rows: Array,
    codes: NDArray[np.intp],
    generator: np.random.RandomState,
) -> MembershipMapping:
    """Learn to undo the source's filter of a row's own class (84) to (86)."""
    n_points = min(math.ceil(len(rows) / 2), MOST_POINTS)
    mapping = MembershipMapping(
        inducing_ratio=n_points / len(rows),
        center=False,
        random_state=int(generator.randint(2**31 - 1)),
    )
    return mapping.fit(_filtered(source, rows, codes), rows)


def source_to_target_errors(
    source: MembershipClassifier, mapping: MembershipMapping, rows: Array, n_classes: int
) -> Array:
    """Second term of equation (87)."""
    columns = []
    for code in range(n_classes):
        output = mapping.predict(_filtered(source, rows, np.full(len(rows), code)))
        columns.append(np.sum((rows - output) ** 2, axis=1))
    return np.column_stack(columns)


def _filtered(source: MembershipClassifier, rows: Array, codes: NDArray[np.intp]) -> Array:
    places = np.searchsorted(source.classes_, codes).clip(max=len(source.classes_) - 1)
    return np.asarray(source.filtered(rows, places))
