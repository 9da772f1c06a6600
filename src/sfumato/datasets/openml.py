"""Data sets from OpenML, through scikit-learn, which checks and keeps what it downloads."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import fetch_openml

from sfumato.exceptions import InvalidInputError

# Number of the data set, and the rows to learn from where OpenML keeps the published order.
NUMBERS = {
    "mnist": (554, 60000),
    "fashion-mnist": (40996, 60000),
    "usps": (41082, None),
    "cifar10": (40927, None),
    "adult": (1590, None),
}


def fetch(name: str) -> tuple[dict[str, NDArray[Any]], NDArray[Any], int | None]:
    """Return columns, labels and the number of rows to learn from."""
    number, n_train = NUMBERS[name]
    mixed = name == "adult"
    try:
        found = fetch_openml(data_id=number, as_frame=mixed, parser="auto")
    except OSError as error:  # no network, no such host, time out
        raise InvalidInputError(
            f"The data set '{name}' could not be fetched from OpenML ({type(error).__name__}). Set "
            "SFUMATO_DATA to a folder that has it, or choose an embedded one: digits, "
            "breast-cancer, wine."
        ) from None
    except ImportError:
        raise InvalidInputError(
            f"The data set '{name}' needs pandas: pip install pandas."
        ) from None
    if mixed:
        columns = {str(each): np.asarray(found.data[each]) for each in found.data.columns}
        return columns, np.asarray(found.target).astype(str), n_train
    names = [str(each) for each in found.feature_names]
    return dict(zip(names, found.data.T, strict=True)), _numbers(found.target), n_train


def _numbers(labels: Any) -> NDArray[Any]:
    return np.asarray(labels).astype(np.int64)
