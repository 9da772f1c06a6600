"""How rows are spread over parties, for simulations: the scenarios of both papers.

A deal is part of what is released, so it must not undo the promise: one changed record may change
the rows of one party only. By place it does so where the number of rows is public and a record is
replaced; by the record itself it does so where a record is added or removed.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from sfumato.exceptions import InvalidInputError
from sfumato.tables.cells import as_rows

BY_LABEL = ("one-class-each", "two-per-class")
SCENARIOS = (*BY_LABEL, "random", "uneven")
# Shares of the uneven scenario: the sizes 100, 500, 1000, 5000, 10000 of the paper's Figure 5.
UNEVEN = (0.1, 0.5, 1.0, 5.0, 10.0)

Places = NDArray[np.intp]


def spread(
    y: ArrayLike,
    scenario: str,
    n_parties: int | None = None,
    *,
    rows: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    random_state: Any = None,
) -> list[Places]:
    """Return the rows of every party, as positions.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels.
    scenario : {"one-class-each", "two-per-class", "random", "uneven"}
        One party a class; two parties a class; rows dealt out at random in equal parts; random
        parts of sizes 1 : 5 : 10 : 50 : 100, repeated.
    n_parties : int, optional
        For "random" and "uneven" (default 10); the other two follow from the labels.
    rows : array-like of shape (n_samples, n_features), optional
        Deal each record by a keyed hash of its own row instead of by its place: parts are then
        equal on average only, a party may be empty, and adding or removing a record changes the
        rows of one party.
    labels : array-like, optional
        The public label set, for the first two scenarios; by default the labels that occur.
    random_state : int, RandomState or None
        The deal: the order of places, or the key.

    Returns
    -------
    list of ndarray
        Places of the rows of each party.
    """
    given = np.asarray(y)
    if scenario not in SCENARIOS:
        raise InvalidInputError(f"'scenario' must be one of {SCENARIOS}. Got {scenario!r} instead.")
    known = np.unique(given) if labels is None else np.asarray(labels)
    shares = _shares(scenario, 10 if n_parties is None else n_parties)
    generator = check_random_state(random_state)
    everybody = np.ones(len(given), dtype=bool)
    groups = [given == label for label in known] if scenario in BY_LABEL else [everybody]
    if rows is not None:
        chances = _chances(rows, generator.bytes(32))
        return [part for group in groups for part in _by_chance(group, chances, shares)]
    order = generator.permutation(len(given))
    parts = [part for group in groups for part in _by_place(order[group[order]], shares)]
    if min(map(len, parts)) == 0:
        raise InvalidInputError(f"{len(given)} rows are too few for so many parties.")
    return parts


def _shares(scenario: str, n_parties: int) -> NDArray[np.float64]:
    """Return where the share of each party ends; of a class where parties follow from labels."""
    if scenario in BY_LABEL:
        sizes = np.ones(1 + BY_LABEL.index(scenario))
    elif n_parties < 1:
        raise InvalidInputError(f"'n_parties' must be at least 1. Got {n_parties} instead.")
    else:
        sizes = np.ones(n_parties) if scenario == "random" else np.resize(UNEVEN, n_parties)
    return np.asarray(np.cumsum(sizes) / sizes.sum())


def _by_place(order: Places, shares: NDArray[np.float64]) -> list[Places]:
    ends = np.round(shares * len(order)).astype(int)
    return [np.sort(part) for part in np.split(order, ends[:-1])]


def _by_chance(
    group: NDArray[np.bool_], chances: NDArray[np.float64], shares: NDArray[np.float64]
) -> list[Places]:
    owners = np.searchsorted(shares[:-1], chances, side="right")
    return [np.nonzero(group & (owners == number))[0] for number in range(len(shares))]


def _chances(rows: ArrayLike, key: bytes) -> NDArray[np.float64]:
    """Assign each row a number in [0, 1) that depends on the key and on this row alone."""
    # In doubles, whatever the others are: one missing number makes a whole table of integers
    # doubles. The label is left out for the same reason.
    table = np.ascontiguousarray(as_rows(rows), dtype=np.float64)
    digests = (hashlib.blake2b(row.tobytes(), key=key, digest_size=8).digest() for row in table)
    words = np.frombuffer(b"".join(digests), dtype="<u8")
    return np.asarray((words >> np.uint64(11)) * 2.0**-53)
