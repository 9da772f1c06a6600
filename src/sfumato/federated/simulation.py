"""Rows dealt to parties, for simulations: the scenarios of both papers.

A deal is part of what is released, so it must not undo the promise: one changed record may change
the rows of one party only. By place it does so where the number of rows is public and a record is
replaced; by the record itself it does so where a record is added or removed.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from sfumato.exceptions import InvalidInputError
from sfumato.federated.party import Party, Terms, labels_of
from sfumato.privacy.guarantee import Relation
from sfumato.tables.bounds import PUBLIC_LABELS, Bounds
from sfumato.tables.cells import as_cells, as_rows
from sfumato.tables.encoder import TableEncoder
from sfumato.tables.schema import TableBounds

BY_LABEL = ("one-class-each", "two-per-class")
SCENARIOS = (*BY_LABEL, "random", "uneven")
# Shares of the uneven scenario: the sizes 100, 500, 1000, 5000, 10000 of the paper's Figure 5.
UNEVEN = (0.1, 0.5, 1.0, 5.0, 10.0)
DEALT_BY_LABEL = (
    "the label of every record and the number of records of every party are public, since this "
    "simulation deals records by their labels"
)
LABELS_FOUND = "the set of labels is public, since this simulation has a party for each label found"


def spread(
    y: ArrayLike,
    scenario: str,
    n_parties: int | None = None,
    *,
    rows: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    random_state: Any = None,
) -> list[NDArray[np.intp]]:
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
    wanted = 10 if n_parties is None else n_parties
    if scenario in BY_LABEL:
        sizes = np.ones(1 + BY_LABEL.index(scenario))  # of one class
        known = np.unique(given) if labels is None else np.asarray(labels)
        groups = [given == label for label in known]
    elif wanted < 1:
        raise InvalidInputError(f"'n_parties' must be at least 1. Got {wanted} instead.")
    else:
        sizes = np.ones(wanted) if scenario == "random" else np.resize(UNEVEN, wanted)
        groups = [np.ones(len(given), dtype=bool)]
    ends = np.cumsum(sizes) / sizes.sum()
    generator = check_random_state(random_state)
    parts: list[NDArray[np.intp]] = []
    if rows is not None:
        # In doubles, whatever the others are: one missing number makes a whole table of integers
        # doubles. The label is left out for the same reason.
        table = np.ascontiguousarray(as_rows(rows), dtype=np.float64)
        key = generator.bytes(32)
        digests = (hashlib.blake2b(row.tobytes(), key=key, digest_size=8).digest() for row in table)
        words = np.frombuffer(b"".join(digests), dtype="<u8")
        chances = (words >> np.uint64(11)) * 2.0**-53  # in [0, 1), by the key and this row alone
        owners = np.searchsorted(ends[:-1], chances, side="right")
        for group in groups:
            parts += [np.flatnonzero(group & (owners == number)) for number in range(len(ends))]
        return parts
    order = generator.permutation(len(given))
    for group in groups:
        mine = order[group[order]]
        cuts = np.round(ends * len(mine)).astype(int)[:-1]
        parts += [np.sort(part) for part in np.split(mine, cuts)]
    if min(map(len, parts)) == 0:
        raise InvalidInputError(f"{len(given)} rows are too few for this number of parties.")
    return parts


def make_parties(
    X: Any,
    y: ArrayLike | None,
    folder: Path | str,
    *,
    scenario: str = "random",
    n_parties: int | None = None,
    relation: str = "replace_one",
    bounds: Bounds | TableBounds | None = None,
    ledger: Callable[[str], Any] | None = None,
    random_state: Any = None,
) -> list[Party]:
    """Spread rows, or the records of a table, over parties.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features) or table
        All rows; with a `TableBounds`, an Arrow table or a frame of pandas or polars.
    y : array-like of shape (n_samples,) or None
        Their labels; those of a table are in the table.
    folder : path-like
        Each party keeps its releases in a folder of its own in there.
    scenario : {"one-class-each", "two-per-class", "random", "uneven"}, default="random"
        See `sfumato.federated.spread`.
    n_parties : int, optional
        For the scenarios that need it.
    relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        The only relation of tasks that these parties accept. It decides the deal: by the places of
        the records where their number is public, by each record alone where it is not.
    bounds : Bounds or TableBounds, optional
        What the parties agreed on; any budget is accepted, since nothing leaves this process.
        They list the labels that have a party, in the scenarios that deal by label.
    ledger : callable, optional
        Returns the budget of the party of a name.
    random_state : int, RandomState or None
        The deal.

    Returns
    -------
    list of Party
        The parties.

    Notes
    -----
    One changed record changes the rows of one party. Not so if a record is replaced and parties
    follow from labels: then the total of `simulate` is on condition that labels are public.
    """
    table = bounds if isinstance(bounds, TableBounds) else None
    if table is not None:
        rows = TableEncoder(table).transform(X)
        is_labelled = labels_of(table) not in (None, PUBLIC_LABELS)
        labels = as_cells(table.target_of(X)) if is_labelled else np.zeros(len(rows), dtype=int)
    else:
        rows = as_rows(X, None if bounds is None else bounds.n_features)  # type: ignore[union-attr]
        labels = as_cells(y)
    declared = None if bounds is None else labels_of(bounds)
    n_is_public, listed, dealt = Relation(relation) is Relation.REPLACE_ONE, None, labels
    if declared not in (None, PUBLIC_LABELS):
        codes, known = Bounds(norm=1.0, labels=declared).clip_labels(labels)
        dealt, listed = codes, np.arange(len(known))
    parts = spread(
        dealt,
        scenario,
        n_parties,
        rows=None if n_is_public else rows,
        labels=listed,
        random_state=random_state,
    )
    told: tuple[str, ...] = ()
    if scenario in BY_LABEL and n_is_public:
        told = (DEALT_BY_LABEL,)
    elif scenario in BY_LABEL and listed is None:
        told = (LABELS_FOUND,)
    agreed = None if table is not None else bounds
    terms = Terms(
        agreed,  # type: ignore[arg-type]
        max_epsilon=math.inf,
        max_delta=1.0,
        relation=relation,
        colluding=0,
        table=table,
    )
    parties = []
    for number, part in enumerate(parts):
        name = f"party-{number}"
        rights: dict[str, Any] = {"terms": terms, "conditions": told}
        rights["ledger"] = None if ledger is None else ledger(name)
        store = Path(folder) / name
        if table is None:
            parties.append(Party.of_rows(name, rows[part], labels[part], store, **rights))
            continue
        some = X.take(part) if hasattr(X, "take") else X[part]
        parties.append(Party.of_table(name, some, store, bounds=table, **rights))
    return parties
