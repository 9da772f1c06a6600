"""Estimators on rows that do not fit into memory: one pass per release.

Sums over records are exact, so that rows may be read while they are added, in whatever batches a
file gives them, and the model is the same to the bit as the one of `fit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.bounds import PUBLIC_LABELS, Bounds
from sfumato.exceptions import InvalidInputError, MissingBoundsError
from sfumato.moments import PrivateGaussianClassifier, PrivateMoments, PrivatePCA
from sfumato.sums import BatchRecords
from sfumato.sums.maps import Encoded

__all__ = ["READ_IN_BATCHES", "fit_in_batches"]

Array = NDArray[np.float64]
Model = TypeVar("Model", PrivateGaussianClassifier, PrivateMoments, PrivatePCA)
Batches = Callable[[], Iterator[tuple[Any, ...]]]

# The estimators whose `fit` takes records that are not in memory.
READ_IN_BATCHES = (PrivateGaussianClassifier, PrivateMoments, PrivatePCA)


def fit_in_batches(model: Model, read: Batches, *, n_rows: int, n_features: int) -> Model:
    """Fit `model` on rows that are read in batches.

    Parameters
    ----------
    model : PrivateGaussianClassifier, PrivateMoments or PrivatePCA
        With bounds; it is fitted in place. Moments are those of the classes if the bounds list
        labels, of all rows else.
    read : callable
        Starts a pass over the same rows and gives batches of rows and labels (which are not looked
        at where the model needs none), and of IDs where the unit is a person. It is called once
        for each release of the model (one to four).
    n_rows, n_features : int
        Shape of all rows together.

    Returns
    -------
    estimator
        The model.
    """
    if not isinstance(model, READ_IN_BATCHES):
        names = ", ".join(kind.__name__ for kind in READ_IN_BATCHES)
        raise InvalidInputError(
            f"A {type(model).__name__} needs all rows at once; not so: {names}."
        )
    if model.bounds is not None and model.row_bounds.labels == PUBLIC_LABELS:
        raise MissingBoundsError(
            "Rows that are read in batches need their labels listed: Bounds(..., labels=[...])."
        )
    is_plain = isinstance(model.bounds, Bounds)
    records = BatchRecords(
        lambda: _with_codes(read, model.row_bounds),
        width=n_features,
        relation=model.relation,
        n_rows=n_rows,
        person=model.person_unit,
        content=Encoded(model._encoder, n_features) if is_plain else None,
    )
    return model.fit(records)


def _with_codes(read: Batches, bounds: Bounds | None) -> Iterator[tuple[Any, ...]]:
    has_labels = bounds is not None and bounds.labels is not None
    for rows, labels, *ids in read():
        if bounds is not None and has_labels:
            yield (rows, bounds.clip_labels(labels)[0], *ids)
        else:
            yield (rows, np.zeros(len(rows), dtype=np.intp), *ids)
