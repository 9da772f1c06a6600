"""The door of the hull estimators: check rows, labels and parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from sfumato.core.arrays import Array, clip_to_finite, is_foreign_array, namespace_of, to_numpy
from sfumato.exceptions import InvalidInputError
from sfumato.tables.cells import checked_tensor

FLOATS = (np.float64, np.float32)
PRECISIONS = ("float64", "float32")


def check_rows(estimator: Any, X: Any, *, reset: bool = True) -> Array:
    """Return `X` as finite rows: an ndarray, or a tensor where a tensor was given."""
    if is_foreign_array(X):
        tensor = checked_tensor(estimator, X, reset=reset)
        if not bool(namespace_of(X).all(namespace_of(X).isfinite(tensor))):
            raise InvalidInputError("Input X contains NaN or infinity.")
        return tensor
    try:
        return validate_data(estimator, X, reset=reset, dtype=FLOATS)
    except ValueError as error:
        message = str(error)
        if "could not convert" in message:  # the original quotes the value
            message = "The rows must contain numbers; a text was found that is not a number."
        raise InvalidInputError(message) from None


def check_queries(estimator: Any, X: Any) -> Array:
    """Return `X` as rows of the width that the fitted estimator expects, none too large."""
    check_is_fitted(estimator)
    return clip_to_finite(check_rows(estimator, X, reset=False))


def check_labels(y: Any, n_rows: int) -> NDArray[Any]:
    """Return the labels as a 1-D array of the same length as the rows."""
    if y is None:
        raise InvalidInputError("requires y to be passed, but the target y is None.")
    try:
        labels = column_or_1d(to_numpy(y), warn=True)
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
    except ValueError as error:
        raise InvalidInputError(str(error)) from None
    if len(labels) != n_rows:
        raise InvalidInputError(
            f"'y' must have one label per row. Got inconsistent numbers: {len(labels)} labels and "
            f"{n_rows} rows."
        )
    return np.asarray(labels)
