"""Federations in simulation: the same parties and tasks, without a network."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.core.parallel import map_in_parallel
from sfumato.federated.coordination import FederatedResult, run_task
from sfumato.federated.hulls import HullTask
from sfumato.federated.messages import Reply, Request
from sfumato.federated.party import Party, check_parties
from sfumato.federated.scenarios import BY_LABEL, spread
from sfumato.federated.terms import Terms, labels_of
from sfumato.privacy.guarantee import Relation
from sfumato.tables.bounds import PUBLIC_LABELS, Bounds
from sfumato.tables.cells import as_cells, as_rows
from sfumato.tables.encoder import TableEncoder
from sfumato.tables.schema import TableBounds

DEALT_BY_LABEL = (
    "the label of every record and the number of records of every party are public, since this "
    "simulation deals records by their labels"
)
LABELS_FOUND = "the set of labels is public, since this simulation has a party for each label found"


def make_parties(
    X: ArrayLike,
    y: ArrayLike,
    folder: Path | str,
    *,
    scenario: str = "random",
    n_parties: int | None = None,
    relation: str = "replace_one",
    bounds: Bounds | None = None,
    ledger: Callable[[str], Any] | None = None,
    random_state: Any = None,
) -> list[Party]:
    """Spread rows over parties.

    Parameters
    ----------
    X, y : array-like
        All rows and labels.
    folder : path-like
        Each party keeps its releases in a folder of its own in there.
    scenario : {"one-class-each", "two-per-class", "random", "uneven"}, default="random"
        See `sfumato.federated.spread`.
    n_parties : int, optional
        For the scenarios that need it.
    relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        The only relation of tasks that these parties accept. It decides the deal: by the places of
        the records where their number is public, by each record alone where it is not.
    bounds : Bounds, optional
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
    rows, labels = as_rows(X, None if bounds is None else bounds.n_features), as_cells(y)
    n_is_public = Relation(relation) is Relation.REPLACE_ONE
    listed, clipped = None, labels
    if bounds is not None and bounds.labels not in (None, PUBLIC_LABELS):
        codes, listed = bounds.clip_labels(labels)
        clipped = listed[codes]
    parts = spread(
        clipped,
        scenario,
        n_parties,
        rows=None if n_is_public else rows,
        labels=listed,
        random_state=random_state,
    )
    names = [f"party-{number}" for number in range(len(parts))]
    return [
        Party.of_rows(
            name,
            rows[part],
            labels[part],
            Path(folder) / name,
            terms=Terms(
                bounds, max_epsilon=math.inf, max_delta=1.0, relation=relation, colluding=0
            ),
            ledger=None if ledger is None else ledger(name),
            conditions=_conditions(scenario, n_is_public=n_is_public, listed=listed is not None),
        )
        for name, part in zip(names, parts, strict=True)
    ]


def make_table_parties(
    table: Any,
    folder: Path | str,
    *,
    bounds: TableBounds,
    scenario: str = "random",
    n_parties: int | None = None,
    relation: str = "replace_one",
    random_state: Any = None,
) -> list[Party]:
    """Spread the records of a table over parties.

    Parameters
    ----------
    table : table
        An Arrow table, or a frame of pandas or polars.
    folder : path-like
        Each party keeps its releases in a folder of its own in there.
    bounds : TableBounds
        What the parties agreed on; any budget is accepted, since nothing leaves this process.
    scenario, n_parties, relation, random_state : object
        As in `make_parties`.

    Returns
    -------
    list of Party
        The parties.
    """
    rows = TableEncoder(bounds).transform(table)
    target = bounds.target_of(table)
    n_is_public = Relation(relation) is Relation.REPLACE_ONE
    listed, labels = None, np.zeros(len(rows), dtype=int)
    if target is not None and labels_of(bounds) not in (None, PUBLIC_LABELS):
        labels, listed = Bounds(norm=1.0, labels=labels_of(bounds)).clip_labels(target)
    parts = spread(
        labels,
        scenario,
        n_parties,
        rows=None if n_is_public else rows,
        labels=None if listed is None else np.arange(len(listed)),
        random_state=random_state,
    )
    terms = Terms(max_epsilon=math.inf, max_delta=1.0, relation=relation, colluding=0, table=bounds)
    told = _conditions(scenario, n_is_public=n_is_public, listed=listed is not None)
    return [
        Party.of_table(
            f"party-{number}",
            _taken(table, part),
            Path(folder) / f"party-{number}",
            bounds=bounds,
            terms=terms,
            conditions=told,
        )
        for number, part in enumerate(parts)
    ]


def _taken(table: Any, places: NDArray[np.intp]) -> Any:
    """Return some records of a table of pandas, polars or Arrow."""
    if hasattr(table, "take") and hasattr(table, "iloc"):
        return table.iloc[places]
    return table.take(places) if hasattr(table, "take") else table[places]


def _conditions(scenario: str, *, n_is_public: bool, listed: bool) -> tuple[str, ...]:
    """Return what must hold for a deal to keep the promise."""
    if scenario not in BY_LABEL:
        return ()
    if n_is_public:
        return (DEALT_BY_LABEL,)
    return () if listed else (LABELS_FOUND,)


def simulate(
    parties: Iterable[Party],
    task: HullTask,
    *,
    min_parties: int = 1,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> FederatedResult:
    """Run a federated task in this process.

    Parameters
    ----------
    parties : iterable of Party
        Who takes part.
    task : HullTask
        What is learned.
    min_parties : int, default=1
        A round with fewer usable replies fails.
    n_jobs : int, optional
        Threads in which parties answer, see joblib.
    verbose : bool, default=False
        Show a progress bar for every round.

    Returns
    -------
    FederatedResult
        The global model, the guarantee of each party, and their total by parallel composition,
        on condition that each person has records at one party only.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_digits
    >>> from sfumato import Bounds, EntryHullClassifier
    >>> from sfumato.federated import HullTask, make_parties, simulate
    >>> X, y = load_digits(return_X_y=True)
    >>> bounds = Bounds(lower=0.0, upper=16.0, labels=range(10))
    >>> hulls = EntryHullClassifier(
    ...     n_layers=1, epsilon=16.0, delta=1e-5, bounds=bounds, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     parties = make_parties(X, y, folder, scenario="one-class-each", bounds=bounds)
    ...     found = simulate(parties, HullTask("digits", hulls))
    >>> bool(found.model.score(X, y) > 0.9), len(found.guarantees)
    (True, 10)
    """
    everybody = check_parties(parties)

    def ask(request: Request) -> list[Reply]:
        title = request.phase if verbose else None
        return map_in_parallel(
            lambda party: party.answer(request), everybody, n_jobs=n_jobs, progress=title
        )

    conditions = dict.fromkeys(each for party in everybody for each in party.conditions)
    return run_task(task, ask, min_parties=min_parties, conditions=tuple(conditions))
