"""How rows are spread over parties, for simulations: the scenarios of both papers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from sfumato.exceptions import InvalidInputError

__all__ = ["SCENARIOS", "spread"]

# Shares of the uneven scenario: the sizes 100, 500, 1000, 5000, 10000 of the paper's Figure 5.
UNEVEN = (0.1, 0.5, 1.0, 5.0, 10.0)


def spread(
    y: ArrayLike, scenario: str, n_parties: int | None = None, *, random_state: Any = None
) -> list[NDArray[np.intp]]:
    """Give the rows of every party, as positions.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels.
    scenario : {"one-class-each", "two-per-class", "random", "uneven"}
        One party a class; two parties a class; rows dealt out at random in equal parts; random
        parts of sizes 1 : 5 : 10 : 50 : 100, repeated.
    n_parties : int, optional
        For "random" and "uneven" (default 10); the other two follow from the labels.
    random_state : int, RandomState or None
        The deal.

    Returns
    -------
    list of ndarray
        Places of the rows of each party.
    """
    labels = np.asarray(y)
    generator = check_random_state(random_state)
    if scenario not in SCENARIOS:
        raise InvalidInputError(f"'scenario' must be one of {SCENARIOS}. Got {scenario!r} instead.")
    order = generator.permutation(len(labels))
    if scenario in ("one-class-each", "two-per-class"):
        cuts = 1 if scenario == "one-class-each" else 2
        by_class = [order[labels[order] == label] for label in np.unique(labels)]
        parts = [np.sort(part) for rows in by_class for part in np.array_split(rows, cuts)]
    else:
        parts = _dealt(order, scenario, 10 if n_parties is None else n_parties)
    if min(map(len, parts)) == 0:
        raise InvalidInputError(f"{len(labels)} rows are too few for so many parties.")
    return parts


def _dealt(order: NDArray[np.intp], scenario: str, n_parties: int) -> list[NDArray[np.intp]]:
    if n_parties < 1:
        raise InvalidInputError(f"'n_parties' must be at least 1. Got {n_parties} instead.")
    sizes = np.ones(n_parties) if scenario == "random" else np.resize(UNEVEN, n_parties)
    ends = np.round(np.cumsum(sizes) / sizes.sum() * len(order)).astype(int)
    return [np.sort(part) for part in np.split(order, ends[:-1])]


SCENARIOS = ("one-class-each", "two-per-class", "random", "uneven")
