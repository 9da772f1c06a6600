"""Estimators on rows that do not fit into memory: one pass per release.

Sums over records are exact, so that rows may be read while they are added, in whatever batches a
file gives them, and the model is the same to the bit as the one of `fit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.exceptions import InvalidInputError, MissingBoundsError, UnsupportedModeError
from sfumato.models.moments import PrivateGaussianClassifier, PrivateMoments, PrivatePCA
from sfumato.privacy.guarantee import Relation
from sfumato.sums import BatchRecords
from sfumato.sums.partitions import Partitions
from sfumato.sums.table_parts import LocalParts
from sfumato.tables.bounds import PUBLIC_LABELS, Bounds
from sfumato.tables.columns import arrow
from sfumato.tables.files import TableFile

Array = NDArray[np.float64]
Model = TypeVar("Model", PrivateGaussianClassifier, PrivateMoments, PrivatePCA)
Batches = Callable[[], Iterator[tuple[Any, ...]]]

Progress = Callable[[int], None]
LONG = 2**23  # cells of a table that is not read as a whole where a model can do without

# The estimators whose `fit` takes records that are not in memory.
READ_IN_BATCHES = (PrivateGaussianClassifier, PrivateMoments, PrivatePCA)


def fit_in_batches(model: Model, read: Batches, *, n_rows: int, n_features: int) -> Model:
    """Fit `model` on rows that are read in batches."""
    if not isinstance(model, READ_IN_BATCHES):
        names = ", ".join(kind.__name__ for kind in READ_IN_BATCHES)
        raise InvalidInputError(
            f"A {type(model).__name__} needs all rows at once; not so: {names}."
        )
    if model.bounds is not None and model.row_bounds.labels == PUBLIC_LABELS:
        raise MissingBoundsError(
            "Rows that are read in batches need their labels listed: Bounds(..., labels=[...])."
        )
    records = BatchRecords(
        lambda: _with_codes(read, model.row_bounds),
        width=n_features,
        relation=model.relation,
        n_rows=n_rows,
    )
    return model.fit(records)


def _with_codes(read: Batches, bounds: Bounds | None) -> Iterator[tuple[Any, ...]]:
    has_labels = bounds is not None and bounds.labels is not None
    for rows, labels, *ids in read():
        if bounds is not None and has_labels:
            yield (rows, bounds.clip_labels(labels)[0], *ids)
        else:
            yield (rows, np.zeros(len(rows), dtype=np.intp), *ids)


# Files and tables in parts --------------------------------------------------------------------


def fit_rows(model: Any, source: TableFile | Partitions, progress: Progress | None = None) -> Any:
    """Fit a model on a table in parts, or on a file: a long one is read in batches if it can."""
    if isinstance(source, Partitions):
        if progress is not None:
            report = progress
            source.progress = lambda *_: report(1)
        return model.fit(source)
    names = list(model.bounds.types())
    if source.count_rows() * len(names) > LONG:  # public, or without effect on what is released
        try:
            return model.fit(_in_batches(source, model, names, progress))
        except UnsupportedModeError:  # before any charge: it needs all rows at once
            pass
    return model.fit(whole_table(source, model, progress))


def _in_batches(
    source: TableFile, model: Any, names: list[str], progress: Progress | None
) -> Partitions:
    """Return a file as one part; a damaged one is found before the charge."""
    if model.relation == Relation.ADD_OR_REMOVE_ONE:  # else its rows are counted first
        for _ in source.batches(names):
            pass
    return LocalParts([lambda: _counted(source.batches(names), progress)], names)


def _counted(batches: Iterator[Any], progress: Progress | None) -> Iterator[Any]:
    for batch in batches:
        yield batch
        if progress is not None:
            progress(len(batch))


def whole_table(source: TableFile, model: Any, progress: Progress | None = None) -> Any:
    """Read the columns of a model; no rows at all are an error where their number is public."""
    names = list(model.bounds.types())
    parts = list(_counted(source.batches(names), progress))
    if parts:
        return arrow().concat_tables(parts)
    may_be_empty = model.relation == Relation.ADD_OR_REMOVE_ONE
    return source.read(names, may_be_empty=may_be_empty)
