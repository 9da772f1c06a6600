"""Private moments from rows that do not fit into memory: one pass a release.

The `fit` of the estimators named here touches rows only in ascending blocks, to add them up, and
the sums are exact. So rows may be read while they are added, in whatever batches a file gives them,
and the model is the same to the bit as the one of `fit`. Nothing of the algorithm stands here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.bounds import PUBLIC_LABELS, Bounds
from sfumato.exceptions import InvalidInputError
from sfumato.moments import PrivateGaussianClassifier, PrivateMoments, PrivatePCA

__all__ = ["READ_IN_ORDER", "fit_in_batches"]

Array = NDArray[np.float64]
Model = TypeVar("Model", PrivateGaussianClassifier, PrivateMoments, PrivatePCA)
Batches = Callable[[], Iterator[tuple[Array, NDArray[Any]]]]


# The estimators whose `fit` reads rows in ascending slices only.
READ_IN_ORDER = (PrivateGaussianClassifier, PrivateMoments, PrivatePCA)


def fit_in_batches(model: Model, read: Batches, *, n_rows: int, n_features: int) -> Model:
    """Fit `model` on rows that are read in order.

    Parameters
    ----------
    model : PrivateGaussianClassifier, PrivateMoments or PrivatePCA
        With bounds; it is fitted in place. Moments are those of the classes if the bounds name
        labels, of all rows else.
    read : callable
        Starts a pass over the same rows and gives batches of rows and labels (which are not looked
        at where the model needs none). It is called once for each release of the model (one to
        four); once more, before, where the set of labels was declared public.
    n_rows, n_features : int
        Shape of all rows together.

    Returns
    -------
    estimator
        The model.
    """
    if not isinstance(model, READ_IN_ORDER):
        names = ", ".join(kind.__name__ for kind in READ_IN_ORDER)
        raise InvalidInputError(
            f"A {type(model).__name__} needs all rows at once; not so: {names}."
        )
    if not n_rows:
        raise InvalidInputError("There are no rows to learn from.")
    rows: Any = _RowsInOrder(read, (n_rows, n_features))
    reader = _READERS[type(model)](**model.get_params(deep=False))
    has_labels = model.bounds is not None and model.bounds.labels is not None
    reader.fit(rows, rows if has_labels else None)
    model.__dict__.update(vars(reader))
    return model


class _RowsInOrder:
    """Rows on disk, as far as exact sums need them: a shape, and ascending slices."""

    def __init__(self, read: Batches, shape: tuple[int, int]) -> None:
        self.read = read
        self.shape = shape
        self.codes = np.empty(0, dtype=np.intp)
        self.bounds: Bounds | None = None  # of the labels, where they are used

    def __len__(self) -> int:
        return self.shape[0]

    def label_set(self) -> list[Any]:
        """Collect the labels in a pass of their own; a missing number is none."""
        found = {label for _, y in self.read() for label in np.unique(y).tolist()}
        return sorted(label for label in found if label == label)  # NaN does not

    def use_labels(self, bounds: Bounds) -> None:
        self.bounds = bounds

    def __getitem__(self, part: slice) -> Array:
        if part.start == 0:
            self._batches = self.read()
            self._rows, self._labels = next(self._batches, self._nothing())
        wanted = part.stop - part.start
        while len(self._rows) < wanted:
            self._read_on()
        rows, self._rows = self._rows[:wanted], self._rows[wanted:]
        labels, self._labels = self._labels[:wanted], self._labels[wanted:]
        if self.bounds is not None:
            self.codes = self.bounds.clip_labels(labels)[0]
        return rows

    def _read_on(self) -> None:
        rows, labels = next(self._batches, self._nothing())
        if not len(rows):
            raise InvalidInputError("The table became shorter while it was read.")
        self._rows = np.concatenate([self._rows, rows])
        self._labels = np.concatenate([self._labels, labels])

    def _nothing(self) -> tuple[Array, NDArray[Any]]:
        return np.empty((0, self.shape[1])), np.empty(0)


class _CodesInOrder:
    """Label codes of the slice of rows that was read last."""

    def __init__(self, rows: _RowsInOrder) -> None:
        self.rows = rows

    def __getitem__(self, part: slice) -> NDArray[np.intp]:
        return self.rows.codes


class _InOrder:
    """A `fit` whose rows and labels come from `_RowsInOrder` and were checked there."""

    n_features_in_: int

    def _check_rows(self, X: Any, *, reset: bool = True) -> Any:  # noqa: ARG002 - the base's
        self.n_features_in_ = X.shape[1]
        return X

    def _check_labels(self, X: Any, y: Any, bounds: Bounds) -> Any:  # noqa: ARG002 - the base's
        if bounds.labels == PUBLIC_LABELS:
            bounds = replace(bounds, labels=tuple(X.label_set()))
        X.use_labels(bounds)
        return _CodesInOrder(X), bounds.label_set(np.asarray(bounds.labels))


_READERS: dict[type, Any] = {
    kind: type(f"{kind.__name__}InOrder", (_InOrder, kind), {}) for kind in READ_IN_ORDER
}
