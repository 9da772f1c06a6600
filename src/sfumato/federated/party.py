"""A party: its rows, its ledger, its store of releases, and the right to say no."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.exceptions import FederationError, InvalidInputError, SfumatoError
from sfumato.federated import hulls
from sfumato.federated.messages import Reply, Request
from sfumato.federated.release_store import ReleaseStore
from sfumato.federated.schema import Asked, read_request
from sfumato.federated.secure import Identity
from sfumato.federated.sums import BEGIN, PartySums
from sfumato.federated.terms import Terms, labels_of
from sfumato.tables.encoder import TableEncoder
from sfumato.tables.schema import TableBounds

Rows = tuple[NDArray[Any], NDArray[Any]]

_log = logging.getLogger("sfumato.federated")


class Party:
    """One owner of rows in a federation.

    Parameters
    ----------
    name : str
        How the others know it.
    load : callable
        Returns rows and labels; called only when a release is made.
    store : path-like
        Folder of the party's releases and of its log of messages.
    ledger : DatasetBudget, optional
        Pays for every release; a federation in earnest always has one.
    terms : Terms, optional
        What the party agreed to; a request on other terms is refused.
    execution : mapping, optional
        How this party runs an estimator, such as ``{"n_jobs": 2}``.
    conditions : sequence of str, optional
        What else must hold for a promise about its rows, such as how a simulation dealt them.
    identity : Identity, optional
        Its key for secure sums; by default a new one, for simulations.
    registered : mapping of str to str, optional
        Public keys of the other parties, by name; by default those that a coordinator sends are
        believed, for simulations.
    table : callable, optional
        Returns the table itself, for sums over tables; see `of_table`.
    """

    def __init__(
        self,
        name: str,
        load: Callable[[], Rows],
        store: str | os.PathLike[str],
        *,
        ledger: Any = None,
        terms: Terms | None = None,
        execution: Mapping[str, Any] | None = None,
        conditions: Sequence[str] = (),
        identity: Identity | None = None,
        registered: Mapping[str, str] | None = None,
        table: Callable[[], Any] | None = None,
    ) -> None:
        self.name = name
        self.load = load
        self.store = ReleaseStore(store)
        self.ledger = ledger
        self.terms = Terms() if terms is None else terms
        self.execution = dict(execution or {})
        self.conditions = tuple(conditions)
        self.sums = PartySums(
            name,
            self._rows,
            self.store,
            ledger,
            self.terms,
            identity,
            registered,
            None if table is None else lambda: self._read(table),
        )

    @classmethod
    def of_rows(
        cls, name: str, X: ArrayLike, y: ArrayLike, store: str | os.PathLike[str], **rights: Any
    ) -> Party:
        """Make a party of rows in memory, for simulations.

        Parameters
        ----------
        name : str
            The party.
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Labels.
        store : path-like
            Where it keeps its releases.
        **rights : object
            Other fields of the party, such as `ledger` and `terms`.
        """
        rows, labels = np.asarray(X), np.asarray(y)
        return cls(name, lambda: (rows, labels), Path(store), **rights)

    @classmethod
    def of_table(
        cls,
        name: str,
        table: Any,
        store: str | os.PathLike[str],
        *,
        bounds: TableBounds,
        **rights: Any,
    ) -> Party:
        """Make a party of a table in memory, for simulations.

        Parameters
        ----------
        name : str
            The party.
        table : table
            Of pandas, polars or Arrow, with the columns that the bounds declare.
        store : path-like
            Where it keeps its releases.
        bounds : TableBounds
            Public facts about the table.
        **rights : object
            Other fields of the party, such as `ledger` and `terms`.
        """
        encoder = TableEncoder(bounds)
        rights.setdefault("terms", Terms(encoder.row_bounds(), table=bounds))

        def load() -> Rows:
            return encoder.transform(table), np.asarray(bounds.target_of(table))

        return cls(name, load, Path(store), table=lambda: table, **rights)

    def answer(self, request: Request) -> Reply:
        """Answer a request, or refuse it in a sentence; never with an unknown error's text.

        Parameters
        ----------
        request : Request
            What a coordinator asks.

        Returns
        -------
        Reply
            The release, the stored one if it was made before, or a refusal.
        """
        try:
            reply = self._answer(read_request(request, self.terms.table))
        except SfumatoError as error:
            reply = Reply(self.name, refusal=str(error))
        except Exception:
            # Its text may hold values of rows, so it stays here.
            _log.exception("%s could not answer a request", self.name)
            reply = Reply(
                self.name, refusal="An error that the party keeps to itself; see its log."
            )
        self.store.log(request, reply)
        return reply

    def _answer(self, asked: Asked) -> Reply:
        request, settings = asked.request, asked.settings
        if asked.phase == hulls.FIT:
            made = self.store.released(request, lambda: self._fit_hulls(asked))
            return Reply(self.name, made.facts) if settings["serve"] == "distances" else made
        if asked.phase == hulls.DISTANCES:
            fitted = self.store.earlier(request, hulls.FIT)
            if fitted is None:
                raise FederationError(f"The hulls of the task '{request.task}' were never fitted.")
            return Reply(self.name, *hulls.distances(settings["queries"], fitted))
        return self.sums.answer(asked)

    def _fit_hulls(self, asked: Asked) -> Reply:
        """Make a release; the store holds the lock of the task meanwhile."""
        estimator = asked.settings["estimator"]
        bounds = estimator.bounds
        if bounds is None or labels_of(bounds) is None:
            raise FederationError(f"{self.name} refuses: the labels must be listed in the bounds.")
        self.terms.require(
            self.name,
            bounds=bounds,
            unit=estimator.unit,
            relation=estimator.relation,
            epsilon=estimator.epsilon,
            delta=estimator.delta,
            entry_bound=getattr(estimator, "entry_bound", None),
        )
        self.store.require_free(asked.request, BEGIN)  # what a name costs is settled once
        found = hulls.fit_hulls(estimator, self._rows, self.ledger, self.execution)
        return Reply(self.name, *found)

    def _rows(self) -> Rows:
        """Load the rows; what is wrong with them, and where they are, is nobody else's business."""
        rows: Rows = self._read(self.load)
        return rows

    def _read(self, load: Callable[[], Any]) -> Any:
        try:
            return load()
        except Exception:
            _log.exception("%s could not read its rows", self.name)
            raise FederationError(f"{self.name} cannot read its rows; see its log.") from None


def check_parties(parties: Any) -> list[Party]:
    """Check that names tell the parties apart."""
    found = list(parties)
    names = [party.name for party in found]
    if not found or len(set(names)) != len(names):
        raise InvalidInputError("A federation needs parties, each with a name of its own.")
    return found
